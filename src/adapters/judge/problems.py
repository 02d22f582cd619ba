"""Error messages for a `tools judge` line: field, value and expectation."""

import re
from collections.abc import Mapping
from typing import Any, TypeVar, cast

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from watchkeeper.adapters.bad_input import BadLine, shown

PROBLEMS_MAX = 5
"""Most problems that are reported for one line."""

_SHAPES: Mapping[str, str] = {
    "model_type": "an object",
    "dict_type": "an object",
    "tuple_type": "a list",
    "timezone_aware": "a time with its zone, such as 2026-11-21T01:36:10Z",
}
"""Expected values in words, in place of pydantic's messages about Python types."""

_BOUNDS: Mapping[str, str] = {
    "greater_than": "gt",
    "greater_than_equal": "ge",
    "less_than": "lt",
    "less_than_equal": "le",
}
"""Where pydantic keeps a number's limit: an integer for integers, a float for other numbers."""

_OF_A_PART = re.compile(r"(\w+): (.+)", re.DOTALL)

_M = TypeVar("_M", bound=BaseModel)


def model_of(model: type[_M], document: object, place: str) -> _M:
    """Return a document as an instance of a model.

    Args:
        model: The model.
        document: The document as it was read.
        place: Its place in the line, such as `history[2]`.

    Raises:
        BadLine: The document is not valid. The first `PROBLEMS_MAX` problems are reported.
    """
    try:
        return model.model_validate(document)
    except ValidationError as error:
        raise BadLine(*(_message(one, place) for one in error.errors()[:PROBLEMS_MAX])) from error


def _message(one: ErrorDetails, place: str) -> str:
    where = ".".join(str(part) for part in (place, *one["loc"]))
    page = "docs/explanation/contract.md" if place == "contract" else "`tools schema observation`"
    if one["type"] == "missing":
        return f"{where}: is missing; expected a value"
    if one["type"] == "extra_forbidden":
        return f"{where}: no such field; see {page}"
    said, value = one["msg"].replace("Input should be ", ""), one["input"]
    if one["type"] in _SHAPES:
        said = _SHAPES[one["type"]]
        return problem(where, value, f"{said}; see {page}" if said == "an object" else said)
    if one["type"] == "enum" and where.endswith("state"):
        said += "; docs/reference/observation.md maps other words, such as KILLED, to these"
    if isinstance(value, bool) and one["type"] in _BOUNDS:
        # It was read as 1 or 0, so a message about its size would mislead.
        limit = one.get("ctx", {}).get(_BOUNDS[one["type"]])
        return problem(where, value, f"{_number_like(limit)} {said}")
    said = said.removeprefix("Value error, ")
    part = _OF_A_PART.fullmatch(said)
    if place == "contract" and part is not None and isinstance(value, dict):
        # A conflict between two keys is found after both were read.
        where, value, said = (
            f"{where}.{part[1]}",
            cast("dict[str, Any]", value).get(part[1]),
            part[2],
        )
    if said.startswith("expected ") or part is None:
        return problem(where, value, said.removeprefix("expected "))
    got = f"got {shown(value, where.split('.'))}; " if not isinstance(value, dict) else ""
    return f"{where}: {got}{said}"


def _number_like(limit: object) -> str:
    return "a number" if isinstance(limit, float) else "a whole number"


def problem(field: str, value: object, expected: str) -> str:
    """Return the message for a problem.

    Args:
        field: The place, such as `observation.job.state`, or "" for the line itself.
        value: The value there.
        expected: The expected value, in words.
    """
    place = f"{field}: " if field else ""
    return f"{place}got {shown(value, field.split('.'))}, expected {expected}"
