"""Cached names of streams and topics, which rows of events store as numbers.

Joining them to a page on the server costs as much as the page, because it sorts all bytes again. So
they are queried once and cached as long as their connection. The name of a number never changes,
and `ledger restore` replaces no ledger that has a connection. The server's own tools can replace
it: the operator's guide says to end every process first.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, LiteralString
from weakref import WeakKeyDictionary

from watchkeeper.adapters.store.postgres_guard import Connection
from watchkeeper.ports.event_store import StoreFailure

KEPT = 10_000
"""Names of streams cached for each connection, a megabyte: then they are queried again."""

_STREAMS = "SELECT id, name FROM streams WHERE id = ANY(%s::bigint[])"

_TOPICS = "SELECT id, name FROM topics WHERE id = ANY(%s::bigint[])"


@dataclass(frozen=True, slots=True)
class _Known:
    streams: dict[int, str] = field(default_factory=dict[int, str])
    topics: dict[int, str] = field(default_factory=dict[int, str])


class Names:
    """The names that the connections of one store have read. One thread uses a connection."""

    def __init__(self, where: str) -> None:
        """Know nothing of the ledger, which `where` names in words."""
        self._where = where
        self._known = WeakKeyDictionary[Connection, _Known]()

    def topics(self, connection: Connection, numbers: set[int]) -> Mapping[int, str]:
        """Return at least the names of these topics.

        Raises:
            StoreFailure: One has no name.
            psycopg.Error: The server refused, or is lost.
        """
        return self._named(connection, _TOPICS, numbers, self._of(connection).topics)

    def both(
        self, connection: Connection, rows: Sequence[tuple[Any, ...]]
    ) -> tuple[Mapping[int, str], Mapping[int, str]]:
        """Return the names of streams and of topics of rows of position, stream, version, topic.

        Raises the same errors as `topics`.
        """
        known = self._of(connection)
        return (
            self._named(connection, _STREAMS, {row[1] for row in rows}, known.streams),
            self._named(connection, _TOPICS, {row[3] for row in rows}, known.topics),
        )

    def _of(self, connection: Connection) -> _Known:
        known = self._known.get(connection)
        if known is None:
            known = self._known[connection] = _Known()
        return known

    def _named(
        self, connection: Connection, query: LiteralString, numbers: set[int], known: dict[int, str]
    ) -> Mapping[int, str]:
        missing = numbers - known.keys()
        if not missing:
            return known
        if len(known) + len(missing) > KEPT:
            known.clear()
            missing = numbers
        known.update(rows_of(connection, query, (sorted(missing),)))
        nameless = missing - known.keys()
        if nameless:
            # A join would silently leave its events out.
            raise StoreFailure(
                f"{self._where}: an event's stream or topic has the number {min(nameless)}, which "
                "has no name: the ledger is damaged. Run `watchkeeper verify`; restore a "
                "backup."
            )
        return known


def rows_of(
    connection: Connection, query: LiteralString, parameters: tuple[object, ...]
) -> list[tuple[Any, ...]]:
    """Return the rows of a query, in binary and prepared.

    Raises:
        psycopg.Error: The server refused, or is lost.
    """
    with connection.cursor(binary=True) as cursor:
        return cursor.execute(query, parameters, prepare=True).fetchall()
