"""Refuses booleans where a number or a duration belongs.

They would be read as 1 and 0. The models accept the number forms of JSON readers and writers, such
as 5.0 or `"NaN"`, and therefore also booleans. So this module compares input and parsed value.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from itertools import islice
from typing import cast

from pydantic import BaseModel

from watchkeeper.adapters.bad_input import BadLine
from watchkeeper.adapters.judge.problems import PROBLEMS_MAX, problem


def refuse_booleans(written: object, made: object, place: str) -> None:
    """Refuse a document in which a boolean was read as a number or a duration.

    Args:
        written: The document as written.
        made: The parsed value.
        place: Its place in the line, such as `observation`.

    Raises:
        BadLine: There is such a boolean. The first `PROBLEMS_MAX` are reported.
    """
    found = list(islice(_places(written, made, place), PROBLEMS_MAX))
    if found:
        raise BadLine(*(problem(where, value, _expected(read)) for where, value, read in found))


def _places(written: object, made: object, place: str) -> Iterator[tuple[str, bool, object]]:
    match written:
        case bool():
            if not isinstance(made, bool):
                yield place, written, made
        case dict() if isinstance(made, BaseModel | Mapping):
            whole = cast(
                "Mapping[str, object]", made.__dict__ if isinstance(made, BaseModel) else made
            )
            for name, part in cast("dict[str, object]", written).items():
                if name in whole:
                    yield from _places(part, whole[name], f"{place}.{name}")
        case list() if isinstance(made, Sequence):
            parts = cast("list[object]", written)
            # A column holds ten thousand numbers, so search only values that may hold a boolean.
            if {bool, dict, list}.isdisjoint(map(type, parts)):
                return
            for number, (part, read) in enumerate(
                zip(parts, cast("Sequence[object]", made), strict=False)
            ):
                yield from _places(part, read, f"{place}[{number}]")
        case _:
            return


def _expected(made: object) -> str:
    if isinstance(made, timedelta):
        return "a duration such as 15m"
    return "a number" if isinstance(made, float) else "a whole number"
