"""The checks that a run's state remembers, for later checks.

A whole check takes some 30 kB, and a run remembers 64 of them. Only the newest is kept whole, as
`WatchState.last_check`. The details of the others stay in their events.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from watchkeeper.domain.run.phases import Running, Stabilizing
from watchkeeper.domain.run.run import Run
from watchkeeper.domain.run.watch import CheckRecorded
from watchkeeper.domain.values.basic import UNACCOUNTABLE, SourceState
from watchkeeper.domain.values.earlier import PastCheck
from watchkeeper.domain.values.observation.measured import Level, Measured

RECENT_CHECKS_MAX = 64
"""Checks remembered in state, for detectors that look back over several cadences."""


def past_check(check: CheckRecorded, at: datetime, version: int) -> PastCheck:
    """Return the part of the newest check that is remembered."""
    measured, pace = check.measured, check.measured.pace
    half, new = check.checkpoints_incomplete, check.new_checkpoints
    return PastCheck(
        at=at,
        version=version,
        instance=check.instance,
        listed=is_listed(check),
        incomplete=tuple([one.path for one in half]) if half else (),
        left=checkpoints_left(check),
        new_steps=tuple([one.step for one in new]) if new else (),
        capacity=check.capacity,
        step=check.progress.step if check.progress is not None else None,
        metrics=check.metrics,
        source=measured.source,
        segment=measured.segment,
        losses=measured.losses,
        measured=measured,
        levels=levels_of(measured),
        pace=pace if pace is not None and pace.baseline is not None else None,
        lost=check.job is not None and check.job.state in UNACCOUNTABLE,
        tracked=_is_tracked(check),
        clocks=tuple([r.clock for r in check.readings if r.source in ("tracker", "checkpoints")]),
    )


class Eta(NamedTuple):
    """When a run is expected to reach its final step.

    Attributes:
        at: At the pace of all remembered checks.
        earliest: At the pace of their faster half.
        latest: At the pace of their slower half; `None` if that half made no progress.
    """

    at: datetime
    earliest: datetime
    latest: datetime | None


ETA_CHECKS_MIN = 3
"""Checks that must show a step before a pace is derived from them."""


def expected_end(run: Run) -> Eta | None:
    """Estimate when the live instance reaches the contract's final step; None if unknown."""
    if run.contract is None or not isinstance(run.phase, Stabilizing | Running):
        return None
    points: list[tuple[datetime, int]] = []
    for check in run.watch.recent_checks:
        if check.instance != run.instances[-1].plan.instance or check.step is None:
            continue
        if points and check.step < points[-1][1]:
            points = []  # The instance was restarted from an earlier step.
        points.append((check.at, check.step))
    if len(points) < ETA_CHECKS_MIN:
        return None
    first, middle, last = points[0], points[len(points) // 2], points[-1]
    left, pace = run.contract.final_step.value - last[1], _pace(first, last)
    if left <= 0 or pace <= 0:
        return None
    halves = (_pace(first, middle), _pace(middle, last))
    slow, fast = min(halves), max(halves)
    latest = last[0] + timedelta(seconds=left / slow) if slow > 0 else None
    at, earliest = (last[0] + timedelta(seconds=left / one) for one in (pace, fast))
    return Eta(at, earliest, latest)


def _pace(before: tuple[datetime, int], after: tuple[datetime, int]) -> float:
    """Return the steps per second between two checks; 0 if no time passed."""
    elapsed_s = (after[0] - before[0]).total_seconds()
    return (after[1] - before[1]) / elapsed_s if elapsed_s > 0 else 0.0


def levels_of(measured: Measured) -> dict[str, Level]:
    """Return the measured levels, by their field."""
    found: dict[str, Level] = {}
    if measured.loss is not None:
        found["loss"] = measured.loss
    if measured.grad_norm is not None:
        found["grad_norm"] = measured.grad_norm
    if measured.z_loss is not None:
        found["z_loss"] = measured.z_loss
    if measured.router is not None:
        found["router"] = measured.router
    return found


def with_checks(
    recent_checks: tuple[PastCheck, ...], newest: Sequence[PastCheck]
) -> tuple[PastCheck, ...]:
    """Return the remembered checks with newer ones, without parts that nothing reads any more.

    Args:
        recent_checks: The remembered checks, oldest first.
        newest: The following checks, oldest first. The newest of them are enough.
    """
    kept = list(recent_checks[max(0, len(recent_checks) + len(newest) - RECENT_CHECKS_MAX) :])
    for newer in newest[-RECENT_CHECKS_MAX:]:
        for place in reversed(range(len(kept))):
            one = kept[place]
            if one.measured is not None and (newer.source or not one.source):
                kept[place] = _outdated(one, newer)
            # Earlier checks are shortened.
            if one.source:
                break
        kept.append(newer)
    return tuple(kept)


def _outdated(one: PastCheck, newest: PastCheck) -> PastCheck:
    """Return a check without values that a newer check measured again."""
    left = {
        role: level
        for role, level in one.levels.items()
        if (again := newest.levels.get(role)) is None or again.metric != level.metric
    }
    pace = one.pace
    if pace is not None and newest.pace is not None and newest.pace.metric == pace.metric:
        pace = None
    return one._replace(measured=None, levels=left or _NO_LEVELS, pace=pace)


_NO_LEVELS: Mapping[str, Level] = {}


def is_listed(check: CheckRecorded) -> bool:
    """Return whether the checkpoint store answered at a check."""
    for reading in check.readings:
        if reading.source == "checkpoints" and reading.state is SourceState.FRESH:
            return True
    return False


def _is_tracked(check: CheckRecorded) -> bool:
    """Return whether the tracker answered at a check, perhaps with nothing new."""
    for reading in check.readings:
        if reading.source == "tracker" and reading.state is not SourceState.UNAVAILABLE:
            return True
    return False


def checkpoints_left(check: CheckRecorded) -> int:
    """Count the complete checkpoints, and the one being written, which also counts."""
    left, half = len(check.checkpoints_complete), check.checkpoints_incomplete
    if not half:
        return left
    newest = max(check.checkpoints_complete, default=-1)
    return left + any(one.step > newest for one in half)


def checks_before(run: Run, check: CheckRecorded) -> tuple[PastCheck, ...]:
    """Return the remembered checks before one, oldest first.

    Detectors run before and after a check is folded in, and both must give the same answer. Folding
    drops the oldest check of a full list, so that check is left out here.
    """
    last = run.watch.last_check
    if last is not None and last.event == check:
        return run.watch.recent_checks[:-1]
    return run.watch.recent_checks[1 - RECENT_CHECKS_MAX :]
