"""How often checkpoints are to come: by the contract, else as they came so far."""

import re
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from statistics import median

from watchkeeper.domain.contract import Contract
from watchkeeper.domain.durations import parse_duration, render_duration
from watchkeeper.domain.state import Run, contract_of
from watchkeeper.domain.values import CheckpointKind

SEEN_MIN = 4
"""Checkpoints that must have come before their own interval is taken for the one to expect."""

_STEPS = re.compile(r"(?P<count>\d[\d_,]*)\s*(?:steps?|iterations?|its?)?", re.IGNORECASE)
_TIME = re.compile(
    r"(?P<count>\d+(?:\.\d+)?)\s*(?P<unit>s|sec|seconds?|m|min|mins|minutes?|h|hours?|d|days?)",
    re.IGNORECASE,
)
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


@dataclass(frozen=True, slots=True)
class Interval:
    """The wait between two checkpoints.

    Attributes:
        steps: In steps; none where it is a time.
        time: As a time; none where it is a number of steps.
        source: Who says so, for people.
    """

    steps: int | None
    time: timedelta | None
    source: str


def read_interval(text: str) -> tuple[int | None, timedelta | None]:
    """Read the interval of temporary checkpoints as a contract has it.

    Returns:
        Steps or a time; two times none where it says neither.

    >>> read_interval("15 min"), read_interval("50 steps"), read_interval("now and then")
    ((None, datetime.timedelta(seconds=900)), (50, None), (None, None))
    """
    said = text.strip()
    found = _TIME.fullmatch(said)
    if found:
        seconds = float(found["count"]) * _SECONDS[found["unit"][0].lower()]
        return None, timedelta(seconds=seconds) if seconds > 0 else None
    try:
        return None, parse_duration(said) or None
    except ValueError:
        pass
    counted = _STEPS.fullmatch(said)
    if counted is None:
        return None, None
    return int(re.sub(r"[_,]", "", counted["count"])) or None, None


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


def shows_temporaries(run: Run, contract: Contract) -> bool:
    """Say whether temporary checkpoints are to be seen below the root that is listed.

    Some training loops keep them below a root of their own, which `signals.roots` names: then
    only the permanent ones are seen.
    """
    if any(one.kind is CheckpointKind.TEMPORARY for one in run.checkpoints.values()):
        return True
    return not contract.signals.roots


def _observed(run: Run) -> Interval | None:
    steps = sorted(run.checkpoints)[-16:]
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
