"""Folds a run's events into its state. Nothing is refused here: it has happened."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from types import MappingProxyType
from typing import assert_never, get_args

from watchkeeper.domain.envelope import Event
from watchkeeper.domain.events import (
    AncestorNamed,
    CheckpointRejected,
    CheckpointValidated,
    CheckRecorded,
    ContractAmended,
    CorrectionRecorded,
    DecisionMade,
    EscalationAcknowledged,
    EscalationRaised,
    FailureClassified,
    FindingCleared,
    FindingOpened,
    HandoverEvent,
    InstanceEnded,
    InstanceLaunched,
    LaunchApproved,
    LaunchRefused,
    LaunchRequested,
    ManoeuvreEvent,
    MilestoneVerified,
    NoteAdded,
    PreflightRecorded,
    RelaunchRequested,
    RollbackApproved,
    RollbackPlanned,
    RunAbandoned,
    RunDrafted,
    RunEvent,
    RunFinished,
    RunSealed,
    RunStopped,
    RunSuperseded,
    SealBlocked,
    SealVerified,
    StopRequested,
    TrackerAnnounced,
    WatchReleased,
    WatchTaken,
)
from watchkeeper.domain.evolve_manoeuvres import evolve_aside, with_rejection
from watchkeeper.domain.evolve_people import permitted
from watchkeeper.domain.misfit import Misfit
from watchkeeper.domain.people import Actor
from watchkeeper.domain.phases import (
    PHASES,
    Abandoned,
    Cleared,
    Draft,
    Finished,
    Interrupted,
    Launching,
    Phase,
    Running,
    Sealed,
    Stabilizing,
    Stopped,
    Unborn,
    phase_name,
)
from watchkeeper.domain.state import (
    UNACCOUNTED,
    Approval,
    Checkpoint,
    Failure,
    Instance,
    LastCheck,
    Question,
    Run,
    Unreadable,
    Watch,
    is_moving,
)

_CHECKPOINTS_KEPT = 256
"""Validated checkpoints remembered in state: the newest; older ones stay in the events."""


_FITS: Mapping[type[RunEvent], tuple[type[Phase], ...]] = MappingProxyType(
    {
        RunDrafted: (Unborn,),
        ContractAmended: (Draft, Cleared),
        # While it lives or is interrupted, what is approved is a rollback or a relaunch.
        LaunchApproved: (Draft, Cleared, Stabilizing, Running, Interrupted),
        LaunchRequested: (Draft, Cleared, Interrupted),
        InstanceLaunched: (Launching,),
        LaunchRefused: (Launching,),
        CheckRecorded: (Stabilizing, Running, Interrupted),
        InstanceEnded: (Stabilizing, Running),
        StopRequested: (Launching, Stabilizing, Running),
        RunFinished: (Interrupted,),
        SealBlocked: (Finished, Stopped),
        SealVerified: (Finished, Stopped),
        RunSealed: (Finished,),
        RunStopped: (Draft, Cleared, Interrupted),
        RunAbandoned: (Draft, Cleared, Interrupted, Finished),
        RelaunchRequested: (Stabilizing, Running, Interrupted),
        RollbackPlanned: (Stabilizing, Running, Interrupted),
        RollbackApproved: (Stabilizing, Running, Interrupted),
        RunSuperseded: (Interrupted, Finished, Stopped, Abandoned),
        AncestorNamed: (Draft, Cleared),
        MilestoneVerified: (Stabilizing, Running, Interrupted, Finished),
    }
)
"""Where an event that moves a run on can have happened; so terminal facts are there once."""


_BORN = tuple(phase for phase in PHASES if phase is not Unborn)
_RUN_EVENTS: tuple[type[RunEvent], ...] = get_args(RunEvent)


def evolve(run: Run | Unreadable, event: Event) -> Run | Unreadable:
    """Apply one recorded event.

    An event that does not fit makes the run `Unreadable` from there on; this never raises.
    """
    if isinstance(run, Unreadable):
        return run
    if event.version != run.version + 1:
        return Unreadable(run.slug, run.version, f"event {run.version + 1} is missing")
    data = event.data
    if not isinstance(data, _RUN_EVENTS):
        return Unreadable(run.slug, run.version, f"{data.topic} is not an event of a run")
    if isinstance(run.phase, Sealed):
        return Unreadable(run.slug, run.version, "an event follows the seal")
    if not isinstance(run.phase, _FITS.get(type(data), _BORN)):
        why = f"{data.topic} does not fit a run that is {phase_name(run.phase)}"
        return Unreadable(run.slug, run.version, why)
    try:
        after = _apply(run, data, event)
        moved = type(after.phase) is not type(run.phase)
        since = event.at if moved else run.since
        return replace(after, version=event.version, since=since)
    except Misfit as misfit:
        return Unreadable(run.slug, run.version, f"{data.topic}: {misfit}")


def fold(slug: str, events: Iterable[Event]) -> Run | Unreadable:
    """Fold a run's whole history."""
    run: Run | Unreadable = Run(slug)
    for event in events:
        run = evolve(run, event)
    return run


def _apply(run: Run, data: RunEvent, event: Event) -> Run:
    if isinstance(data, HandoverEvent | ManoeuvreEvent):
        return evolve_aside(run, data, event)
    at = event.at
    match data:
        case CheckRecorded():  # The most frequent event comes first.
            return _checked(run, data, event)
        case RunDrafted():
            return replace(run, phase=Draft(), contract=data.contract)
        case ContractAmended():
            # What was cleared, or waived, was so for other words.
            void = tuple(replace(waiver, revoked=True) for waiver in run.waivers)
            return replace(
                run,
                phase=Draft(),
                contract=data.contract,
                preflight=None,
                approvals=(),
                waivers=void,
            )
        case PreflightRecorded():
            return replace(run, preflight=data, preflight_version=event.version)
        case LaunchApproved():
            by = event.envelope.actor.principal
            approval = Approval(data.approval, data.digest, data.identity, by)
            phase = Cleared() if isinstance(run.phase, Draft) else run.phase
            return replace(
                run,
                approvals=(*run.approvals, approval),
                approvals_given=run.approvals_given + 1,
                phase=phase,
            )
        case LaunchRequested():
            return _requested(run, data, at, event.envelope.actor)
        case InstanceLaunched() | LaunchRefused() | InstanceEnded():
            return _instance(run, data, at)
        case WatchTaken():
            if data.token <= run.watch.token:
                raise Misfit(f"token {data.token} was given before")
            watch = Watch(data.holder, data.token, data.lease_until, data.next_due)
            return replace(run, watch=watch)
        case WatchReleased():
            return replace(run, watch=replace(run.watch, holder=None, lease_until=None))
        case TrackerAnnounced():
            links = {**run.tracker_links, data.link.tracker_id: data.link}
            return replace(run, tracker_links=links)
        case FindingOpened():
            return replace(run, findings={**run.findings, data.kind: data})
        case FindingCleared():
            left = {kind: found for kind, found in run.findings.items() if kind != data.kind}
            return replace(run, findings=left)
        case CheckpointValidated():
            checkpoint = Checkpoint(data.step, data.path, data.kind, event.version, data.written_at)
            kept = {**run.checkpoints, data.step: checkpoint}
            newest = sorted(kept)[-_CHECKPOINTS_KEPT:]
            # Written anew after a rollback, a path stands for the new lineage.
            rejected = {path: why for path, why in run.rejected.items() if path != data.path}
            return replace(run, checkpoints={s: kept[s] for s in newest}, rejected=rejected)
        case CheckpointRejected():
            left_over = {s: c for s, c in run.checkpoints.items() if c.path != data.path}
            rejected = {**run.rejected, data.path: data.reason}
            aside = with_rejection(run.manoeuvres, data)
            return replace(run, checkpoints=left_over, rejected=rejected, manoeuvres=aside)
        case FailureClassified():
            failure = Failure(
                data.instance,
                data.cause,
                data.outlook,
                data.fingerprint,
                data.step,
                data.step_uncertainty,
                at,
                event.version,
            )
            return replace(run, failures=(*run.failures, failure))
        case DecisionMade():
            if isinstance(run.phase, Interrupted):
                return replace(run, phase=replace(run.phase, decision=data))
            return run
        case EscalationRaised():
            question = Question(data.question, data.rule, data.asks, at)
            return replace(
                run,
                questions={**run.questions, data.question: question},
                questions_raised=run.questions_raised + 1,
            )
        case EscalationAcknowledged():
            if data.question not in run.questions:
                raise Misfit(f"{data.question} is not open")
            open_ = {name: q for name, q in run.questions.items() if name != data.question}
            return replace(run, questions=open_)
        case NoteAdded() | CorrectionRecorded():
            return run
        case StopRequested():
            consents = tuple(
                replace(c, used=True) if c.name == data.consent else c for c in run.consents
            )
            # The end is looked for at once, not at the next cadence, though the watch has ended.
            live = isinstance(run.phase, Stabilizing | Running)
            watch = replace(run.watch, next_due=at) if live else run.watch
            lost = UNACCOUNTED in run.findings
            return replace(
                run,
                stop_requested=data.instance,
                given_up=data.instance if lost else run.given_up,
                consents=consents,
                watch=watch,
            )
        case (
            RunFinished() | RunStopped() | RunAbandoned() | SealBlocked() | SealVerified()
            | RunSealed()
        ):  # fmt: skip
            return _ended(run, data)
        case _:
            return permitted(run, data, event)


def _ended(
    run: Run,
    data: RunFinished | RunStopped | RunAbandoned | SealBlocked | SealVerified | RunSealed,
) -> Run:
    quiet = replace(run.watch, next_due=None)
    match data:
        case RunFinished():
            instance = last_instance_or_misfit(run)
            return replace(run, phase=Finished(instance.plan, None))
        case SealBlocked():
            return replace(run, seal_missing=data.missing)
        case SealVerified():
            # A stopped run that a human lets be sealed goes the way of a finished one.
            stopped = isinstance(run.phase, Stopped)
            if stopped and not data.waived:
                raise Misfit("the run was stopped, and nothing is waived")
            plan = last_instance_or_misfit(run).plan
            phase = Finished(plan, None) if stopped else finished_or_misfit(run)
            verified = replace(phase, verified=data)
            return replace(run, phase=verified, seal_missing=(), watch=quiet)
        case RunSealed():
            verified_seal = finished_or_misfit(run).verified
            if verified_seal is None:
                raise Misfit("the seal was not verified")
            sealed = Sealed(data.tag, data.commit, verified_seal.final_step)
            return replace(run, phase=sealed, watch=Watch(token=run.watch.token))
        case RunStopped():
            return replace(run, phase=Stopped(data.reason), watch=quiet)
        case RunAbandoned():
            return replace(run, phase=Abandoned(data.reason), watch=quiet)
        case _:
            assert_never(data)


def finished_or_misfit(run: Run) -> Finished:
    """Return the phase of a finished run.

    Raises:
        Misfit: It is not finished.
    """
    if not isinstance(run.phase, Finished):
        raise Misfit("the run is not finished")
    return run.phase


def last_instance_or_misfit(run: Run) -> Instance:
    """Return the newest instance.

    Raises:
        Misfit: There is none yet.
    """
    if not run.instances:
        raise Misfit("no instance was launched")
    return run.instances[-1]


def _requested(run: Run, data: LaunchRequested, at: datetime, actor: Actor) -> Run:
    again = (at,) if run.instances else ()
    if isinstance(run.phase, Draft) and not data.waiver:
        raise Misfit("nobody cleared it")
    facts = run.preflight.facts if run.preflight is not None else None
    config = facts.config if facts is not None else {}
    patch = facts.worktree.patch if facts is not None and facts.worktree is not None else ""
    return replace(
        run,
        phase=Launching(data.plan, at),
        instances=(*run.instances, Instance(data.plan, config=config, patch=patch)),
        asked_by=run.asked_by or (actor.principal if actor.kind == "human" else ""),
        relaunches=run.relaunches + again,
        cleared_by=data.approval or data.waiver,
        requester=run.requester or data.requester,
        # The next check waits for the job; launching itself is never late.
        watch=replace(run.watch, next_due=None),
    )


def _instance(
    run: Run, data: InstanceLaunched | LaunchRefused | InstanceEnded, at: datetime
) -> Run:
    instance = last_instance_or_misfit(run)
    if instance.plan.instance != data.instance:
        raise Misfit(f"{data.instance} is not the newest instance")
    before = run.instances[:-1]
    match data:
        case InstanceLaunched():
            contract = run.contract
            assert contract is not None, "an instance is launched under a contract"
            launched = replace(instance, launched_at=data.launched_at)
            try:
                due = at + contract.watch.after_submit
            except OverflowError as error:
                raise Misfit(f"{at.isoformat()} is at the end of the calendar") from error
            return replace(
                run,
                phase=Stabilizing(instance.plan, data.launched_at),
                instances=(*before, launched),
                watch=replace(run.watch, next_due=due),
            )
        case LaunchRefused():
            return replace(run, phase=Interrupted(instance.plan, at, None))
        case InstanceEnded():
            ended = replace(instance, end=data.job)
            return replace(
                run,
                phase=Interrupted(instance.plan, at, None),
                instances=(*before, ended),
            )
        case _:
            assert_never(data)


def _checked(run: Run, data: CheckRecorded, event: Event) -> Run:
    instance = last_instance_or_misfit(run)
    if data.instance != instance.plan.instance:
        raise Misfit(f"{data.instance} is not the newest instance")
    seen = instance
    if data.progress is not None:
        shown, uncertainty = data.progress.step, data.progress.uncertainty
        known = instance.step_best
        # Of two readings of one step, the closer one counts.
        closer = shown == known and uncertainty < instance.step_uncertainty
        if known is None or shown > known or closer:
            seen = replace(instance, step_best=shown, step_uncertainty=uncertainty)
    if data.job is not None:
        seen = replace(seen, attempts_failed=max(seen.attempts_failed, data.job.attempts_failed))
    phase = run.phase
    if isinstance(phase, Stabilizing) and is_moving(instance.plan, data.progress):
        phase = Running(phase.plan, phase.launched_at)
    return replace(
        run,
        phase=phase,
        instances=(*run.instances[:-1], seen),
        health=data.health,
        progress=data.progress or run.progress,
        last_check=LastCheck(data, event.at, event.version),
        watch=replace(run.watch, lease_until=data.lease_until, next_due=data.next_due),
    )
