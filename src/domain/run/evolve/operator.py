"""Folds handovers, planned acts and operator acts into a run.

The folds refuse nothing, because the events have happened.
"""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import assert_never

from watchkeeper.domain.run.checkpoints import CheckpointRejected
from watchkeeper.domain.run.envelope import Event
from watchkeeper.domain.run.evolve.permits import with_used
from watchkeeper.domain.run.fact import Fact
from watchkeeper.domain.run.losses import without_lineage
from watchkeeper.domain.run.operator import (
    AncestorNamed,
    LineageRejected,
    OperatorEvent,
    OperatorState,
    PlannedActAnnounced,
    PlannedActEnded,
    PlannedActEvent,
    RelaunchRequested,
    RollbackApproved,
    RollbackPlanned,
    RunSuperseded,
)
from watchkeeper.domain.run.phases import (
    Abandoned,
    Cleared,
    Draft,
    Finished,
    Interrupted,
    Phase,
    Running,
    Stabilizing,
    Stopped,
    Superseded,
)
from watchkeeper.domain.run.run import Run
from watchkeeper.domain.run.seal import MilestoneEvent, MilestoneVerified
from watchkeeper.domain.run.watch import HandoverEvent, WatchEnded, WatchHandedOver, with_holder
from watchkeeper.domain.values.earlier import RejectedLineage

Operated = HandoverEvent | PlannedActEvent | OperatorEvent | MilestoneEvent
"""The events of operator acts and of handovers."""

OPERATOR_FITS: Mapping[type[Fact], tuple[type[Phase], ...]] = MappingProxyType(
    {
        RelaunchRequested: (Stabilizing, Running, Interrupted),
        RollbackPlanned: (Stabilizing, Running, Interrupted),
        RollbackApproved: (Stabilizing, Running, Interrupted),
        RunSuperseded: (Interrupted, Finished, Stopped, Abandoned),
        AncestorNamed: (Draft, Cleared),
        MilestoneVerified: (Stabilizing, Running, Interrupted, Finished),
    }
)
"""The phases in which each of these events can happen."""


def evolve_operator(run: Run, data: Operated, event: Event) -> Run:
    """Apply one of these events, which fits the run's phase."""
    if isinstance(data, HandoverEvent | PlannedActEvent):
        return _watched(run, data)
    state = run.operator
    match data:
        case RelaunchRequested() | RollbackApproved():
            used = with_used(run.permits, data.consent)
            waits = replace(run, permits=used, operator=replace(state, requested=data))
            if isinstance(data, RollbackApproved):
                waits = replace(waits, operator=replace(state, requested=data, rollback=None))
            # The next check comes immediately, to see the end or the store's listing.
            watch = replace(run.watch, next_due=event.at)
            if isinstance(run.phase, Interrupted):
                waits = replace(waits, phase=replace(run.phase, decision=None))
            return replace(waits, watch=watch)
        case RollbackPlanned():
            return replace(run, operator=replace(state, rollback=data))
        case LineageRejected():
            left = RejectedLineage(data.above_step, data.through, data.reason, event.at)
            state = replace(state, lineages=(*state.lineages, left))
            kept = without_lineage(run.watch.losses, data.above_step)
            unverified = run.checkpoints.unverified
            unverified = {s: one for s, one in unverified.items() if s <= data.above_step}
            return replace(
                run,
                operator=state,
                watch=replace(run.watch, losses=kept),
                checkpoints=replace(run.checkpoints, unverified=unverified),
            )
        case RunSuperseded():
            phase = Superseded(data.successor, data.reason)
            return replace(run, phase=phase, watch=replace(run.watch, next_due=None))
        case AncestorNamed():
            return replace(run, operator=replace(state, ancestor=data))
        case MilestoneVerified():
            milestones = {**run.seal.milestones, data.tag: data}
            return replace(run, seal=replace(run.seal, milestones=milestones))
        case _:
            assert_never(data)


def with_rejection(state: OperatorState, data: CheckpointRejected) -> OperatorState:
    """Remember which version of a path is rejected. Without a time all versions are."""
    known = {path: at for path, at in state.rejected_at.items() if path != data.path}
    if data.written_at is not None:
        known[data.path] = data.written_at
    return replace(state, rejected_at=known)


def _watched(run: Run, data: HandoverEvent | PlannedActEvent) -> Run:
    state = run.operator
    match data:
        case WatchHandedOver():
            watch = with_holder(
                run.watch,
                token=max(data.token, run.watch.token),
                lease_until=data.kept_until,
                next_due=run.watch.next_due,
                kept_for=data.to,
            )
            return replace(run, watch=watch)
        case WatchEnded():
            watch = with_holder(run.watch, token=run.watch.token, ended=data.reason)
            stopped = data.stopping_point or state.stopped_at
            return replace(run, watch=watch, operator=replace(state, stopped_at=stopped))
        case PlannedActAnnounced():
            acts = {**state.acts, data.act: data}
            more = state.acts_announced + 1
            return replace(run, operator=replace(state, acts=acts, acts_announced=more))
        case PlannedActEnded():
            left = {name: act for name, act in state.acts.items() if name != data.act}
            return replace(run, operator=replace(state, acts=left))
        case _:
            assert_never(data)
