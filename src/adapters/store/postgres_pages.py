"""Reads events from PostgreSQL page by page."""

from collections.abc import Collection, Iterator, Sequence
from functools import partial
from typing import Any

from watchkeeper.adapters.store.postgres_ahead import Question, numbered, rows_ahead
from watchkeeper.adapters.store.postgres_guard import Connection
from watchkeeper.adapters.store.postgres_link import Links
from watchkeeper.adapters.store.postgres_names import Ask, Names, rows_of
from watchkeeper.ports.event_store import READ_PAGE, EventHeader, Recorded, end_of

# A page is cut in the order of an index, so that the server never reads and sorts the rest of a
# long stream for it, whatever statistics say, or without any. Names are put in here: see `Names`.
_READ = """SELECT id, version, topic, state, hash FROM events
WHERE stream = (SELECT id FROM streams WHERE name = %s) AND version > %s
ORDER BY stream, version LIMIT %s::bigint"""

_READ_ALL = """SELECT id, stream, version, topic, state, hash FROM events
WHERE id > %s ORDER BY id LIMIT %s::bigint"""

_AHEAD, _ALL_AHEAD = numbered(_READ), numbered(_READ_ALL)

_FIRST = 100
"""Events of a first page, during which the server has nothing to do yet."""

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

    def pages(self, stream: str | None = None, *, after: int = 0) -> Iterator[list[Recorded]]:
        """Yield the events page by page; each is read while the previous one is processed."""
        query, column, where = (_ALL_AHEAD, 0, ()) if stream is None else (_AHEAD, 1, (stream,))
        question = Question(query, column, where, READ_PAGE)
        plain = self.read_all if stream is None else partial(self.read, stream)
        limit = min(_FIRST, READ_PAGE)
        while page := plain(after=after, limit=limit):
            if len(page) < limit:
                yield page
                return
            after, limit = end_of(page, stream), READ_PAGE
            with rows_ahead(self.links, question, after) as ahead:
                yield page
                for connection, rows in ahead:
                    page = self._named(stream, connection, rows)
                    if page:
                        yield page
                        after = end_of(page, stream)
                    if len(page) < limit:
                        return

    def _named(
        self, stream: str | None, connection: Connection, rows: Sequence[tuple[Any, ...]]
    ) -> list[Recorded]:
        """Build events from rows while the next rows arrive on their connection."""
        ask = partial(self.links.read, "read")
        if stream is None:
            return self._of_all(connection, rows, ask)
        return self._of_stream(stream, connection, rows, ask)

    def _of_stream(
        self,
        stream: str,
        connection: Connection,
        rows: Sequence[tuple[Any, ...]],
        ask: Ask | None = None,
    ) -> list[Recorded]:
        topics = self._names.topics(connection, {row[2] for row in rows}, ask)
        return [
            _recorded((position, stream, version, topics[topic], state, chain))
            for position, version, topic, state, chain in rows
        ]

    def _of_all(
        self, connection: Connection, rows: Sequence[tuple[Any, ...]], ask: Ask | None = None
    ) -> list[Recorded]:
        streams, topics = self._names.both(connection, rows, ask)
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
