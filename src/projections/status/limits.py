"""Limits on the length of a history.

Standard library only. The numbers come from the domain, which records that a limit was passed; see
`domain.values.history_limits`. A long history is reported, since it costs time: each process folds
it once.
"""

from collections.abc import Iterable
from typing import Protocol

from watchkeeper.projections.status.rows import RunRow

SOFT_EVENTS, HARD_EVENTS = 10_240, 51_200
"""The same values as in the domain, which `status` does not import; a test compares them."""

SOFT_BYTES, HARD_BYTES = 10_000_000, 50_000_000


class AnyRow(Protocol):
    """A run in `status`; see `watchkeeper.projections.status.fleet.View`."""

    @property
    def run(self) -> str:
        """The run's slug."""
        ...

    @property
    def row(self) -> RunRow | None:
        """Its row; None if it cannot be read."""
        ...


_OVER = ("sealed", "stopped", "abandoned", "superseded")


def long_histories(runs: Iterable[AnyRow]) -> list[tuple[bool, str]]:
    """Return each open run over a limit, with whether it is the hard limit, and a sentence."""
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
    """Return the limit that a history exceeds: `hard`, `soft`, or empty.

    >>> beyond(10_240), beyond(100, 50_000_000), beyond(10_239)
    ('soft', 'hard', '')
    """
    if events >= HARD_EVENTS or size_bytes >= HARD_BYTES:
        return "hard"
    return "soft" if events >= SOFT_EVENTS or size_bytes >= SOFT_BYTES else ""
