"""The port `ports.event_store.EventStore` on a PostgreSQL schema."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Self

import psycopg
from psycopg import sql

from watchkeeper.adapters.store.answers import (
    answer_text,
    key_reused,
    moved_on,
    repeated,
    versions_of,
)
from watchkeeper.adapters.store.feed import Feed
from watchkeeper.adapters.store.postgres_address import Address
from watchkeeper.adapters.store.postgres_append import APPEND_FUNCTION
from watchkeeper.adapters.store.postgres_failures import is_lost
from watchkeeper.adapters.store.postgres_link import LIMITS, Limits, Links, Unreached
from watchkeeper.adapters.store.postgres_pages import PostgresPages
from watchkeeper.clock import ExponentialBackoff, sleep
from watchkeeper.domain.run.chain import GENESIS
from watchkeeper.ports.event_store import (
    Append,
    Appended,
    KeyReused,
    KeyRow,
    Recorded,
    StatusRow,
    StoreFailure,
    VersionConflict,
    Write,
    pages_of,
)

LOOK = timedelta(milliseconds=200)
"""How long closing may have to wait for the listening thread."""


CHECK_EVERY = 25
"""After so many looks without a word the ledger is looked at: the slow poll behind NOTIFY. It also
finds a connection that is dead and does not say so."""


def hear(links: Links, feed: Feed) -> None:
    """Wake the listeners after each change, by any process, until the feed is closed."""
    backoff = ExponentialBackoff()
    while not feed.closed:
        try:
            _listen(links, feed, backoff)
        except (psycopg.Error, StoreFailure):
            # The listeners wake, look for themselves and meet the fault in their own threads,
            # where it is raised. Until the connection is back they look by themselves.
            feed.reconnected += 1
            feed.wake()
            feed.pause(backoff.next_wait())


def _listen(links: Links, feed: Feed, backoff: ExponentialBackoff) -> None:
    connection = links.connect()
    try:
        channel = sql.Identifier(links.marks.channel)
        connection.execute(sql.SQL("LISTEN {}").format(channel))
        backoff.reset()
        # What was appended before is found by a look.
        feed.wake()
        silent, newest = 0, -1
        while not feed.closed:
            heard = list(connection.notifies(timeout=LOOK.total_seconds(), stop_after=1))
            silent = 0 if heard else silent + 1
            if heard:
                feed.wake()
            elif silent % CHECK_EVERY == 0:
                with links.cut_when_late(connection):
                    row = connection.execute("SELECT position FROM counter").fetchone()
                if row is not None and row[0] != newest:
                    newest = row[0]
                    feed.wake()
    finally:
        connection.close()


PREFIX_END = "\U0010ffff"
"""Sorts behind every name that begins with a prefix: by bytes it is the last character."""

_KEYS = """SELECT key, digest, answer, position FROM keys
WHERE (position, key) > (%s::bigint, %s::text) AND position <= %s::bigint
ORDER BY position, key LIMIT %s::bigint"""

_KEYS_PAGE = 500

_HEAD = """SELECT version, hash FROM events
WHERE stream = (SELECT id FROM streams WHERE name = %s)
ORDER BY stream DESC, version DESC LIMIT 1"""


def open_postgres(
    address: Address, *, limits: Limits = LIMITS, create: bool = False
) -> "PostgresStore":
    """Open the ledger at an address.

    Args:
        address: Server, database and schema.
        limits: Time limits.
        create: Create the schema and its tables if they are missing.

    Raises:
        StoreFailure: It could not be opened; the message says what to do.
    """
    links = Links(address, limits)
    try:
        links.prepare(create=create)
    except BaseException:
        links.close()
        raise
    return PostgresStore(links)


@dataclass(frozen=True, slots=True)
class SourceResult:
    """One append, as the database function takes it.

    Attributes:
        streams: Name and expected version of each stream.
        events: Place of the stream, from 1, topic and bytes of each event.
        answer: The versions to keep under the key.
        append: Key, digest and status rows.
        seen: A follower and its position, or None.
    """

    streams: Sequence[tuple[str, int]]
    events: Sequence[tuple[int, str, bytes]]
    answer: Mapping[str, tuple[int, int]]
    append: Append
    seen: tuple[str, int] | None = None


@dataclass(frozen=True, slots=True)
class Reported:
    """The outcome of one append: `stored`, `repeated`, `reused`, `conflict` or `seen`.

    Attributes:
        outcome: One of these.
        said: The first answer, or the conflicting stream or follower.
        version: That stream's version; None if it is empty.
        position: Position of the last stored event, or of the follower.
    """

    outcome: str
    said: str | None
    version: int | None
    position: int | None


class PostgresStore(PostgresPages):
    """See `ports.event_store.EventStore` for the contract. Any thread may call any method."""

    def __init__(self, links: Links) -> None:
        """Use the connections to a prepared ledger; see `open_postgres`."""
        super().__init__(links)
        self.feed = Feed(partial(hear, links))

    def __enter__(self) -> Self:
        """Use the store for the length of a block."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close the store."""
        self.close()

    @property
    def kind(self) -> str:
        """Its display name."""
        return "postgresql"

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
        """Store several appends in one transaction, each for itself; see the port."""
        asked = [asked_of(append) for append in appends]
        return [self._answered(one, row) for one, row in zip(asked, self.store(asked), strict=True)]

    def store(self, asked: Sequence[SourceResult]) -> list[Reported]:
        """Append in one database call, and find the outcome after a lost connection.

        Raises:
            StoreFailure: The server refused, or could not be reached within `Limits.reconnect`.
        """
        self.links.refuse_if_closed()
        if not asked:
            return []
        parameters = self.parameters(asked)
        deadline = self.links.patience()
        backoff = ExponentialBackoff()
        unsure = False
        while True:
            try:
                with self.links.borrowed() as connection, connection.cursor(binary=True) as cursor:
                    cursor.execute(APPEND_FUNCTION.call.encode(), parameters, prepare=True)
                    found = [Reported(*row) for row in cursor.fetchall()]
                break
            except Unreached as error:
                if deadline.expired():
                    raise self._failed(error, unsure) from error
            except psycopg.Error as error:
                lost = is_lost(error)
                if not lost or deadline.expired():
                    unknown = unsure or lost
                    raise self.links.failure(error, "append", *_UNKNOWN[: int(unknown)]) from error
                # It may have been stored: a retry is refused then, and its bytes show it.
                unsure = True
            sleep(min(backoff.next_wait(), deadline.remaining()))
        self.feed.wake()
        if unsure:
            return [self._settled(one, row) for one, row in zip(asked, found, strict=True)]
        return found

    def pages(self, stream: str | None = None, *, after: int = 0) -> Iterator[list[Recorded]]:
        """Yield the events page by page; see the port."""
        return pages_of(self, stream, after=after)

    def answer(self, key: str, *, digest: bytes = b"") -> Appended | None:
        """Return the result of the append with a key; see the port."""
        rows = self.links.read(
            "look up a key", "SELECT digest, answer FROM keys WHERE key = %s::text", (key,)
        )
        if not rows:
            return None
        return repeated(key, digest, rows[0])

    def head(self, stream: str) -> tuple[int, bytes]:
        """Return a stream's version and chain hash; 0 and 32 zero bytes when it is empty."""
        rows = self.links.read("read", _HEAD, (stream,))
        if not rows:
            return 0, GENESIS
        [(version, chain)] = rows
        return version, chain

    def streams(self, prefix: str) -> list[str]:
        """Return the names of all streams that start with a prefix, sorted by their bytes."""
        rows = self.links.read(
            "read",
            "SELECT name FROM streams WHERE name >= %s AND name < %s ORDER BY name",
            (prefix, prefix + PREFIX_END),
        )
        return [name for (name,) in rows]

    def status_rows(self) -> list[StatusRow]:
        """Return all status rows, sorted by run and part."""
        rows = self.links.read("read", "SELECT run, part, row FROM status ORDER BY run, part", ())
        return [StatusRow(*row) for row in rows]

    def key_rows(self) -> Iterator[KeyRow]:
        """Yield all idempotency keys as they are at the call; see the port."""
        newest, last = self.newest(), (-1, "")
        while rows := self.links.read("read", _KEYS, (*last, newest, _KEYS_PAGE)):
            for key, digest, text, position in rows:
                yield KeyRow(key, digest, versions_of(text), position)
            last = rows[-1][3], rows[-1][0]

    def exclusive(self) -> AbstractContextManager[None]:
        """Block all other writers for the length of a block; see the port."""
        return self.links.holding(self.links.marks.append_lock)

    def newest(self) -> int:
        """Return the newest position in the ledger; 0 when it is empty."""
        [(position,)] = self.links.read("read", "SELECT position FROM counter", ())
        assert isinstance(position, int), "a column of numbers"
        return position

    def wait(self, *, after: int, limit: timedelta) -> bool:
        """Wait until the ledger holds an event after a position, by any process, or the limit."""
        return self.feed.wait(lambda: self.newest() > after, limit)

    def close(self) -> None:
        """Release the store; safe to call twice."""
        self.feed.close()
        self.links.close()

    def parameters(self, asked: Sequence[SourceResult]) -> tuple[object, ...]:
        """Return the parameters of `APPEND_FUNCTION.call`."""
        streams = [stream for one in asked for stream in one.streams]
        events = [event for one in asked for event in one.events]
        rows = [row for one in asked for row in one.append.status]
        return (
            self.links.marks.append_lock,
            self.links.marks.channel,
            [one.append.key for one in asked],
            [one.append.digest for one in asked],
            [answer_text(one.answer) for one in asked],
            [one.seen[0] if one.seen else None for one in asked],
            [one.seen[1] if one.seen else None for one in asked],
            [len(one.streams) for one in asked],
            [len(one.events) for one in asked],
            [len(one.append.status) for one in asked],
            [name for name, _ in streams],
            [expected for _, expected in streams],
            [place for place, _, _ in events],
            [topic for _, topic, _ in events],
            [state for _, _, state in events],
            [row.run for row in rows],
            [row.part for row in rows],
            [row.row for row in rows],
        )

    def _answered(self, one: SourceResult, row: Reported) -> Appended | VersionConflict | KeyReused:
        match row.outcome:
            case "stored":
                return Appended(one.answer)
            case "repeated":
                return Appended(versions_of(row.said or "{}"), repeated=True)
            case "reused":
                return key_reused(one.append.key or "")
            case "conflict":
                expected = dict(one.streams)[row.said or ""]
                return moved_on(row.said or "", row.version or 0, expected)
            case unknown:
                raise AssertionError(f"the database answered {unknown!r}")

    def _settled(self, one: SourceResult, row: Reported) -> Reported:
        """Report an append as stored if its own events are there despite a lost connection.

        The bytes of each event hold a fresh id, so no other append has stored the same.
        """
        if row.outcome == "stored" or not one.events:
            return row
        position = 0
        for place, (stream, expected) in enumerate(one.streams, 1):
            ours = [(topic, state) for at, topic, state in one.events if at == place]
            there = self.read(stream, after=expected, limit=len(ours)) if ours else []
            if [(event.topic, event.state) for event in there] != ours:
                return row
            position = max([position, *(event.position for event in there)])
        return Reported("stored", None, None, position)

    def _failed(self, error: Unreached, unsure: bool) -> StoreFailure:
        """Return the failure to reconnect, with the known state of an append that was sent."""
        says = str(error).replace("Nothing was stored.", _UNKNOWN[0]) if unsure else str(error)
        return self.links.given_up(error, says)


_UNKNOWN = (
    "It is unknown whether it was stored: repeat the last command with the same key, or read its "
    "run again.",
)


def asked_of(append: Append) -> SourceResult:
    """Put an append into the terms of the function in the database."""
    names = [write.stream for write in append.writes]
    assert len(names) == len(set(names)), f"one write for each stream, got {names}"
    return SourceResult(
        streams=[(write.stream, write.expected) for write in append.writes],
        events=[
            (place, topic, state)
            for place, write in enumerate(append.writes, 1)
            for topic, state in write.events
        ],
        answer={
            write.stream: (write.expected + 1, write.expected + len(write.events))
            for write in append.writes
            if write.events
        },
        append=append,
    )
