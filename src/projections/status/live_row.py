"""Which of a run's status rows are read, while rows of a new shape are built beside the old ones.

Standard library only, as `status` reads them. Rows of shape 1 lie under the parts `run` and
`effects`, rows of shape N under `run@N` and `effects@N`. One row that belongs to no run says which
shape is live; without it shape 1 is. An append writes its run's rows in every shape that its
release knows, so building a new shape beside the live one needs one pass over the runs.
"""

import json
from collections.abc import Iterable
from typing import NamedTuple, Protocol

MARKER_RUN = ""
MARKER_PART = "live"
"""Where the live shape's number stands; no run has an empty name."""


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
    """A row that is read, under its plain part."""

    run: str
    part: str
    row: str


def part_name(part: str, shape: int) -> str:
    """Return under which part rows of a shape lie.

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
    """Return the number of the shape that is read."""
    for one in rows:
        if one.run == MARKER_RUN and one.part == MARKER_PART and one.row.isdigit():
            return int(one.row)
    return 1


def live_rows(rows: Iterable[StoredRow]) -> list[LiveRow]:
    """Return the rows to read, one for each run and part.

    A run whose last append was made by an older release has no row of the live shape, or one that
    is behind; then its newer row of the other shape is returned. No run is ever left out.
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
        # What was emptied on purpose has a row of another shape; what has none is shown as it is.
        part, shape = part_of(one.part)
        if one.run != MARKER_RUN and (one.run, part) not in best:
            best[one.run, part] = shape, one
    return [LiveRow(run, part, one.row) for (run, part), (_, one) in best.items()]


def _rank(shape: int, live: int, row: str) -> tuple[int, bool, int]:
    """What was written last comes first, then the live shape, then the newest one."""
    try:
        version = json.loads(row).get("version", 0)
    except (ValueError, AttributeError):
        version = 0
    return version if isinstance(version, int) else 0, shape == live, shape
