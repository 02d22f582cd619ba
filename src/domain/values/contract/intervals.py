"""Numbers of a contract or configuration: a time, a number of steps, a count."""

import re
from datetime import timedelta

from watchkeeper.domain.values.durations import parse_duration

_STEPS = re.compile(r"(?P<count>\d[\d_,]*)\s*(?:steps?|iterations?|its?)?", re.IGNORECASE)
_TIME = re.compile(
    r"(?P<count>\d+(?:\.\d+)?)\s*(?P<unit>s|sec|seconds?|m|min|mins|minutes?|h|hours?|d|days?)",
    re.IGNORECASE,
)
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SPAN = re.compile(
    r"(?P<number>[0-9]+(?:\.[0-9]+)?)\s*"
    r"(?P<unit>s|sec|seconds?|m|mins?|minutes?|h|hours?|d|days?|steps?)?",
    re.IGNORECASE,
)
_NUMBER = re.compile(
    r"(?P<number>[0-9][0-9_]*(?:\.[0-9]+)?(?:e\+?[0-9]{1,2})?)(?P<unit>[kmbt]?)", re.I
)
_UNITS = {"": 1.0, "k": 1e3, "m": 1e6, "b": 1e9, "t": 1e12}


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


def differs(stated: object, read: str) -> bool:
    """Return whether two values of one part differ; values that cannot be compared do not.

    >>> differs("15m", "900s"), differs("15 min", "10m"), differs(10, "10"), differs(10, "2")
    (False, True, False, True)
    >>> differs("15m", "100 steps"), differs("100 steps", "100"), differs("often", "15m")
    (True, False, False)
    """
    one, other = _span(str(stated)), _span(read)
    if one is None or other is None:
        return False
    # A bare number may count steps or seconds, so only the number is compared.
    if "" in (one[1], other[1]):
        return one[0] != other[0]
    return one != other


def _span(text: str) -> tuple[float, str] | None:
    found = _SPAN.fullmatch(text.strip())
    if found is None:
        return None
    number, unit = float(found["number"]), (found["unit"] or "").lower()
    if not unit:
        return number, ""
    if unit.startswith("step"):
        return number, "steps"
    return number * _SECONDS[unit[0]], "seconds"


def read_number(text: str) -> float | None:
    """Parse a count such as `7b` or `1.5e12`.

    >>> read_number("7b"), read_number("1_000"), read_number("many")
    (7000000000.0, 1000.0, None)
    """
    found = _NUMBER.fullmatch(text.strip())
    if found is None:
        return None
    return float(found["number"].replace("_", "")) * _UNITS[found["unit"].lower()]
