"""The expected interval between checkpoints.

It comes from the contract, else from the checkpoints so far, else from the lane.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from statistics import median
from types import MappingProxyType

from watchkeeper.domain.rules.health.seen_checkpoints import complete_by_step
from watchkeeper.domain.run.run import Run, contract_of
from watchkeeper.domain.values.basic import CheckpointKind
from watchkeeper.domain.values.contract.contract import Contract, Lane
from watchkeeper.domain.values.contract.intervals import read_interval
from watchkeeper.domain.values.durations import render_duration

SEEN_MIN = 4
"""How many checkpoints must come before their own interval is the expected one."""

LANE_INTERVALS: Mapping[Lane, timedelta] = MappingProxyType(
    # Advice: rolling checkpoints every 15 min. Twice that without one is costly on a hero run.
    {
        Lane.HERO: timedelta(minutes=30),
        Lane.DAILY: timedelta(minutes=30),
        Lane.CANARY: timedelta(hours=1),
        Lane.ORDINARY: timedelta(hours=1),
    }
)
"""Default interval between complete checkpoints, by lane."""


@dataclass(frozen=True, slots=True)
class Interval:
    """The interval between two checkpoints.

    Attributes:
        steps: The interval in steps; `None` if it is a time.
        time: The interval as a time; `None` if it is a number of steps.
        source: Where the interval comes from, for people.
        assumed: Whether it is only assumed: the lane's default, or the longest wait so far.
    """

    steps: int | None
    time: timedelta | None
    source: str
    assumed: bool = False


def expected_interval(run: Run) -> Interval | None:
    """Return the interval within which the next complete checkpoint must come; none if unknown."""
    contract = contract_of(run)
    if shows_temporaries(run, contract):
        steps, time = read_interval(contract.checkpoints.temporary_every)
        if steps or time:
            said = contract.checkpoints.temporary_every
            return Interval(steps, time, f"checkpoints.temporary_every is {said}")
    if contract.checkpoints.permanent_every_steps:
        every = contract.checkpoints.permanent_every_steps
        return Interval(every, None, f"checkpoints.permanent_every_steps is {every}")
    return _observed(run)


def assumed_interval(run: Run) -> Interval | None:
    """Return the assumed interval, if it is neither stated nor measurable yet.

    It is the lane's default, or the longest wait so far. A run that saves more rarely causes one
    notice.

    Returns:
        None if the rolling checkpoints are kept elsewhere, because the listed root may stay empty.
    """
    contract = contract_of(run)
    if not shows_temporaries(run, contract):
        return None
    usual = LANE_INTERVALS[contract.lane]
    longest = max((usual, *_waits(run)))
    so_far = f"{render_duration(usual)} is assumed for the lane {contract.lane.value}"
    if longest > usual:
        so_far = f"so far one took {render_duration(longest)} at most"
    source = f"checkpoints.temporary_every states no interval; {so_far}"
    return Interval(None, longest, source, assumed=True)


def _waits(run: Run) -> list[timedelta]:
    """Return the wait for each checkpoint since the one before it, or since the first launch."""
    came = sorted(at for c in complete_by_step(run).values() if (at := c.came_at) is not None)
    launched = run.instances[0].launched_at if run.instances else None
    times = [*([launched] if launched is not None else []), *came]
    waits = (later - earlier for earlier, later in pairwise(times))
    return [timedelta(minutes=round(wait / timedelta(minutes=1))) for wait in waits]


def shows_temporaries(run: Run, contract: Contract) -> bool:
    """Say whether temporary checkpoints should appear below the listed root.

    Some training loops keep them below a separate root, which `signals.roots` names. Then only the
    permanent ones are seen.
    """
    if any(one.kind is CheckpointKind.TEMPORARY for one in complete_by_step(run).values()):
        return True
    return not contract.signals.roots


def _observed(run: Run) -> Interval | None:
    steps = sorted(complete_by_step(run))[-16:]
    if len(steps) < SEEN_MIN:
        return None
    gaps = [later - earlier for earlier, later in pairwise(steps)]
    usual = round(median(gaps))
    return Interval(usual, None, f"so far one came about every {usual} steps")


def describe_interval(interval: Interval) -> str:
    """Format an interval for people."""
    if interval.time is not None:
        return render_duration(interval.time)
    return f"{interval.steps} steps"


def expected_time(run: Run, rate: float | None) -> timedelta | None:
    """Return the time within which the next checkpoint must come; none if unknown."""
    interval = expected_interval(run)
    if interval is None:
        return None
    if interval.time is not None:
        return interval.time
    return timedelta(seconds=(interval.steps or 0) / rate) if rate else None
