"""Checks the content of a store over one connection."""

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from pydantic import StrictInt, TypeAdapter, ValidationError

from watchkeeper.adapters.store.failures import SQLITE_ERRORS, SqliteError, primary_code
from watchkeeper.adapters.store.schema import (
    APPLICATION_ID,
    OLD_REFUSAL,
    REFUSALS,
    SCHEMA_VERSION,
    expected_objects,
    schema_objects,
)
from watchkeeper.domain.run.chain import GENESIS, Head, chain_hash, follow

PROBLEMS_MAX = 100
"""After so many problems the check stops: one broken page can make thousands."""

_PAGE = 100
"""Events that are checked at once, as long as all is well: they fit into a core's own memory."""

UNDECIDED = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_PERM,
    }
)
"""Errors that say nothing about the content."""

_EVENTS = "SELECT id, stream, version, topic, state, hash FROM events NOT INDEXED ORDER BY id"
_PART = (
    "SELECT id, stream, version, topic, state, hash FROM events NOT INDEXED "
    "WHERE id BETWEEN ? AND ? ORDER BY id"
)

_ANSWER = TypeAdapter(dict[str, tuple[StrictInt, StrictInt]])


class ProblemKind(StrEnum):
    """A kind of error in a store."""

    DIGEST = "digest"
    """The file as a whole is not what it was when it was last closed."""
    FILE = "file"
    """SQLite itself finds the file damaged, or a value has a type that is never stored."""
    LOG = "log"
    """The write-ahead log lost something that was committed."""
    SCHEMA = "schema"
    """Tables, triggers or markers of the file were changed."""
    VERSION = "version"
    """A stream's versions have a gap or a wrong order."""
    CHAIN = "chain"
    """An event does not have the hash that its content and its predecessor give."""
    POSITION = "position"
    """Events are missing from the ledger or were added at its end."""
    KEY = "key"
    """An idempotency key refers to missing events."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong.

    Attributes:
        kind: What sort of thing.
        message: What and where, in a sentence.
        stream: The stream, when it concerns one.
        version: The event's version in it, when it concerns one.
    """

    kind: ProblemKind
    message: str
    stream: str | None = None
    version: int | None = None


Row = tuple[Any, ...]
"""Position, stream, version, topic, bytes and hash of an event, as they are stored."""


def _untold(_events: int) -> None:
    """Ignore the progress."""


@dataclass(slots=True)
class Seen:
    """The state of a walk over all events.

    Attributes:
        names: Names of streams, by row id.
        topics: Names of topics, by row id.
        heads: The head of each stream, by row id.
        events: The number of events.
        newest: The position of the last one.
        proved: Several processes have proved that the structure and all events up to there are
        correct.
        told: Called with the number of events so far.
    """

    names: dict[int, Any] = field(default_factory=dict[int, Any])
    topics: dict[int, Any] = field(default_factory=dict[int, Any])
    heads: dict[int, Head] = field(default_factory=dict[int, Head])
    events: int = 0
    newest: int = 0
    proved: bool = False
    reported: Callable[[int], None] = _untold


def lenient_text(raw: bytes) -> str:
    """Decode stored text. What is no UTF-8 becomes other text, which no hash agrees with."""
    return raw.decode("utf-8", "backslashreplace")


def damaged(error: SqliteError) -> Problem:
    """Return the problem that an error of SQLite is."""
    return Problem(ProblemKind.FILE, f"SQLite can't read the file: {error}.")


def content_problems(connection: sqlite3.Connection, seen: Seen) -> Iterator[Problem]:
    """Yield the errors in a store's content; the state is kept for the report.

    Args:
        connection: In a read transaction, with `lenient_text` as its text factory.
        seen: Empty at first.

    Raises:
        sqlite3.Error: It could not be read, for a reason that says nothing about the content.
    """
    for check in (schema_problems, _structure_problems, _event_problems, _key_problems):
        try:
            yield from check(connection, seen)
        except SQLITE_ERRORS as error:
            if primary_code(error) in UNDECIDED:
                raise
            yield damaged(error)


def schema_problems(connection: sqlite3.Connection, _: Seen) -> Iterator[Problem]:
    """Report schema objects that differ from watchkeeper's."""
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    if application != APPLICATION_ID:
        yield Problem(
            ProblemKind.SCHEMA,
            f"The file's application id is {application:#x}, expected {APPLICATION_ID:#x}.",
        )
    meta = connection.execute("SELECT name, value FROM meta").fetchall()
    if meta != [("schema", str(SCHEMA_VERSION))]:
        yield Problem(ProblemKind.SCHEMA, f"The table meta holds {meta!r}.")
    there, expected = schema_objects(connection), expected_objects()
    # An older file gets them with its next write.
    there = {at: sql for at, sql in there.items() if OLD_REFUSAL.get(at, "") != sql}
    for place, statement in REFUSALS.items():
        there.setdefault(place, statement)
    for kind, name in sorted(there.keys() | expected.keys()):
        if there.get((kind, name)) != expected.get((kind, name)):
            yield Problem(
                ProblemKind.SCHEMA, f"The {kind} {name} is not as watchkeeper creates it."
            )


def _structure_problems(connection: sqlite3.Connection, seen: Seen) -> Iterator[Problem]:
    if not seen.proved:
        yield from integrity_problems(connection)
        yield from reference_problems(connection)


def integrity_problems(connection: sqlite3.Connection) -> Iterator[Problem]:
    """Report SQLite's own errors in the trees of its tables and indexes."""
    for (message,) in connection.execute(f"PRAGMA integrity_check({PROBLEMS_MAX})"):
        if message != "ok":
            yield Problem(ProblemKind.FILE, f"SQLite finds the file damaged: {message}.")


def reference_problems(connection: sqlite3.Connection) -> Iterator[Problem]:
    """Report rows that refer to missing rows."""
    for table, row, parent, _index in connection.execute("PRAGMA foreign_key_check"):
        yield Problem(ProblemKind.FILE, f"Row {row} of {table} names no row of {parent}.")


def _event_problems(connection: sqlite3.Connection, seen: Seen) -> Iterator[Problem]:
    """Walk all events in the order of their commits."""
    if not seen.proved:
        read_names(connection, seen)
        for page in event_pages(connection):
            yield from page_problems(seen, page, row_problems)
    yield from _end_problems(connection, seen)


def read_names(connection: sqlite3.Connection, seen: Seen) -> None:
    """Read what streams and topics are called."""
    seen.names = dict(connection.execute("SELECT id, name FROM streams"))
    seen.topics = dict(connection.execute("SELECT id, name FROM topics"))


def event_pages(
    connection: sqlite3.Connection, part: tuple[int, int] | None = None
) -> Iterator[list[Row]]:
    """Yield events page by page, in the order of their commits.

    Args:
        connection: To the store.
        part: First and last position; None for all events.
    """
    rows = connection.execute(_EVENTS) if part is None else connection.execute(_PART, part)
    page: list[Row] = []
    try:
        for row in rows:
            page.append(row)
            if len(page) == _PAGE:
                yield page
                page = []
    except SQLITE_ERRORS:
        # What was read before the damage is checked, too.
        if page:
            yield page
        raise
    if page:
        yield page


def page_problems(
    seen: Seen, page: Sequence[Row], one_by_one: Callable[[Seen, Row], Iterator[Problem]]
) -> Iterator[Problem]:
    """Check the next events and add them to the state.

    Args:
        seen: What was seen before.
        page: Some rows.
        one_by_one: Takes in an event and finds what is wrong with it, whatever it holds.
    """
    # One by one only from the first event on of which anything is wrong.
    for row in page[right_events(seen, page) :]:
        if row[0] != seen.newest + 1:
            yield Problem(
                ProblemKind.POSITION,
                f"Position {row[0]} follows {seen.newest}: events between them were removed.",
            )
        seen.newest = row[0]
        seen.events += 1
        yield from one_by_one(seen, row)
    seen.reported(seen.events)


def row_problems(seen: Seen, row: Row) -> Iterator[Problem]:
    """Check one event, whatever it holds."""
    position, stream_id, version, topic_id, state, chain = row
    match seen.names.get(stream_id), version, seen.topics.get(topic_id), state, chain:
        case str(), int(), str(topic), bytes(), bytes() if len(chain) == len(GENESIS):
            yield from link_problems(seen, stream_id, version, topic, state, chain)
        case _:
            yield Problem(
                ProblemKind.FILE,
                f"The event at position {position} holds values that are never stored.",
            )


def right_events(seen: Seen, page: Sequence[Row]) -> int:
    """Add the events at the start of a page that continue the state; return their number."""
    if not page:
        return 0
    positions, streams, versions, kinds, states, hashes = zip(*page, strict=True)
    stored_so = (
        positions == tuple(range(seen.newest + 1, seen.newest + 1 + len(page)))
        and set(map(type, versions)) == {int}
        and set(map(type, states)) == {bytes}
        and {type(seen.names.get(one)) for one in set(streams)} == {str}
        and {type(seen.topics.get(one)) for one in set(kinds)} == {str}
    )
    if not stored_so:
        return 0
    names = map(seen.names.__getitem__, streams)
    topics = map(seen.topics.__getitem__, kinds)
    taken = follow(seen.heads, zip(streams, names, versions, topics, states, hashes, strict=True))
    seen.events += taken
    seen.newest += taken
    return taken


def link_problems(
    seen: Seen, stream_id: int, version: int, topic: str, state: bytes, chain: bytes
) -> Iterator[Problem]:
    """Check one event against the one before it in its stream."""
    stream = seen.names[stream_id]
    last, previous = seen.heads.get(stream_id, (None, GENESIS))
    # The `eventsourcing` library may begin a stream at 0; the hash covers the version anyway.
    if version not in ((0, 1) if last is None else (last + 1,)):
        yield Problem(
            ProblemKind.VERSION,
            f"{stream}: version {version} follows {last or 'nothing'}: events were removed or "
            "moved.",
            stream,
            version,
        )
    if chain_hash(previous, stream, version, topic, state) != chain:
        yield Problem(
            ProblemKind.CHAIN,
            f"{stream}, version {version}: the stored hash does not match the stored event "
            "and the event before it: one of them was changed.",
            stream,
            version,
        )
    # Continue with the stored hash, so that one change is reported only at its own place.
    seen.heads[stream_id] = (version, chain)


def end_problems(seen: Seen, given: object) -> Iterator[Problem]:
    """Check the final state: each stream has events, and nothing follows the newest.

    Args:
        seen: All events.
        given: The last position that was given out.
    """
    for stream_id, stream in seen.names.items():
        if stream_id not in seen.heads:
            yield Problem(
                ProblemKind.POSITION, f"{stream}: all of its events were removed.", stream
            )
    if given != seen.newest:
        yield Problem(
            ProblemKind.POSITION,
            f"The newest event is at position {seen.newest}, but {given} was the last "
            "assigned one: the newest events were removed, or another program added some.",
        )


def kept_problem(
    seen: Seen, ids: Mapping[str, int], key: str, stream: str, versions: tuple[int, int]
) -> Problem | None:
    """Check that a stream has the first and last version that are kept under a key."""
    first, last = versions
    head = seen.heads.get(ids.get(stream, 0), (0, GENESIS))[0]
    if 1 <= first <= last <= head:
        return None
    return Problem(
        ProblemKind.KEY,
        f"Key {key!r} says that versions {first} to {last} of {stream} were stored; the stream "
        f"ends at {head}.",
        stream,
        last,
    )


def misplaced(key: str, position: int, last: int) -> Problem:
    """Return the error of a key whose last event is at another position."""
    return Problem(
        ProblemKind.KEY,
        f"Key {key!r} says that its last event is at position {position}; it is at {last}.",
    )


def _end_problems(connection: sqlite3.Connection, seen: Seen) -> Iterator[Problem]:
    row = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'events'").fetchone()
    yield from end_problems(seen, 0 if row is None else row[0])


def _key_problems(connection: sqlite3.Connection, seen: Seen) -> Iterator[Problem]:
    ids = {name: stream_id for stream_id, name in seen.names.items()}
    for key, digest, answer, position in connection.execute(
        "SELECT key, digest, answer, position FROM keys"
    ):
        typed = isinstance(digest, bytes) and isinstance(position, int)
        versions = answer_versions(answer) if typed else None
        if versions is None:
            yield Problem(ProblemKind.KEY, f"Key {key!r} holds values that are never stored.")
            continue
        last_position = 0
        for stream, (first, last) in versions.items():
            problem = kept_problem(seen, ids, key, stream, (first, last))
            if problem is not None:
                yield problem
                continue
            row = connection.execute(
                "SELECT id FROM events WHERE stream = ? AND version = ?", (ids[stream], last)
            ).fetchone()
            last_position = max(last_position, 0 if row is None else row[0])
        if last_position != position:
            yield misplaced(key, position, last_position)


def answer_versions(answer: object) -> dict[str, tuple[int, int]] | None:
    """Parse a key's answer: first and last version by stream; None if it is malformed."""
    try:
        return _ANSWER.validate_json(str(answer))
    except ValidationError:
        return None
