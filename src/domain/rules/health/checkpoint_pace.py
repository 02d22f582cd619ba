"""How often checkpoints are due: by contract, by history, or by lane."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from statistics import median
from types import MappingProxyType

from watchkeeper.domain.rules.health.seen_checkpoints import came_so_far
from watchkeeper.domain.run.run import Run, contract_of
from watchkeeper.domain.values.basic import CheckpointKind
from watchkeeper.domain.values.contract.contract import Contract, Lane
from watchkeeper.domain.values.contract.intervals import read_interval
from watchkeeper.domain.values.durations import render_duration

SEEN_MIN = 4
"""Checkpoints that must have come before their own interval is taken for the one to expect."""

LANE_INTERVALS: Mapping[Lane, timedelta] = MappingProxyType(
    # Rolling ones are advised every 15 min. What twice as long is not saved is dear on a hero run.
    {
        Lane.HERO: timedelta(minutes=30),
        Lane.DAILY: timedelta(minutes=30),
        Lane.CANARY: timedelta(hours=1),
        Lane.ORDINARY: timedelta(hours=1),
    }
)
"""By lane, how often a complete checkpoint is expected where nothing else says so."""


@dataclass(frozen=True, slots=True)
class Interval:
    """The wait between two checkpoints.

    Attributes:
        steps: In steps; none where it is a time.
        time: As a time; none where it is a number of steps.
        source: Who says so, for people.
        assumed: Nobody says so; it is the lane's, or the longest wait so far.
    """

    steps: int | None
    time: timedelta | None
    source: str
    assumed: bool = False


def expected_interval(run: Run) -> Interval | None:
    """Return the wait after which a further complete checkpoint is to be there; none if unknown."""
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
    """Return the wait that is taken for one where nobody states any, and too few came to tell.

    It is the lane's, or the longest wait for one so far: whoever saves more rarely is told once.

    Returns:
        None where the rolling ones are kept elsewhere: the root that is listed may well stay empty.
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
    """Return how long each checkpoint came after the one before it, or after the first launch."""
    came = sorted(at for c in came_so_far(run).values() if (at := c.came_at) is not None)
    launched = run.instances[0].launched_at if run.instances else None
    times = [*([launched] if launched is not None else []), *came]
    waits = (later - earlier for earlier, later in pairwise(times))
    return [timedelta(minutes=round(wait / timedelta(minutes=1))) for wait in waits]


def shows_temporaries(run: Run, contract: Contract) -> bool:
    """Say whether temporary checkpoints are to be seen below the root that is listed.

    Some training loops keep them below a root of their own, which `signals.roots` names: then
    only the permanent ones are seen.
    """
    if any(one.kind is CheckpointKind.TEMPORARY for one in came_so_far(run).values()):
        return True
    return not contract.signals.roots


def _observed(run: Run) -> Interval | None:
    steps = sorted(came_so_far(run))[-16:]
    if len(steps) < SEEN_MIN:
        return None
    gaps = [later - earlier for earlier, later in pairwise(steps)]
    usual = round(median(gaps))
    return Interval(usual, None, f"so far one came about every {usual} steps")


def describe_interval(interval: Interval) -> str:
    """Write an interval for people."""
    if interval.time is not None:
        return render_duration(interval.time)
    return f"{interval.steps} steps"


def expected_time(run: Run, rate: float | None) -> timedelta | None:
    """Return the time in which a further checkpoint is to come; none where nobody can tell."""
    interval = expected_interval(run)
    if interval is None:
        return None
    if interval.time is not None:
        return interval.time
    return timedelta(seconds=(interval.steps or 0) / rate) if rate else None
