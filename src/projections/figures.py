"""Formats numbers, times and durations for people.

Standard library only: `status` needs them.
"""

import math
from datetime import datetime, timedelta, tzinfo

_SCALES = ((1e9, "G"), (1e6, "M"), (1e3, "k"))
_DIGITS = 3
_CARRY = 0.9995
"""From this value on, three digits round up to the next scale: 999.6 is 1.00k, not 1e+03."""


def human(number: float) -> str:
    """Write a large number with three digits and a scale.

    >>> human(31_412), human(2_730_000), human(999.6), human(88), human(0.25)
    ('31.4k', '2.73M', '1.00k', '88', '0.25')
    """
    if not math.isfinite(number):
        return spelled(number)
    for scale, suffix in _SCALES:
        if abs(number) >= scale * _CARRY:
            return f"{number / scale:#.{_DIGITS}g}".rstrip(".") + suffix
    return f"{number:.{_DIGITS}g}"


def value(number: float) -> str:
    """Write a metric with four digits and trailing zeros, so that columns line up.

    >>> value(7.4), value(0.64412), value(5980.0), value(31_412.0), value(float("nan")), value(0)
    ('7.400', '0.6441', '5980', '31.4k', 'NaN', '0')
    """
    if not math.isfinite(number):
        return spelled(number)
    if number == 0:
        return "0"
    return f"{number:#.4g}".rstrip(".") if 1e-4 <= abs(number) < 1e4 else human(number)


def spelled(number: float) -> str:
    """Write a value that is not a finite number.

    >>> spelled(float("nan")), spelled(float("-inf"))
    ('NaN', '-Inf')
    """
    if math.isnan(number):
        return "NaN"
    return "Inf" if number > 0 else "-Inf"


def elapsed(duration: timedelta) -> str:
    """Write a duration in at most two units; a negative one gives 0 s.

    >>> elapsed(timedelta(seconds=42)), elapsed(timedelta(minutes=4, seconds=20))
    ('42 s', '4 min 20 s')
    >>> elapsed(timedelta(minutes=29, seconds=31)), elapsed(timedelta(hours=3, minutes=2))
    ('30 min', '3 h 2 min')
    >>> elapsed(timedelta(days=2, hours=3)), elapsed(timedelta(seconds=-5))
    ('2 d 3 h', '0 s')
    """
    seconds = max(0, round(duration.total_seconds()))
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 600:
        return _two(seconds, 60, "min", "s")
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    if minutes < 48 * 60:
        return _two(minutes, 60, "h", "min")
    return _two(round(minutes / 60), 24, "d", "h")


def _two(amount: int, size: int, large: str, small: str) -> str:
    whole, rest = divmod(amount, size)
    return f"{whole} {large} {rest} {small}" if rest else f"{whole} {large}"


def time_of(at: datetime, now: datetime) -> str:
    """Write a time in the zone of `now`, with its day unless it is today."""
    local = at.astimezone(now.tzinfo)
    form = "%H:%M %Z" if local.date() == now.date() else "%Y-%m-%d %H:%M %Z"
    return local.strftime(form)


def stamp(at: datetime, zone: tzinfo) -> str:
    """Write a time with day and zone, for example `2026-11-18 17:30 UTC`."""
    return at.astimezone(zone).strftime("%Y-%m-%d %H:%M %Z")


def count(number: int, one: str, many: str = "") -> str:
    """Write a count with its noun.

    >>> count(1, "run"), count(2, "run"), count(0, "entry", "entries")
    ('1 run', '2 runs', '0 entries')
    """
    return f"{number} {one if number == 1 else many or one + 's'}"
