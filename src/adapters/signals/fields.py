"""Tolerant readers of fields: a value of the wrong type counts as missing.

Sources send integers as text, omit parts, and add new ones. A parser itself requires the parts of a
natural key; everything else may be missing.
"""

import math
import re
from datetime import UTC, datetime, timedelta
from typing import Annotated, TypeVar, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, JsonValue
from pydantic.alias_generators import to_camel

_WHOLE = re.compile(r"-?[0-9]{1,18}")
_MOMENT = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[Tt ]([0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.([0-9]{1,12}))?"
    r"(Z|z|[+-][0-9]{2}:?[0-9]{2})?"
)
_YEARS = range(2000, 2200)
"""A time outside of these is no time of a run: a default, or a broken clock."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Outside(BaseModel):
    """A foreign shape: of its fields only those that are read; camelCase or snake_case."""

    model_config = ConfigDict(
        frozen=True, extra="ignore", alias_generator=to_camel, populate_by_name=True
    )


Shape = TypeVar("Shape", bound=Outside)


def read_as(shape: type[Shape], value: JsonValue) -> Shape:
    """Read a JSON value as a shape; a value that is no object has no fields."""
    return shape.model_validate(value if isinstance(value, dict) else {})


def text_of(value: object) -> str | None:
    """Return a text, or a number as text; None for everything else."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return str(value)
    return value if isinstance(value, str) else None


def whole_of(value: object) -> int | None:
    """Return a whole number, also from a text; None for everything else.

    >>> whole_of("17"), whole_of(3.0), whole_of("3.5"), whole_of(True)
    (17, 3, None, None)
    """
    if isinstance(value, bool):
        return None
    if isinstance(value, float):
        value = int(value) if math.isfinite(value) and value.is_integer() else None
    if isinstance(value, str):
        value = int(value) if _WHOLE.fullmatch(value) else None
    return value if isinstance(value, int) and abs(value) < 1 << 63 else None


def flag_of(value: object) -> bool:
    """Return whether a flag is set; a text `true` in any case sets it, too."""
    return value is True or (isinstance(value, str) and value.lower() == "true")


def moment_of(value: object) -> datetime | None:
    """Return a time in UTC from an RFC 3339 text, to the microsecond; None for everything else.

    Nanoseconds are cut off. A time without a zone is taken as UTC.

    >>> moment_of("2026-11-20T14:16:02.100200300Z").isoformat()
    '2026-11-20T14:16:02.100200+00:00'
    >>> moment_of("2026-11-22T04:00:00+0000").isoformat()
    '2026-11-22T04:00:00+00:00'
    """
    if not isinstance(value, str) or len(value) > 64:
        return None
    found = _MOMENT.fullmatch(value)
    if found is None:
        return None
    day, clock, fraction, zone = found.groups()
    offset = "+00:00" if zone in (None, "Z", "z") else zone
    try:
        at = datetime.fromisoformat(f"{day}T{clock}.{(fraction or '0')[:6]:0<6}{offset}")
        return _plausible(at.astimezone(UTC))
    except (ValueError, OverflowError):
        return None


def after_epoch(value: object, *, milliseconds: bool = False) -> datetime | None:
    """Return the time so many seconds or milliseconds after 1970; None if there is no such time."""
    count = whole_of(value)
    if count is None or count <= 0:
        return None
    since = timedelta(milliseconds=1) if milliseconds else timedelta(seconds=1)
    try:
        return _plausible(_EPOCH + count * since)
    except OverflowError:
        return None


def _plausible(at: datetime) -> datetime | None:
    return at if at.year in _YEARS else None


def _object_of(value: object) -> object:
    # A shape without any field replaces a value that is no object.
    return cast("object", value) if isinstance(value, dict | BaseModel) else {}


def _objects_of(value: object) -> list[object]:
    return [one for one in _items(value) if isinstance(one, dict)]


def _names_of(value: object) -> dict[str, str]:
    if not isinstance(value, dict):
        return {}
    texts = {str(name): text_of(one) for name, one in cast("dict[object, object]", value).items()}
    return {name: text for name, text in texts.items() if text is not None}


def _texts_of(value: object) -> tuple[str, ...]:
    return tuple(one for one in _items(value) if isinstance(one, str))


def _items(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []


Text = Annotated[str | None, BeforeValidator(text_of)]
Whole = Annotated[int | None, BeforeValidator(whole_of)]
Flag = Annotated[bool, BeforeValidator(flag_of)]
Moment = Annotated[datetime | None, BeforeValidator(moment_of)]
Texts = Annotated[tuple[str, ...], BeforeValidator(_texts_of)]
Names = Annotated[dict[str, str], BeforeValidator(_names_of)]
PART = BeforeValidator(_object_of)
"""For a field that is a shape: `Annotated[Comment, PART] = Comment()`."""
PARTS = BeforeValidator(_objects_of)
"""For a field that is a list of shapes: `Annotated[tuple[Event, ...], PARTS] = ()`."""
