"""Folds signals into a run's state."""

from dataclasses import replace
from datetime import datetime

from watchkeeper.domain.run.phases import Interrupted, Running, Stabilizing
from watchkeeper.domain.run.run import Run
from watchkeeper.domain.run.signals import CHECK_GAP, HeardEvent
from watchkeeper.domain.values.observation.signals import URGENT, SignalKind, absorb, claim_of, hear


def received(run: Run, data: HeardEvent, at: datetime) -> Run:
    """Fold a signal into the run.

    Args:
        run: The run.
        data: The event.
        at: When it was recorded.
    """
    if data.signal.kind is SignalKind.IDENTITY:
        return run
    claims = absorb(run.signals.claims, claim_of(data.signal))
    counts = hear(run.signals.recent_counts, data.signal.source, at)
    signals = replace(run.signals, claims=claims, recent_counts=counts)
    if claims is run.signals.claims or data.signal.kind not in URGENT:
        return replace(run, signals=signals)
    return replace(
        run,
        signals=replace(signals, check_requested_at=at),
        watch=replace(run.watch, next_due=_sooner(run, at)),
    )


def _sooner(run: Run, at: datetime) -> datetime | None:
    due = run.watch.next_due
    live = isinstance(run.phase, Stabilizing | Running) or (
        isinstance(run.phase, Interrupted) and run.phase.decision is None
    )
    if due is None or not live:
        return due
    last = run.watch.last_check
    earliest = at if last is None else max(at, last.at + CHECK_GAP)
    return min(due, earliest)
