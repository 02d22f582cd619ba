"""Records bound signals as claims, which may bring the next check forward.

A signal never ends, starts or stops anything. The next check asks the sources.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from types import MappingProxyType

from watchkeeper.domain.rules.signals.commands import ReceiveSignal
from watchkeeper.domain.run.checkpoints import Checkpoint
from watchkeeper.domain.run.events import RunEvent
from watchkeeper.domain.run.run import Run
from watchkeeper.domain.run.signals import CHECK_GAP, SignalReceived
from watchkeeper.domain.values.observation.signals import (
    RECORDED_A_MINUTE,
    Claim,
    Signal,
    SignalKind,
    absorb,
    claim_of,
    in_minute,
    subject_key,
)

WITNESS_BEFORE = timedelta(minutes=15)
WITNESS_AFTER = timedelta(minutes=15)
"""How long before and after a job's end a claim about its machines may explain the end."""

WITNESSES_MAX = 4

_OF_MACHINES = frozenset(
    {
        SignalKind.NODE_LOST,
        SignalKind.NODE_PREEMPTED,
        SignalKind.HARDWARE_FAILED,
        SignalKind.MAINTENANCE_STARTED,
        SignalKind.CAPACITY_LOST,
        SignalKind.PROCESS_DIED,
    }
)

_CAUSES: Mapping[SignalKind, str] = MappingProxyType(
    {
        SignalKind.NODE_PREEMPTED: "preemption",
        SignalKind.HARDWARE_FAILED: "hardware",
        SignalKind.MAINTENANCE_STARTED: "maintenance",
        SignalKind.CAPACITY_LOST: "preemption",
        SignalKind.NODE_LOST: "node_failure",
    }
)
"""The cause that each claim about machines means, strongest first."""


def receive(run: Run, command: ReceiveSignal) -> list[RunEvent]:
    """Record a signal if it is newer than what is known; else do nothing.

    A placement signal is recorded but is no claim about the run. It only helps to bind other
    signals.
    """
    if not _says_more(run, command.signal) or over_limit(run, command):
        return []
    return [
        SignalReceived(
            signal=command.signal,
            instance=command.instance,
            bound_by=command.bound_by,
            coalesced=command.coalesced,
        )
    ]


def _says_more(run: Run, signal: Signal) -> bool:
    if signal.kind is SignalKind.IDENTITY:
        return True
    return absorb(run.signals.claims, claim_of(signal)) is not run.signals.claims


def over_limit(run: Run, command: ReceiveSignal) -> bool:
    """Return whether a signal is only counted, because its source reached the limit per minute.

    The last recorded signal of a minute represents the counted ones. Placement signals and signals
    bound by a human are always recorded.
    """
    signal = command.signal
    if signal.kind is SignalKind.IDENTITY or command.actor.kind == "human":
        return False
    most = RECORDED_A_MINUTE if command.coalesced else RECORDED_A_MINUTE - 1
    full = in_minute(run.signals.recent_counts, signal.source, command.now) >= most
    return full and _says_more(run, signal)


def due_after_signals(run: Run, due: datetime, began: datetime, now: datetime) -> datetime:
    """Return the time of the next check, considering signals that arrived during this one.

    Args:
        run: The run before the check is recorded.
        due: When the next check would be due.
        began: When the check began to read the sources. It may have missed later signals.
        now: When the check is recorded.
    """
    if run.signals.check_requested_at is None or run.signals.check_requested_at < began:
        return due
    return min(due, now + CHECK_GAP)


def doubt_about(run: Run, checkpoint: Checkpoint) -> str:
    """Return why a validated checkpoint must not be resumed from; empty if it may.

    Deleting a folder is neither atomic nor ordered: data may be gone while the metadata still
    exists. Only a new write removes the doubt.
    """
    claim = _about(run, checkpoint.path)
    if claim is None or claim.kind is not SignalKind.CHECKPOINT_GONE:
        return ""
    written = checkpoint.written_at
    if written is not None and written > claim.at:
        return ""
    return f"{claim.source} says that objects of it were deleted at {claim.at.isoformat()}"


def _about(run: Run, path: str) -> Claim | None:
    return run.signals.claims.get(subject_key(SignalKind.CHECKPOINT_GONE, path.rstrip("/")))


def witnesses(run: Run, ended_at: datetime) -> tuple[str, ...]:
    """Return outside claims on the run's machines around an end of its job."""
    return tuple(f"{claim.source}: {claim.summary}" for claim in _near(run, ended_at))


def cause_by_witnesses(run: Run, ended_at: datetime) -> str:
    """Return the cause that outside claims give for an end around that time; empty if none."""
    named = {claim.kind for claim in _near(run, ended_at)}
    return next((cause for kind, cause in _CAUSES.items() if kind in named), "")


def _near(run: Run, ended_at: datetime) -> list[Claim]:
    near = [
        claim
        for claim in run.signals.claims.values()
        if claim.kind in _OF_MACHINES
        and ended_at - WITNESS_BEFORE <= claim.at <= ended_at + WITNESS_AFTER
    ]
    near.sort(key=lambda claim: (abs(claim.at - ended_at), claim.source, claim.key))
    return near[:WITNESSES_MAX]
