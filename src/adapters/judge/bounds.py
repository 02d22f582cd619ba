"""Bounds for the numbers and times of an observation from elsewhere."""

from datetime import UTC, datetime
from typing import cast

from pydantic import BaseModel

from watchkeeper.adapters.bad_input import BadLine, shown

STEP_BELOW = 2**53
"""Bound for steps. JSON readers keep integers exact only below it, and no run has more steps."""

NUMBER_BELOW = 2**63
"""Bound for other integers, such as bytes: the range of 64 bits."""

FIRST = datetime(2000, 1, 1, tzinfo=UTC)
LAST = datetime(2200, 1, 1, tzinfo=UTC)
"""Range of times. Times outside come from a wrong clock or a wrong unit."""


def check_time(value: datetime, place: str) -> None:
    """Refuse a time that no run can have.

    Raises:
        BadLine: The time is out of bounds. The problem names the place.
    """
    if not FIRST <= value < LAST:
        expected = "expected a time from 2000 to 2200, such as 2026-11-21T01:36:10Z"
        raise BadLine(f"{place}: got {shown(value.isoformat())}, {expected}")


def check_bounds(value: object, place: str) -> None:
    """Refuse an observation with a number or a time out of bounds at any place.

    Args:
        value: The observation, or a part of it.
        place: The value's place, such as `observation.tracker.step`.

    Raises:
        BadLine: A value is out of bounds. The problem names the first one.
    """
    match value:
        case bool() | float() | str() | None:
            return
        case int():
            _check_number(value, place)
        case datetime():
            check_time(value, place)
        case BaseModel():
            # `__dict__` has the model's fields. The model's own iterator is slower.
            for name, part in value.__dict__.items():
                check_bounds(part, f"{place}.{name}")
        case dict():
            for name, part in cast("dict[str, object]", value).items():
                check_bounds(part, f"{place}.{name}")
        case tuple():
            _check_row(cast("tuple[object, ...]", value), place)
        case _:
            return


def _check_row(row: tuple[object, ...], place: str) -> None:
    # A history's column holds ten thousand numbers, and most need no check.
    if not row or isinstance(row[0], float | str):
        return
    for number, part in enumerate(row):
        check_bounds(part, f"{place}[{number}]")


def _check_number(value: int, place: str) -> None:
    below = STEP_BELOW if "step" in place.rpartition(".")[2] else NUMBER_BELOW
    if abs(value) >= below:
        bits = "2^53" if below == STEP_BELOW else "2^63"
        raise BadLine(f"{place}: got {_short(value)}, expected a whole number below {bits}")


def _short(value: int) -> str:
    # Python refuses to print numbers of more than 4,300 digits.
    return str(value) if value.bit_length() < 256 else f"a number of {value.bit_length()} bits"
