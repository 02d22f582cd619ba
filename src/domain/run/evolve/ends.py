"""Folds revised causes and results of relaunches into a run.

The folds refuse nothing, because the events have happened.
"""

from dataclasses import replace
from datetime import datetime
from typing import assert_never

from watchkeeper.domain.run.checkpoints import CheckpointValidated
from watchkeeper.domain.run.ends import (
    CauseSuggested,
    Failure,
    FailureClassified,
    FailureRevised,
    FixPushed,
    HypothesesJudged,
    Judgement,
    JudgementEvent,
    RelaunchTest,
    Restart,
    ResumeProven,
)
from watchkeeper.domain.run.envelope import Event
from watchkeeper.domain.run.phases import Interrupted
from watchkeeper.domain.run.queries import earlier_of
from watchkeeper.domain.run.run import InvalidTransition, Run, contract_of
from watchkeeper.domain.values.causes import INFRASTRUCTURE
from watchkeeper.domain.values.contract.plan import LaunchPlan
from watchkeeper.domain.values.lineage import highest_before


def evolve_judgement(run: Run, data: JudgementEvent, event: Event) -> Run:
    """Apply one of these events.

    Raises:
        InvalidTransition: The revised event is not a failure of this run.
    """
    match data:
        case CauseSuggested():
            return run  # A second reader's guess: no rule may read it.
        case FailureRevised():
            return _revised(run, data, event)
        case HypothesesJudged():
            return with_judgement(run, replace(run.ends.judgement, stake=None))
        case ResumeProven():
            return with_judgement(run, replace(run.ends.judgement, proof=data.verdict))
        case FixPushed():
            return _fixed(run, data)
        case _:
            assert_never(data)


def _revised(run: Run, data: FailureRevised, event: Event) -> Run:
    if all(one.version != data.failure for one in run.ends.failures):
        raise InvalidTransition(f"event {data.failure} classifies no end")
    # An unknown cause turned out to be outside of the run, so the failure is excused.
    excused = data.cause in INFRASTRUCTURE and data.before not in INFRASTRUCTURE
    failures = tuple(
        replace(
            one,
            cause=data.cause,
            outlook=data.outlook,
            fingerprint=data.fingerprint,
            evidence=data.evidence,
            revised=event.version,
            excused=excused or (one.excused and data.cause in INFRASTRUCTURE),
        )
        if one.version == data.failure
        else one
        for one in run.ends.failures
    )
    return replace(run, ends=replace(run.ends, failures=failures))


def _fixed(run: Run, data: FixPushed) -> Run:
    contract = contract_of(run)
    changes: dict[str, object] = {"git_sha": data.git_sha}
    changes |= {"bundle": data.bundle} if data.bundle else {}
    changes |= {"container": data.container} if data.container else {}
    changes |= {"built_from": data.git_sha} if contract.code.built_from else {}
    code = contract.code.model_copy(update=changes)
    approvals = tuple(
        replace(one, also=(*one.also, data.identity)) if one.name == data.approval else one
        for one in run.permits.approvals
    )
    judgement = run.ends.judgement
    fixed = replace(
        run,
        contract=contract.model_copy(update={"code": code}),
        permits=replace(run.permits, approvals=approvals),
    )
    return with_judgement(fixed, replace(judgement, fixes=(*judgement.fixes, data.git_sha)))


def with_judgement(run: Run, judgement: Judgement) -> Run:
    """Return a run with another judgement of its newest relaunch."""
    return replace(run, ends=replace(run.ends, judgement=judgement))


def failure_of(run: Run, data: FailureClassified, event: Event) -> Failure:
    """Return the remembered form of an end."""
    end = run.instances[-1].end if run.instances else None
    last = run.watch.last_check.event if run.watch.last_check is not None else None
    return Failure(
        instance=data.instance,
        cause=data.cause,
        outlook=data.outlook,
        fingerprint=data.fingerprint,
        step=data.step,
        step_uncertainty=data.step_uncertainty,
        at=event.at,
        version=event.version,
        evidence=data.evidence,
        nodes=data.nodes,
        findings=data.findings,
        traced=last is not None and last.instance == data.instance and last.traceback,
        ended_at=end.ended_at if end is not None else None,
    )


def tested_by_relaunch(run: Run, plan: LaunchPlan) -> Judgement:
    """Return what a launch that is requested now will test."""
    before = run.ends.judgement
    decided = run.phase.decision if isinstance(run.phase, Interrupted) else None
    stake = None
    if run.instances and decided is not None and decided.hypotheses:
        stake = RelaunchTest(before.decided, run.instances[-1].plan.instance, decided.hypotheses)
    resumes = bool(run.instances) and plan.resume_step is not None
    return Judgement(
        decided=before.decided,
        stake=stake,
        resumed=plan.instance if resumes else "",
        high_water=highest_before(earlier_of(run), plan.instance),
        fixes=before.fixes,
    )


def with_acceptance(judgement: Judgement, rule: str) -> Judgement:
    """Return a judgement after a human acknowledged a rule's question."""
    taken = rule == "H9" and judgement.proof == "differs"
    return replace(judgement, proof="accepted") if taken else judgement


def with_progress_gained(run: Run, data: CheckpointValidated) -> tuple[Restart, ...]:
    """Return the restarts, with the newest one updated by a newly validated checkpoint.

    Only a checkpoint written by the restarted instance is progress. A late checkpoint of the
    previous instance was written, or seen without metadata, before the launch.
    """
    newest = run.ends.restarts[-1] if run.ends.restarts else None
    if newest is None or newest.instance != data.instance:
        return run.ends.restarts
    launched = run.instances[-1].launched_at
    since = data.written_at or seen_unverified_at(run, data)
    inherited = since is not None and launched is not None and since <= launched
    if inherited or (newest.resume_step is not None and data.step <= newest.resume_step):
        return run.ends.restarts
    better = max(data.step, newest.gained if newest.gained is not None else data.step)
    return (*run.ends.restarts[:-1], replace(newest, gained=better))


def seen_unverified_at(run: Run, data: CheckpointValidated) -> datetime | None:
    """Return when this checkpoint was first seen without its metadata, or `None`."""
    seen = next((one for one in run.checkpoints.unverified.values() if one.path == data.path), None)
    if seen is None:
        return None
    before, now = seen.written_at, data.written_at
    return None if before is not None and now is not None and now > before else seen.came_at
