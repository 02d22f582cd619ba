"""How long a history may grow before somebody should close it; standard library only.

The numbers are the domain's, which records that a limit was passed; see
`domain.values.history_limits`. A long history is told, and costs time: it is folded once for
each process.
"""

from collections.abc import Iterable
from typing import Protocol

from watchkeeper.projections.status.rows import RunRow

SOFT_EVENTS, HARD_EVENTS = 10_240, 51_200
"""As in the domain, which `status` does not import: a test holds them equal."""

SOFT_BYTES, HARD_BYTES = 10_000_000, 50_000_000


class AnyRow(Protocol):
    """A run as `status` shows it; see `watchkeeper.projections.status.fleet.View`."""

    @property
    def run(self) -> str:
        """The run's slug."""
        ...

    @property
    def row(self) -> RunRow | None:
        """Its row; none when it cannot be read."""
        ...


_OVER = ("sealed", "stopped", "abandoned", "superseded")


def long_histories(runs: Iterable[AnyRow]) -> list[tuple[bool, str]]:
    """Say of each run that is beyond a limit and goes on whether it is the hard one, and what."""
    found: list[tuple[bool, str]] = []
    for one in runs:
        limit = beyond(one.row["version"]) if one.row is not None else ""
        if one.row is None or not limit or one.row["phase"] in _OVER:
            continue
        most = HARD_EVENTS if limit == "hard" else SOFT_EVENTS
        says = (
            f"{one.run}: {one.row['version']:,} events, more than {most:,}: close it when you can"
        )
        found.append((limit == "hard", says))
    return found


def beyond(events: int, size_bytes: int = 0) -> str:
    """Return the limit that a history is beyond: `hard`, `soft`, or nothing.

    >>> beyond(10_240), beyond(100, 50_000_000), beyond(10_239)
    ('soft', 'hard', '')
    """
    if events >= HARD_EVENTS or size_bytes >= HARD_BYTES:
        return "hard"
    return "soft" if events >= SOFT_EVENTS or size_bytes >= SOFT_BYTES else ""
