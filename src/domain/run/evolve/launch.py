"""Folds launches of instances, and their ends, into a run's state."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from types import MappingProxyType
from typing import assert_never

from watchkeeper.domain.run.ends import Restart
from watchkeeper.domain.run.envelope import Event
from watchkeeper.domain.run.evolve.ends import tested_by_relaunch
from watchkeeper.domain.run.fact import Fact
from watchkeeper.domain.run.health import DRIFTED
from watchkeeper.domain.run.launch import (
    ContractAmended,
    InstanceEnded,
    InstanceLaunched,
    LaunchApproved,
    LaunchEvent,
    LaunchRefused,
    LaunchRequested,
    PreflightRecorded,
    RunDrafted,
)
from watchkeeper.domain.run.monitor_accuracy import BY_A_HUMAN
from watchkeeper.domain.run.permits import Approval
from watchkeeper.domain.run.phases import (
    Cleared,
    Draft,
    Interrupted,
    Launching,
    Phase,
    Running,
    Stabilizing,
    Unborn,
)
from watchkeeper.domain.run.run import InvalidTransition, Run, last_instance_or_invalid
from watchkeeper.domain.values.causes import is_record_wrong
from watchkeeper.domain.values.contract.live_limits import first_check_after
from watchkeeper.domain.values.instance import Instance
from watchkeeper.domain.values.people import Actor

LAUNCH_FITS: Mapping[type[Fact], tuple[type[Phase], ...]] = MappingProxyType(
    {
        RunDrafted: (Unborn,),
        ContractAmended: (Draft, Cleared),
        # For a live or interrupted instance, a rollback or a relaunch is approved.
        LaunchApproved: (Draft, Cleared, Stabilizing, Running, Interrupted),
        LaunchRequested: (Draft, Cleared, Interrupted),
        InstanceLaunched: (Launching,),
        LaunchRefused: (Launching,),
        InstanceEnded: (Stabilizing, Running),
    }
)
"""The phases in which each of these events can happen."""


def evolve_launch(run: Run, data: LaunchEvent, event: Event) -> Run:
    """Apply one event of a contract or of an instance.

    Raises:
        InvalidTransition: It names an instance other than the newest, or the launch was not
            cleared.
    """
    at = event.at
    match data:
        case RunDrafted():
            return replace(run, phase=Draft(), contract=data.contract)
        case ContractAmended():
            # Approvals and waivers were given for another text of the contract.
            void = tuple(replace(waiver, revoked=True) for waiver in run.permits.waivers)
            return replace(
                run,
                phase=Draft(),
                contract=data.contract,
                launch=replace(run.launch, preflight=None),
                permits=replace(run.permits, approvals=(), waivers=void),
            )
        case PreflightRecorded():
            launch = replace(run.launch, preflight=data, preflight_version=event.version)
            return replace(run, launch=launch)
        case LaunchApproved():
            by = event.envelope.actor.principal
            approval = Approval(data.approval, data.digest, data.identity, by)
            phase = Cleared() if isinstance(run.phase, Draft) else run.phase
            return replace(
                run,
                phase=phase,
                permits=replace(
                    run.permits,
                    approvals=(*run.permits.approvals, approval),
                    approvals_given=run.permits.approvals_given + 1,
                ),
            )
        case LaunchRequested():
            return _requested(run, data, at, event.envelope.actor)
        case InstanceLaunched() | LaunchRefused() | InstanceEnded():
            return _instance(run, data, at)
        case _:
            assert_never(data)


def _requested(run: Run, data: LaunchRequested, at: datetime, actor: Actor) -> Run:
    again = (at,) if run.instances else ()
    human = actor.principal if actor.kind == "human" else ""
    by_rule = _restart(run, data, at) if data.reason not in BY_A_HUMAN else ()
    if isinstance(run.phase, Draft) and not data.waiver:
        raise InvalidTransition("nobody cleared it")
    facts = run.launch.preflight.facts if run.launch.preflight is not None else None
    config = facts.config if facts is not None else {}
    tree = facts.worktree if facts is not None else None
    patch, kept = (tree.patch, tree.kept) if tree is not None else ("", "")
    if patch and run.instances and run.instances[-1].patch == patch:
        kept = kept or run.instances[-1].patch_kept  # The patch was kept at that launch.
    newest = Instance(data.plan, config=config, patch=patch, patch_kept=kept, contract=run.contract)
    return replace(
        run,
        phase=Launching(data.plan, at),
        instances=(*run.instances, newest),
        launch=replace(
            run.launch,
            cleared_by=data.approval or data.waiver,
            launched_by=run.launch.launched_by or human,
            requester=run.launch.requester or data.requester,
            relaunch_times=run.launch.relaunch_times + again,
        ),
        ends=replace(
            run.ends,
            restarts=run.ends.restarts + by_rule,
            judgement=tested_by_relaunch(run, data.plan),
        ),
        # The next check waits for the job; a launch itself is never late.
        watch=replace(run.watch, next_due=None),
    )


def _restart(run: Run, data: LaunchRequested, at: datetime) -> tuple[Restart, ...]:
    if not run.instances:
        return ()
    after = run.instances[-1].plan.instance
    return (Restart(at, data.plan.instance, after, data.plan.resume_step),)


def _instance(
    run: Run, data: InstanceLaunched | LaunchRefused | InstanceEnded, at: datetime
) -> Run:
    instance = last_instance_or_invalid(run)
    if instance.plan.instance != data.instance:
        raise InvalidTransition(f"{data.instance} is not the newest instance")
    before = run.instances[:-1]
    match data:
        case InstanceLaunched():
            contract = run.contract
            assert contract is not None, "an instance is launched under a contract"
            launched = replace(instance, launched_at=data.launched_at)
            try:
                due = at + first_check_after(contract)
            except OverflowError as error:
                raise InvalidTransition(
                    f"{at.isoformat()} is at the end of the calendar"
                ) from error
            return replace(
                run,
                phase=Stabilizing(instance.plan, data.launched_at),
                instances=(*before, launched),
                watch=replace(run.watch, next_due=due),
            )
        case LaunchRefused():
            return replace(run, phase=Interrupted(instance.plan, at, None))
        case InstanceEnded():
            # The finding of a drifted identity stays open until the agreed identity is seen again.
            doubts = tuple(
                f"{one.rule} open as {data.instance} ended: {one.summary}"
                for one in run.health.findings.values()
                if is_record_wrong(one.rule, one.kind) and one.kind != DRIFTED
            )
            ended = replace(instance, end=data.job, doubts=doubts)
            return replace(
                run, phase=Interrupted(instance.plan, at, None), instances=(*before, ended)
            )
        case _:
            assert_never(data)
