"""Projections that are kept: folds of the whole ledger into rows, each with a name and a version.

A projection is pure. It says which rows an event touches and what becomes of each. Whoever keeps
the rows (`ports.views`) gives it events in commit order and stores what comes back, so a
projection is never behind in halves, and building it again from the first event gives the same
rows.

A row may be touched by events of several streams. When one event cannot be folded, the later
events of its stream wait behind it while those of others go on; so what a row becomes must not
depend on the order between streams. Sums and newest-by-time do not.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from watchkeeper.domain.run.envelope import Event, decode

Row = Mapping[str, Any]
"""One row: what JSON can hold."""

Passed = tuple[int, str, int, str, int, bytes, bytes | None]
"""A stored event as it is passed: position, stream, version, topic, number of bytes, chain hash;
and the bytes, or none where nobody asked for them."""


@dataclass(frozen=True)
class Seen:
    """One stored event on its way to the projections; decoded once for all of them.

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
    """How rows that are sums are had from many events at once.

    Attributes:
        of: What only these events make of each row that they touch, without their bytes; may raise.
        plus: Two such rows taken together; may raise.
    """

    of: Callable[[Sequence[Passed]], Mapping[str, Row]]
    plus: Callable[[Row, Row], Row]


@dataclass(frozen=True, slots=True)
class Projection:
    """A fold into rows, under a name and a version.

    Attributes:
        name: Such as `sizes`.
        version: Grows with each change of what the rows hold or mean.
        keys: Which rows an event touches; may raise, then the event is parked.
        fold: What becomes of one row, or of none yet, by an event that touches it; may raise.
        shows: What it is for, in words.
        topics: No event of another topic touches a row; none where any may.
        sums: The same rows as by `keys` and `fold`, faster; none where rows are no sums. Where it
            raises, the events are folded one by one, to find which to park.
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
        """Name and version as people write them, such as `sizes@1`."""
        return f"{self.name}@{self.version}"


def looked_into(projections: Iterable[Projection]) -> frozenset[str] | None:
    """Return the topics of events whose bytes one of these projections needs; none for any."""
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


def folded(
    projection: Projection, rows: Mapping[str, Row], events: Sequence[Seen]
) -> dict[str, Row]:
    """Return rows after more events; the plain meaning of a projection, for proofs.

    Raises:
        Exception: Whatever the projection raises for an event that it cannot fold.
    """
    after = dict(rows)
    for seen in events:
        for key in projection.keys(seen):
            after[key] = projection.fold(key, after.get(key), seen)
    return after
