"""The interval of temporary checkpoints: a time, or a number of steps."""

import re
from datetime import timedelta

from watchkeeper.domain.values.durations import parse_duration

_STEPS = re.compile(r"(?P<count>\d[\d_,]*)\s*(?:steps?|iterations?|its?)?", re.IGNORECASE)
_TIME = re.compile(
    r"(?P<count>\d+(?:\.\d+)?)\s*(?P<unit>s|sec|seconds?|m|min|mins|minutes?|h|hours?|d|days?)",
    re.IGNORECASE,
)
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def read_interval(text: str) -> tuple[int | None, timedelta | None]:
    """Parse the interval of temporary checkpoints in a contract.

    Returns:
        Steps or a time; both are `None` for any other text.

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
