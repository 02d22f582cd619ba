"""Reads new lines of a growing JSON-lines file, without reading old ones again."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from watchkeeper.adapters.trackers.metric_points import Point
from watchkeeper.domain.values.observation.sources import HISTORY_POINTS_MAX

FIRST_BYTES = 8 * 1024 * 1024
"""Read of a file that was not read before: of 10,000 rows with 30 metrics each about all."""

_CHECKED_BYTES = 64
"""Before the place where reading goes on; other bytes there mean another file."""

Bytes = Callable[[int, int], bytes]
"""Returns the file's bytes from one offset to another."""

Rows = Callable[[bytes, int], list[tuple[str, dict[str, Any]]]]
"""Returns the whole lines of a part that begins at an offset, as the tracker reads them."""


@dataclass(frozen=True, slots=True)
class Kept:
    """The part of a file that was read.

    Attributes:
        offset: Where the next line begins.
        before: The bytes before it.
        points: The newest points.
    """

    offset: int = 0
    before: bytes = b""
    points: tuple[Point, ...] = ()


def read_on(
    kept: Kept, size: int, read: Bytes, rows: Rows, point: Callable[[str, dict[str, Any]], Point]
) -> Kept:
    """Read the rest of the file and return all known data.

    Args:
        kept: What was read before.
        size: The file's size now.
        read: Reads a part of it.
        rows: Reads the lines of a part.
        point: Reads a row that has a step.
    """
    start, skipped, points = kept.offset - len(kept.before), len(kept.before) - 1, kept.points
    content = read(start, size) if 0 < kept.offset <= size <= kept.offset + FIRST_BYTES else b""
    if not content or not content.startswith(kept.before):
        # Never read, rewritten, truncated, or grown by more than is read at once.
        start, skipped, points = max(0, size - FIRST_BYTES), 0, ()
        content = read(start, size)
    # Start at a line end, so that the line before it does not count as half a line.
    new = [point(*row) for row in rows(content[skipped:], start + skipped) if "step" in row[1]]
    end = content.rfind(b"\n") + 1
    before = content[max(0, end - _CHECKED_BYTES) : end]
    return Kept(start + end, before, (*points, *new)[-HISTORY_POINTS_MAX:])


def values_of(row: Mapping[str, Any]) -> dict[str, float]:
    """Return the metrics of a row; numbers that do not fit a float are infinite."""
    found: dict[str, float] = {}
    for name, value in row.items():
        if (
            name in ("step", "time")
            or isinstance(value, bool)
            or not isinstance(value, int | float)
        ):
            continue
        try:
            found[name] = float(value)
        except OverflowError:
            found[name] = float("inf") if value > 0 else float("-inf")
    return found
