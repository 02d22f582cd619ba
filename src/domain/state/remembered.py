"""What a run's state remembers of its newest checks: as much as the checks after them look at.

A whole check takes some 30 kB, and a run remembers 64 of them. Only the newest is kept whole, as
`Run.last_check`; what the others showed stays in their events.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from watchkeeper.domain.facts.watch import CheckRecorded
from watchkeeper.domain.observed.measured import Level, Measured, Pace
from watchkeeper.domain.observed.sources import CapacityFacts
from watchkeeper.domain.values import UNACCOUNTABLE, SourceState, Step

TRAIL_MAX = 64
"""Checks remembered in state: what detectors over several cadences look back on."""


class PastCheck(NamedTuple):
    """What is remembered of a check. A tuple: one is made for each check of a history that is read.

    Attributes:
        at: When it was made.
        version: Its place in the run's events.
        instance: The instance that was looked at.
        listed: The checkpoints' store answered.
        incomplete: Paths of the checkpoints without their metadata.
        left: Complete checkpoints, and the one that was being written.
        new_steps: Steps of complete checkpoints that were seen for the first time.
        capacity: What the job waited for or had.
        step: The step shown.
        metrics: The newest values by name.
        source: See `Measured`; empty where nothing was measured.
        segment: See `Measured`.
        losses: See `Measured`.
        measured: All that was measured, of the newest check, and of the newest that measured any.
        levels: By their field in `Measured`: those that no later check measured again.
        pace: The pace, where it has a baseline and no later check measured it again.
        lost: The orchestrator answered and could not account for the job.
        tracked: The tracker answered.
        clocks: The newest times that the tracker and the checkpoints' store gave.
    """

    at: datetime
    version: int
    instance: str
    listed: bool
    incomplete: tuple[str, ...]
    left: int
    new_steps: tuple[Step, ...]
    capacity: CapacityFacts | None
    step: Step | None
    metrics: Mapping[str, float]
    source: str
    segment: int
    losses: tuple[tuple[Step, float], ...]
    measured: Measured | None
    levels: Mapping[str, Level]
    pace: Pace | None
    lost: bool
    tracked: bool
    clocks: tuple[datetime | None, ...]


def past_check(check: CheckRecorded, at: datetime, version: int) -> PastCheck:
    """Return what is remembered of the newest check."""
    measured, pace = check.measured, check.measured.pace
    half, new = check.checkpoints_incomplete, check.new_checkpoints
    return PastCheck(
        at=at,
        version=version,
        instance=check.instance,
        listed=is_listed(check),
        incomplete=tuple([one.path for one in half]) if half else (),
        left=left_by(check),
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


def levels_of(measured: Measured) -> dict[str, Level]:
    """Return the levels that were measured, by their field."""
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


def with_checks(trail: tuple[PastCheck, ...], newest: Sequence[PastCheck]) -> tuple[PastCheck, ...]:
    """Add checks to those remembered, and forget of them what nobody looks at any more.

    Args:
        trail: What is remembered, oldest first.
        newest: The checks after them, oldest first; of more than `TRAIL_MAX` the newest will do.
    """
    kept = list(trail[max(0, len(trail) + len(newest) - TRAIL_MAX) :])
    for newer in newest[-TRAIL_MAX:]:
        for place in reversed(range(len(kept))):
            one = kept[place]
            if one.measured is not None and (newer.source or not one.source):
                kept[place] = _outdated(one, newer)
            # Before it there is none that is kept whole.
            if one.source:
                break
        kept.append(newer)
    return tuple(kept)


def _outdated(one: PastCheck, newest: PastCheck) -> PastCheck:
    """Return a check without what was measured again: by role and metric the newest counts."""
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
    """Say whether the checkpoints' store answered at a check."""
    for reading in check.readings:
        if reading.source == "checkpoints" and reading.state is SourceState.FRESH:
            return True
    return False


def _is_tracked(check: CheckRecorded) -> bool:
    """Say whether the tracker answered at a check, though perhaps with nothing new."""
    for reading in check.readings:
        if reading.source == "tracker" and reading.state is not SourceState.UNAVAILABLE:
            return True
    return False


def left_by(check: CheckRecorded) -> int:
    """Count the complete checkpoints, and the one being written, which takes a place."""
    left, half = len(check.checkpoints_complete), check.checkpoints_incomplete
    if not half:
        return left
    newest = max(check.checkpoints_complete, default=-1)
    return left + any(one.step > newest for one in half)
