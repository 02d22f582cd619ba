"""Reads events from PostgreSQL page by page."""

from collections.abc import Collection, Sequence
from functools import partial
from typing import Any

from watchkeeper.adapters.store.postgres_guard import Connection
from watchkeeper.adapters.store.postgres_link import Links
from watchkeeper.adapters.store.postgres_names import Names, rows_of
from watchkeeper.ports.event_store import EventHeader, Recorded

# A page is cut in the order of an index, so that the server never reads and sorts the rest of a
# long stream for it, whatever statistics say, or without any. Names are put in here: see `Names`.
_READ = """SELECT id, version, topic, state, hash FROM events
WHERE stream = (SELECT id FROM streams WHERE name = %s) AND version > %s
ORDER BY stream, version LIMIT %s::bigint"""

_READ_ALL = """SELECT id, stream, version, topic, state, hash FROM events
WHERE id > %s ORDER BY id LIMIT %s::bigint"""

_SKIM = """SELECT id, stream, version, topic, octet_length(state), hash, CASE
    WHEN topic = ANY(ARRAY(SELECT id FROM topics WHERE name = ANY(%s::text[]))) THEN state
END
FROM events WHERE id > %s ORDER BY id LIMIT %s::bigint"""

# A third less work per event than with the class itself.
_recorded = partial(tuple[Any, ...].__new__, Recorded)


class PostgresPages:
    """The half of a store that reads events; see `watchkeeper.ports.event_store.EventStore`."""

    def __init__(self, links: Links) -> None:
        """Use the given connections."""
        self.links = links
        self._names = Names(links.where)

    def read(self, stream: str, *, after: int = 0, limit: int | None = None) -> list[Recorded]:
        """Return a stream's events with versions above `after`, in order."""

        def page(connection: Connection) -> list[Recorded]:
            rows = rows_of(connection, _READ, (stream, after, limit))
            return self._of_stream(stream, connection, rows)

        return self.links.read_by("read", page)

    def read_all(self, *, after: int = 0, limit: int = 500) -> list[Recorded]:
        """Return a page of the whole ledger with positions above `after`, in commit order."""

        def page(connection: Connection) -> list[Recorded]:
            return self._of_all(connection, rows_of(connection, _READ_ALL, (after, limit)))

        return self.links.read_by("read", page)

    def _of_stream(
        self, stream: str, connection: Connection, rows: Sequence[tuple[Any, ...]]
    ) -> list[Recorded]:
        topics = self._names.topics(connection, {row[2] for row in rows})
        return [
            _recorded((position, stream, version, topics[topic], state, chain))
            for position, version, topic, state, chain in rows
        ]

    def _of_all(self, connection: Connection, rows: Sequence[tuple[Any, ...]]) -> list[Recorded]:
        streams, topics = self._names.both(connection, rows)
        return [
            _recorded((position, streams[stream], version, topics[topic], state, chain))
            for position, stream, version, topic, state, chain in rows
        ]

    def skim(
        self, topics: Collection[str], *, after: int = 0, limit: int = 500
    ) -> list[EventHeader]:
        """Return the same as `read_all`, with the bytes of events of these topics only."""
        asked = (sorted(topics), after, limit)

        def page(connection: Connection) -> list[EventHeader]:
            rows = rows_of(connection, _SKIM, asked)
            streams, names = self._names.both(connection, rows)
            return [
                EventHeader(position, streams[stream], version, names[topic], size, chain, state)
                for position, stream, version, topic, size, chain, state in rows
            ]

        return self.links.read_by("read", page)
