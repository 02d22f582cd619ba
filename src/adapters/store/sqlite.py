"""The port `ports.event_store.EventStore` on one SQLite file."""

import json
import sqlite3
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import takewhile
from pathlib import Path
from typing import Self

from watchkeeper.adapters.store.answers import answer_text, moved_on, repeated, versions_of
from watchkeeper.adapters.store.database import Database
from watchkeeper.adapters.store.opening import database_at_rest, open_database
from watchkeeper.adapters.store.schema import BUSY_LIMIT, refuse_other_recorders
from watchkeeper.domain.run.chain import GENESIS, chain_hash
from watchkeeper.ports.event_store import (
    Append,
    Appended,
    EventHeader,
    KeyReused,
    KeyRow,
    Recorded,
    StatusRow,
    VersionConflict,
    Write,
    pages_of,
)

_READ = """SELECT e.id, s.name, e.version, t.name, e.state, e.hash
FROM streams AS s CROSS JOIN events AS e CROSS JOIN topics AS t
WHERE s.name = ? AND e.stream = s.id AND e.version > ? AND t.id = e.topic
ORDER BY e.version LIMIT ?"""

_READ_ALL = """SELECT e.id, s.name, e.version, t.name, e.state, e.hash
FROM events AS e CROSS JOIN streams AS s CROSS JOIN topics AS t
WHERE e.id > ? AND s.id = e.stream AND t.id = e.topic
ORDER BY e.id LIMIT ?"""

_SKIM = """SELECT e.id, s.name, e.version, t.name, length(e.state), e.hash,
CASE WHEN e.topic IN (
    SELECT id FROM topics WHERE name IN (SELECT value FROM json_each(?))
) THEN e.state END
FROM events AS e CROSS JOIN streams AS s CROSS JOIN topics AS t
WHERE e.id > ? AND s.id = e.stream AND t.id = e.topic
ORDER BY e.id LIMIT ?"""

_HEAD = """SELECT version, hash FROM events
WHERE stream = ? ORDER BY version DESC LIMIT 1"""

_KEYS = "SELECT key, digest, answer, position FROM keys ORDER BY position, key"

_KEYS_PAGE = 500

_NO_LIMIT = -1


def open_store(path: Path, *, busy_limit: timedelta = BUSY_LIMIT) -> "SqliteStore":
    """Open the store in a file; create it if it is missing.

    Args:
        path: The file; its folder exists. Other files are kept next to it.
        busy_limit: How long an append waits for appends of other processes.

    Raises:
        StoreFailure: It could not be opened; the message says what to do.
    """
    return SqliteStore(open_database(path, busy_limit=busy_limit))


def open_at_rest(path: Path, *, busy_limit: timedelta = BUSY_LIMIT) -> "SqliteStore | None":
    """Open a read-only store; None if it is not one."""
    database = database_at_rest(path, busy_limit=busy_limit)
    return None if database is None else SqliteStore(database)


@dataclass(slots=True)
class _Ids:
    """Row ids of names. Names are never removed, so what was once committed stays true."""

    streams: dict[str, int] = field(default_factory=dict[str, int])
    topics: dict[str, int] = field(default_factory=dict[str, int])


@dataclass(slots=True)
class _Batch:
    """One append under way: ids that it gave out and heads that it moved, not yet committed."""

    connection: sqlite3.Connection
    known: _Ids
    new: _Ids = field(default_factory=_Ids)
    heads: dict[str, tuple[int, bytes] | None] = field(
        default_factory=dict[str, tuple[int, bytes] | None]
    )
    guarded: bool = False


class SqliteStore:
    """See `ports.event_store.EventStore` for the contract. Any thread may call any method."""

    def __init__(self, database: Database) -> None:
        """Use an open database; call `open_store` to create one."""
        self.database = database
        self._ids = _Ids()
        self._guarded = False

    @property
    def kind(self) -> str:
        """The kind of storage; see the port."""
        return "sqlite"

    def __enter__(self) -> Self:
        """Use the store for the length of a block."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close the store."""
        self.close()

    def append(
        self,
        writes: Sequence[Write],
        *,
        key: str | None = None,
        digest: bytes = b"",
        status: Sequence[StatusRow] = (),
    ) -> Appended:
        """Store events on one or more streams in one transaction; see the port."""
        [outcome] = self.append_batch([Append(writes, key, digest, status)])
        if isinstance(outcome, Appended):
            return outcome
        raise outcome

    def append_batch(
        self, appends: Sequence[Append]
    ) -> list[Appended | VersionConflict | KeyReused]:
        """Store several appends in one transaction; each succeeds or fails alone; see the port."""
        for append in appends:
            names = [write.stream for write in append.writes]
            assert len(names) == len(set(names)), f"one write for each stream, got {names}"
        outcomes: list[Appended | VersionConflict | KeyReused] = []
        with self.database.writing("append") as connection:
            batch = _Batch(connection, self._ids)
            for append in appends:
                try:
                    outcomes.append(self._append_one(batch, append))
                except (VersionConflict, KeyReused) as error:
                    outcomes.append(error)
        self._keep(batch)
        return outcomes

    def _append_one(self, batch: _Batch, append: Append) -> Appended:
        """Store one append of a batch.

        All that it can be refused for is looked at before its first change, and the transaction
        keeps other processes out: so nothing has to be undone when it fails alone.
        """
        first = _answer(batch.connection, append.key, append.digest)
        if first is not None:
            return first
        for write in append.writes:
            _check_version(write, _head(batch, write.stream))
        self._before_writing(batch, changes=bool(append.writes or append.status or append.key))
        versions, position = _store_writes(batch, append.writes)
        if append.status:
            batch.connection.executemany(
                "INSERT INTO status VALUES (?, ?, ?) "
                "ON CONFLICT (run, part) DO UPDATE SET row = excluded.row",
                [(row.run, row.part, row.row) for row in append.status if row.row],
            )
            batch.connection.executemany(
                "DELETE FROM status WHERE run = ? AND part = ?",
                [(row.run, row.part) for row in append.status if not row.row],
            )
        if append.key is not None:
            batch.connection.execute(
                "INSERT INTO keys VALUES (?, ?, ?, ?)",
                (append.key, append.digest, answer_text(versions), position),
            )
        return Appended(versions)

    def _before_writing(self, batch: _Batch, *, changes: bool) -> None:
        if changes:
            self.database.before_writing()
        if not (self._guarded or batch.guarded):
            refuse_other_recorders(batch.connection)
        batch.guarded = True

    def exclusive(self) -> AbstractContextManager[None]:
        """Block all other writers until the first append of a block; see the port."""
        return self.database.exclusive()

    def insert(self, events: Sequence[tuple[str, int, str, bytes]]) -> list[int]:
        """Store events with versions from the caller, in one transaction, all or nothing.

        The `eventsourcing` library uses this; there a stream may also begin at 0.

        Args:
            events: Stream, version, topic and final bytes of each, in order.

        Returns:
            Their positions.

        Raises:
            VersionConflict: A version does not directly follow its stream's newest one.
        """
        if not events:
            return []
        positions: list[int] = []
        with self.database.writing("append") as connection:
            batch = _Batch(connection, self._ids)
            self._before_writing(batch, changes=True)
            for stream, version, topic, state in events:
                head = _head(batch, stream)
                if version not in ((0, 1) if head is None else (head[0] + 1,)):
                    raise VersionConflict(
                        f"{stream}: version {version} does not follow "
                        f"{'an empty stream' if head is None else head[0]}: read again"
                    )
                positions.append(_store_event(batch, stream, version, topic, state))
        self._keep(batch)
        return positions

    def answer(self, key: str, *, digest: bytes = b"") -> Appended | None:
        """Return the result of the append with a key; see the port."""
        with self.database.reading("look up a key") as connection:
            return _answer(connection, key, digest)

    def read(self, stream: str, *, after: int = 0, limit: int | None = None) -> list[Recorded]:
        """Return a stream's events with versions above `after`, in order."""
        with self.database.reading("read") as connection:
            rows = connection.execute(
                _READ, (stream, after, _NO_LIMIT if limit is None else limit)
            ).fetchall()
        return list(map(Recorded._make, rows))

    def read_all(self, *, after: int = 0, limit: int = 500) -> list[Recorded]:
        """Return a page of the whole ledger with positions above `after`, in commit order."""
        with self.database.reading("read") as connection:
            rows = connection.execute(_READ_ALL, (after, limit)).fetchall()
        return list(map(Recorded._make, rows))

    def pages(self, stream: str | None = None, *, after: int = 0) -> Iterator[list[Recorded]]:
        """Yield the events page by page; see the port."""
        return pages_of(self, stream, after=after)

    def skim(
        self, topics: Collection[str], *, after: int = 0, limit: int = 500
    ) -> list[EventHeader]:
        """Return the same as `read_all`, with the bytes of events of these topics only."""
        asked = json.dumps(sorted(topics))
        with self.database.reading("read") as connection:
            rows = connection.execute(_SKIM, (asked, after, limit)).fetchall()
        return list(map(EventHeader._make, rows))

    def head(self, stream: str) -> tuple[int, bytes]:
        """Return a stream's version and chain hash; 0 and 32 zero bytes when it is empty."""
        with self.database.reading("read") as connection:
            head = _head(_Batch(connection, self._ids), stream)
        return (0, GENESIS) if head is None else head

    def streams(self, prefix: str) -> list[str]:
        """Return the names of all streams that start with a prefix, sorted by their bytes."""
        with self.database.reading("read") as connection:
            # Names with one prefix are adjacent, and the index gives them in order.
            names = connection.execute(
                "SELECT name FROM streams WHERE name >= ? ORDER BY name", (prefix,)
            )
            return list(takewhile(lambda name: name.startswith(prefix), (row[0] for row in names)))

    def status_rows(self) -> list[StatusRow]:
        """Return all status rows, sorted by run and part."""
        with self.database.reading("read") as connection:
            rows = connection.execute("SELECT run, part, row FROM status ORDER BY run, part")
            return [StatusRow(*row) for row in rows]

    def key_rows(self) -> Iterator[KeyRow]:
        """Yield all idempotency keys as they are at the call; see the port."""
        with self.database.reading("read") as connection:
            rows = connection.execute(_KEYS)
            while some := rows.fetchmany(_KEYS_PAGE):
                for key, digest, text, position in some:
                    yield KeyRow(key, digest, versions_of(text), position)

    def newest(self) -> int:
        """Return the newest position in the ledger; 0 when it is empty."""
        with self.database.reading("read") as connection:
            newest: int | None = connection.execute("SELECT max(id) FROM events").fetchone()[0]
        return newest or 0

    def wait(self, *, after: int, limit: timedelta) -> bool:
        """Wait until the ledger holds an event after a position, by any process, or the limit."""
        # A reader would wait for ever on a file that no process writes to any more.
        self.database.expect_same_file()
        return self.database.feed.wait(lambda: self.newest() > after, limit)

    def close(self) -> None:
        """Release the store, and leave its file at rest if no other process uses it."""
        self.database.close()

    def _keep(self, batch: _Batch) -> None:
        self._ids.streams.update(batch.new.streams)
        self._ids.topics.update(batch.new.topics)
        self._guarded |= batch.guarded


def _answer(connection: sqlite3.Connection, key: str | None, digest: bytes) -> Appended | None:
    if key is None:
        return None
    row = connection.execute("SELECT digest, answer FROM keys WHERE key = ?", (key,)).fetchone()
    if row is None:
        return None
    return repeated(key, digest, row)


def _check_version(write: Write, head: tuple[int, bytes] | None) -> None:
    version = 0 if head is None else head[0]
    if version != write.expected:
        raise moved_on(write.stream, version, write.expected)


def _head(batch: _Batch, stream: str) -> tuple[int, bytes] | None:
    if stream in batch.heads:
        return batch.heads[stream]
    stream_id = _find(batch.connection, batch.known.streams, "streams", stream)
    head = None
    if stream_id is not None:
        head = batch.connection.execute(_HEAD, (stream_id,)).fetchone()
    batch.heads[stream] = head
    return head


def _store_writes(batch: _Batch, writes: Sequence[Write]) -> tuple[dict[str, tuple[int, int]], int]:
    """Store all events; return the versions by stream, and the last position or 0."""
    versions: dict[str, tuple[int, int]] = {}
    position = 0
    for write in writes:
        for version, (topic, state) in enumerate(write.events, write.expected + 1):
            position = _store_event(batch, write.stream, version, topic, state)
        if write.events:
            versions[write.stream] = (write.expected + 1, write.expected + len(write.events))
    return versions, position


def _store_event(batch: _Batch, stream: str, version: int, topic: str, state: bytes) -> int:
    """Store one event after its stream's head; return its position."""
    head = _head(batch, stream)
    previous = GENESIS if head is None else head[1]
    chain = chain_hash(previous, stream, version, topic, state)
    stream_id = _find_or_add(
        batch.connection, batch.known.streams, batch.new.streams, "streams", stream
    )
    topic_id = _find_or_add(batch.connection, batch.known.topics, batch.new.topics, "topics", topic)
    row = batch.connection.execute(
        "INSERT INTO events (stream, version, topic, state, hash) VALUES (?, ?, ?, ?, ?)",
        (stream_id, version, topic_id, state, chain),
    )
    batch.heads[stream] = (version, chain)
    assert row.lastrowid is not None, "an insert gives a row id"
    return row.lastrowid


def _find(
    connection: sqlite3.Connection, known: Mapping[str, int], table: str, name: str
) -> int | None:
    if name in known:
        return known[name]
    row = connection.execute(f"SELECT id FROM {table} WHERE name = ?", (name,)).fetchone()
    return None if row is None else row[0]


def _find_or_add(
    connection: sqlite3.Connection,
    known: Mapping[str, int],
    new: dict[str, int],
    table: str,
    name: str,
) -> int:
    if name in new:
        return new[name]
    found = _find(connection, known, table, name)
    if found is None:
        row = connection.execute(f"INSERT INTO {table} (name) VALUES (?)", (name,))
        found = row.lastrowid
        assert found is not None, "an insert gives a row id"
    # Found ones are kept too: they were committed by another process.
    new[name] = found
    return found
