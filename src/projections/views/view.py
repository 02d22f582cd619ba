"""Kept projections: folds of the whole ledger into rows, by name and version.

A projection is pure. It names the rows that an event touches and computes their new content. The
store of the rows (`ports.views`) passes events in commit order and saves the results. So a
projection is never half updated, and a rebuild from the first event gives the same rows.

Events of several streams may touch one row. If an event cannot be folded, later events of its
stream wait, but other streams continue. So the content of a row must not depend on the order
between streams. Sums and newest-by-time values do not depend on it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from watchkeeper.domain.run.envelope import Event, decode

Row = Mapping[str, Any]
"""One row: any JSON object."""

Passed = tuple[int, str, int, str, int, bytes, bytes | None]
"""A stored event: position, stream, version, topic, number of bytes, chain hash, and the bytes, or
None if they were not requested."""


@dataclass(frozen=True)
class Seen:
    """One stored event for the projections; decoded once for all of them.

    Attributes:
        position: Place in the whole ledger.
        stream: Its stream.
        version: Its place in the stream.
        topic: As stored.
        state: The stored bytes.
        hash: Chain hash.
    """

    position: int
    stream: str
    version: int
    topic: str
    state: bytes
    hash: bytes = field(repr=False)

    @cached_property
    def event(self) -> Event:
        """The event itself.

        Raises:
            Undecodable: This code cannot read it.
        """
        return decode(self.stream, self.version, self.topic, self.state)


@dataclass(frozen=True, slots=True)
class Sums:
    """Computes rows that are sums from many events at once.

    Attributes:
        of: Returns the rows that these events alone give, without their bytes; may raise.
        plus: Adds two such rows; may raise.
    """

    of: Callable[[Sequence[Passed]], Mapping[str, Row]]
    plus: Callable[[Row, Row], Row]


@dataclass(frozen=True, slots=True)
class Projection:
    """A fold into rows, under a name and a version.

    Attributes:
        name: For example `sizes`.
        version: Grows with each change of the rows' content or meaning.
        keys: Returns the rows that an event touches. If it raises, the event is parked.
        fold: Returns the new content of a row, or of a new row, after an event; may raise.
        shows: Its purpose, in words.
        topics: The only topics whose events touch a row; None if any may.
        sums: Gives the same rows as `keys` and `fold`, faster; None if rows are not sums. If it
            raises, the events are folded one by one, to find the ones to park.
    """

    name: str
    version: int
    keys: Callable[[Seen], Sequence[str]]
    fold: Callable[[str, Row | None, Seen], Row]
    shows: str
    topics: frozenset[str] | None = None
    sums: Sums | None = None

    @property
    def title(self) -> str:
        """Name and version for display, such as `sizes@1`."""
        return f"{self.name}@{self.version}"


def looked_into(projections: Iterable[Projection]) -> frozenset[str] | None:
    """Return the topics whose bytes these projections need; None for all topics."""
    found: frozenset[str] = frozenset()
    for one in projections:
        if one.sums is not None:
            continue
        if one.topics is None:
            return None
        found |= one.topics
    return found


def newest_of(projections: Sequence[Projection]) -> dict[str, Projection]:
    """Return the newest version of each projection that this code knows, by name."""
    found: dict[str, Projection] = {}
    for one in projections:
        if one.name not in found or found[one.name].version < one.version:
            found[one.name] = one
    return found
