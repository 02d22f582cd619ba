"""What numbers and times an observation from elsewhere may hold: what can be reckoned with."""

from datetime import UTC, datetime
from typing import cast

from pydantic import BaseModel

from watchkeeper.adapters.bad_input import BadLine, shown

STEP_BELOW = 2**53
"""JSON's readers keep whole numbers exactly only below it, and no run has as many steps."""

NUMBER_BELOW = 2**63
"""Other whole numbers, such as bytes: what 64 bits hold."""

FIRST = datetime(2000, 1, 1, tzinfo=UTC)
LAST = datetime(2200, 1, 1, tzinfo=UTC)
"""Times before and after are mistakes: of a clock, or of a unit."""


def check_time(value: datetime, place: str) -> None:
    """Refuse a time that no run has.

    Raises:
        BadLine: It is out of bounds; the problem names the place.
    """
    if not FIRST <= value < LAST:
        told = "expected a time from 2000 to 2200, such as 2026-11-21T01:36:10Z"
        raise BadLine(f"{place}: got {shown(value.isoformat())}, {told}")


def check_bounds(value: object, place: str) -> None:
    """Refuse an observation that holds a number or a time out of bounds, wherever it stands.

    Args:
        value: The observation, or a part of it.
        place: Where it stands, such as `observation.tracker.step`.

    Raises:
        BadLine: The first one that is out of bounds.
    """
    match value:
        case bool() | float() | str() | None:
            return
        case int():
            _check_number(value, place)
        case datetime():
            check_time(value, place)
        case BaseModel():
            # `__dict__` is the model's own fields; its iterator builds a pair for each.
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
    # A column of a history holds ten thousand numbers: most need no look of their own.
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
    # Python writes no number of more than 4,300 digits.
    return str(value) if value.bit_length() < 256 else f"a number of {value.bit_length()} bits"
