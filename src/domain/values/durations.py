"""Durations as people write them: `15m`, `570s`, `1h30m`, `24h`."""

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated
from zoneinfo import ZoneInfo

from pydantic import BeforeValidator

_PARTS = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s)?")


def parse_duration(text: str) -> timedelta:
    """Read a duration such as `15m`, `570s`, `1h30m` or `2d`.

    Args:
        text: Days, hours, minutes and seconds in this order, each with its letter.

    Returns:
        The duration.

    Raises:
        ValueError: The text has another form, or is longer than a timedelta can be.

    >>> parse_duration("1h30m")
    datetime.timedelta(seconds=5400)
    """
    match = _PARTS.fullmatch(text.strip())
    if match is None or not any(match.groups()):
        raise ValueError("expected a duration such as 570s, 15m, 1h30m or 24h")
    days, hours, minutes, seconds = match.groups()
    try:
        return timedelta(
            days=int(days or 0),
            hours=int(hours or 0),
            minutes=int(minutes or 0),
            seconds=float(seconds or 0),
        )
    except OverflowError as error:
        raise ValueError("expected a duration of fewer than a thousand million days") from error


def render_duration(duration: timedelta) -> str:
    """Write a duration as people do, without parts that are zero.

    >>> render_duration(timedelta(seconds=570)), render_duration(timedelta(hours=24))
    ('570 s', '24 h')
    >>> render_duration(timedelta(minutes=15)), render_duration(timedelta(seconds=2.5))
    ('15 min', '2.5 s')
    """
    seconds = duration.total_seconds()
    if seconds >= 3600 and seconds % 3600 == 0:
        return f"{seconds / 3600:g} h"
    if seconds >= 600 and seconds % 60 == 0:
        return f"{seconds / 60:g} min"
    return f"{seconds:g} s"


def _from_text(value: object) -> object:
    # Stored events carry ISO 8601 (PT15M), which pydantic reads by itself.
    if isinstance(value, str) and not value.startswith(("P", "-P")):
        return parse_duration(value)
    return value


Duration = Annotated[timedelta, BeforeValidator(_from_text)]
"""A timedelta field that also reads `15m`."""


def local_day(at: datetime, zone: str) -> str:
    """Return a time's day in a zone, as YYYYMMDD."""
    return at.astimezone(ZoneInfo(zone)).strftime("%Y%m%d")


def utc_minute(at: datetime) -> str:
    """Write a time to the minute, in UTC."""
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")
