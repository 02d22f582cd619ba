"""Picks the live shape of status rows while a new shape is built.

Standard library only, since `status` reads them. Rows of shape 1 have the parts `run` and
`effects`, rows of shape N have `run@N` and `effects@N`. One row without a run names the live shape;
without it, shape 1 is live. An append writes its run's rows in every shape that its release knows.
So building a new shape needs one pass over the runs.
"""

import json
from collections.abc import Iterable
from typing import NamedTuple, Protocol

MARKER_RUN = ""
MARKER_PART = "live"
"""The run name of the row with the live shape's number; no run has an empty name."""


class StoredRow(Protocol):
    """A row as the store returns it."""

    @property
    def run(self) -> str:
        """The run's slug."""
        ...

    @property
    def part(self) -> str:
        """Its part, with the shape's number from 2 on."""
        ...

    @property
    def row(self) -> str:
        """JSON text; empty for one that was dropped."""
        ...


class LiveRow(NamedTuple):
    """A live row, under its plain part name."""

    run: str
    part: str
    row: str


def part_name(part: str, shape: int) -> str:
    """Return the part name of a shape's rows.

    >>> part_name("run", 1), part_name("run", 2)
    ('run', 'run@2')
    """
    return part if shape == 1 else f"{part}@{shape}"


def part_of(name: str) -> tuple[str, int]:
    """Return the plain part and the shape's number.

    >>> part_of("effects@3"), part_of("run")
    (('effects', 3), ('run', 1))
    """
    part, _, number = name.partition("@")
    return part, int(number) if number.isdigit() else 1


def live_shape(rows: Iterable[StoredRow]) -> int:
    """Return the number of the live shape."""
    for one in rows:
        if one.run == MARKER_RUN and one.part == MARKER_PART and one.row.isdigit():
            return int(one.row)
    return 1


def live_rows(rows: Iterable[StoredRow]) -> list[LiveRow]:
    """Return the rows to read, one for each run and part.

    If an older release made a run's last append, its row of the live shape is missing or stale.
    Then the newer row of the other shape is returned. No run is ever left out.
    """
    rows = list(rows)
    every = [one for one in rows if one.row]
    live = live_shape(every)
    best: dict[tuple[str, str], tuple[int, StoredRow]] = {}
    for one in every:
        if one.run == MARKER_RUN:
            continue
        part, shape = part_of(one.part)
        found = best.get((one.run, part))
        if found is None or _rank(shape, live, one.row) > _rank(found[0], live, found[1].row):
            best[one.run, part] = shape, one
    for one in rows:
        # A row that was emptied on purpose has a row of another shape; otherwise the empty row is
        # shown.
        part, shape = part_of(one.part)
        if one.run != MARKER_RUN and (one.run, part) not in best:
            best[one.run, part] = shape, one
    return [LiveRow(run, part, one.row) for (run, part), (_, one) in best.items()]


def _rank(shape: int, live: int, row: str) -> tuple[int, bool, int]:
    """Rank the newest write first, then the live shape, then the newest shape."""
    try:
        version = json.loads(row).get("version", 0)
    except (ValueError, AttributeError):
        version = 0
    return version if isinstance(version, int) else 0, shape == live, shape
