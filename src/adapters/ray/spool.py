"""Messages to publish, kept on disk until Pub/Sub has confirmed them.

This is our own SQLite table and not a library's queue, because one transaction must hold three
things: the message, the fact that it was reported (so that a poll does not repeat it), and how far
the source was read. A crash between any two of them would lose a fact or repeat it for ever.
"""

import contextlib
import fcntl
import json
import os
import sqlite3
import threading
from collections import Counter
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

from watchkeeper.adapters.ray.messages import OVERFLOWED, Message, Worth, Writer, stamp

MESSAGES_MAX = 100_000
"""Messages that wait at one time; at 2,000 bytes each some 200 MB."""

BYTES_MAX = 512_000_000
"""Bytes of messages that wait at one time."""

BUSY_LIMIT = timedelta(seconds=10)
"""How long a transaction waits for a person who looks into the file with another program."""

_ROOM = 0.9
"""Below this share the spool has room again, so that it does not report each single message."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS spool (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    source TEXT NOT NULL, id TEXT NOT NULL, type TEXT NOT NULL, worth INTEGER NOT NULL,
    again INTEGER NOT NULL, bytes INTEGER NOT NULL, data BLOB NOT NULL, attributes TEXT NOT NULL,
    UNIQUE (source, id)
);
CREATE INDEX IF NOT EXISTS spool_worth ON spool (worth, seq, bytes);
CREATE TABLE IF NOT EXISTS told (
    id TEXT PRIMARY KEY, part TEXT NOT NULL, subject TEXT NOT NULL, life TEXT NOT NULL,
    state TEXT NOT NULL, seq INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS told_subject ON told (part, subject);
CREATE TABLE IF NOT EXISTS notes (name TEXT PRIMARY KEY, value TEXT NOT NULL);
"""


class SpoolProblem(Exception):
    """The spool cannot be used; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A message in the spool.

    Attributes:
        seq: Its place; grows, and is never used twice.
    """

    seq: int
    data: bytes
    attributes: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Offered:
    """The outcome for offered messages.

    Attributes:
        taken: How many are in the spool now.
        known: How many were there or were reported before.
        refused: Messages for which there is no room.
    """

    taken: int
    known: int
    refused: tuple[Message, ...]


@dataclass(slots=True)
class Spool:
    """A durable queue with its limits; made by `open_spool`. Safe to call from several threads."""

    path: Path
    connection: sqlite3.Connection
    messages_max: int
    bytes_max: int
    lock: threading.RLock = field(default_factory=threading.RLock)
    in_flight: int = 0
    """Up to this place messages are being published: they are not given up any more."""

    def offer(
        self,
        messages: Sequence[Message],
        notes: Mapping[str, str | None] | None = None,
        *,
        all_of: Worth | None = None,
    ) -> Offered:
        """Keep messages durably, in one transaction.

        Without room, less valuable waiting messages are dropped, newest first, and then the
        offered ones are refused. Messages lost for good are counted and reported later.

        Args:
            messages: In the order in which they happened.
            notes: Values to store with them, such as how far a file was read.
            all_of: For a source that keeps what was not taken: of messages worth this or more,
                keep all, or nothing at all.
        """
        taken = known = 0
        refused: list[Message] = []
        with self._writing() as sql:
            room = _Room(sql, self.messages_max, self.bytes_max, self.in_flight)
            for message in messages:
                if self._is_known(sql, message):
                    known += 1
                elif room.made_for(message):
                    _insert(sql, message)
                    taken += 1
                else:
                    refused.append(message)
            if all_of is not None and any(m.worth <= all_of for m in refused):
                # Nothing is lost: the source still has it.
                sql.execute("ROLLBACK")
                return Offered(0, known, tuple(refused))
            lost = room.lost + Counter(m.type for m in refused if m.reported is None)
            _count_lost(sql, lost)
            for name, value in (notes or {}).items():
                _note(sql, name, value)
        return Offered(taken, known, tuple(refused))

    def oldest(self, count_max: int, bytes_max: int) -> tuple[Waiting, ...]:
        """Return the messages that are published next, oldest first; at least one if any waits."""
        found: list[Waiting] = []
        size = 0
        with self.lock:
            rows = self.connection.execute(
                "SELECT seq, data, attributes FROM spool ORDER BY seq LIMIT ?", (count_max,)
            )
            for seq, data, attributes in rows:
                size += len(data)
                if found and size > bytes_max:
                    break
                found.append(Waiting(seq, data, json.loads(attributes)))
            self.in_flight = found[-1].seq if found else self.in_flight
        return tuple(found)

    def remove(self, published: Iterable[int]) -> None:
        """Forget messages that Pub/Sub has confirmed."""
        with self._writing() as sql:
            sql.executemany("DELETE FROM spool WHERE seq = ?", [(seq,) for seq in published])

    def reported(self, part: str) -> Mapping[tuple[str, str], dict[str, str]]:
        """Return the reported states of a kind of object: by subject and life, then by id.

        They are in the order of their reports, not of their occurrence: of two sources, the
        slower one reports the earlier state.
        """
        found: dict[tuple[str, str], dict[str, str]] = {}
        with self.lock:
            rows = self.connection.execute(
                "SELECT subject, life, id, state FROM told WHERE part = ? ORDER BY seq", (part,)
            )
            for subject, life, identity, state in rows:
                found.setdefault((subject, life), {})[identity] = state
        return found

    def forget(
        self, part: str, things: Sequence[tuple[str, str]], messages: Sequence[Message]
    ) -> Offered:
        """Keep messages, and forget the reports of objects that are no longer listed."""
        offered = self.offer(messages, all_of=Worth.DETAIL)
        if not offered.refused:
            with self._writing() as sql:
                rows = [(part, subject, life) for subject, life in things]
                sql.executemany(
                    "DELETE FROM told WHERE part = ? AND subject = ? AND life = ?", rows
                )
        return offered

    def note(self, name: str) -> str | None:
        """Return the note under a name."""
        with self.lock:
            row = self.connection.execute(
                "SELECT value FROM notes WHERE name = ?", (name,)
            ).fetchone()
        return None if row is None else str(row[0])

    def notes(self, prefix: str) -> dict[str, str]:
        """Return the notes under all names with a prefix."""
        with self.lock:
            rows = self.connection.execute("SELECT name, value FROM notes").fetchall()
        return {name: value for name, value in rows if name.startswith(prefix)}

    def waiting(self) -> tuple[int, int]:
        """Return the number of waiting messages, and their bytes."""
        with self.lock:
            return _sizes(self.connection)

    def lost(self) -> dict[str, int]:
        """Return the number of lost messages that were not reported yet, by type."""
        counts: dict[str, int] = json.loads(self.note("lost") or "{}")
        return counts

    def report_losses(self, writer: Writer, now: datetime) -> bool:
        """Store a message about losses, once there is room again; return whether it was stored."""
        with self.lock:
            counts = self.lost()
            messages, size = self.waiting()
            if not counts or messages > self.messages_max * _ROOM or size > self.bytes_max * _ROOM:
                return False
            number = int(self.note("overflows") or "0") + 1
            message = writer.note(
                OVERFLOWED, now, {"lost": counts, "number": number}, str(number), stamp(now)
            )
            with self._writing() as sql:
                _insert(sql, message)
                _note(sql, "lost", None)
                _note(sql, "overflows", str(number))
        return True

    def close(self) -> None:
        """Close the file; what waits, waits there."""
        with self.lock:
            self.connection.close()

    def _is_known(self, sql: sqlite3.Connection, message: Message) -> bool:
        source, identity = message.identity
        found = sql.execute("SELECT 1 FROM spool WHERE source = ? AND id = ?", (source, identity))
        if found.fetchone() is not None:
            return True
        if message.reported is None:
            return False
        return sql.execute("SELECT 1 FROM told WHERE id = ?", (identity,)).fetchone() is not None

    @contextmanager
    def _writing(self) -> Generator[sqlite3.Connection, None, None]:
        """Write in one transaction, which ends durable or not at all.

        Raises:
            SpoolProblem: It was not written: the disk is full, or the file is damaged.
        """
        with self.lock:
            try:
                self.connection.execute("BEGIN IMMEDIATE")
                yield self.connection
                if self.connection.in_transaction:
                    self.connection.execute("COMMIT")
            except sqlite3.Error as error:
                raise SpoolProblem(
                    f"{self.path} cannot be written ({error}): check the free disk space, "
                    "then restart the bridge; its messages are still there"
                ) from error
            finally:
                if self.connection.in_transaction:
                    self.connection.execute("ROLLBACK")


@dataclass(slots=True)
class _Room:
    """Counts the room that is left, within one transaction."""

    sql: sqlite3.Connection
    messages_max: int
    bytes_max: int
    in_flight: int
    messages: int = field(init=False)
    size: int = field(init=False)
    lost: Counter[str] = field(init=False, default_factory=Counter[str])

    def __post_init__(self) -> None:
        self.messages, self.size = _sizes(self.sql)

    def made_for(self, message: Message) -> bool:
        """Make room for one message by dropping only less valuable ones, if possible."""
        size = len(message.data)
        while self.messages + 1 > self.messages_max or self.size + size > self.bytes_max:
            row = self.sql.execute(
                "SELECT seq, id, type, bytes, again FROM spool WHERE worth > ? AND seq > ?"
                " ORDER BY worth DESC, seq DESC LIMIT 1",
                (message.worth, self.in_flight),
            ).fetchone()
            if row is None:
                return False
            seq, identity, kind, freed, again = row
            self.sql.execute("DELETE FROM spool WHERE seq = ?", (seq,))
            if again:
                # Its source is asked again, and then it counts as new.
                self.sql.execute("DELETE FROM told WHERE id = ?", (identity,))
            else:
                self.lost[kind] += 1
            self.messages -= 1
            self.size -= freed
        self.messages += 1
        self.size += size
        return True


@contextmanager
def open_spool(
    folder: Path, *, messages_max: int = MESSAGES_MAX, bytes_max: int = BYTES_MAX
) -> Generator[Spool, None, None]:
    """Open a spool for one process; create it if it is missing.

    Raises:
        SpoolProblem: Another bridge uses it, or it cannot be opened.
    """
    path = folder / "spool.db"
    with contextlib.ExitStack() as opened:
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            lock = os.open(folder / "spool.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            opened.callback(os.close, lock)
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
            connection = sqlite3.connect(
                path,
                timeout=BUSY_LIMIT.total_seconds(),
                isolation_level=None,
                check_same_thread=False,
            )
            opened.callback(connection.close)
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            connection.executescript(_SCHEMA)
        except BlockingIOError as error:
            raise SpoolProblem(
                f"another bridge uses {folder}: stop it, or use another --spool for this one"
            ) from error
        except (OSError, sqlite3.Error) as error:
            raise SpoolProblem(
                f"{path} cannot be opened ({error}): choose a folder on a local disk with "
                "--spool; if the file is damaged, move it away by hand, which loses its "
                "unpublished messages"
            ) from error
        yield Spool(path, connection, messages_max, bytes_max)


def spool_key(spool: Spool) -> bytes:
    """Return the key of this spool's redaction marks, made once."""
    found = spool.note("key")
    if found is None:
        found = os.urandom(16).hex()
        spool.offer((), {"key": found})
    return bytes.fromhex(found)


def _sizes(sql: sqlite3.Connection) -> tuple[int, int]:
    count, size = sql.execute("SELECT count(*), coalesce(sum(bytes), 0) FROM spool").fetchone()
    return int(count), int(size)


def _insert(sql: sqlite3.Connection, message: Message) -> None:
    source, identity = message.identity
    row = (
        source, identity, message.type, int(message.worth), message.reported is not None,
        len(message.data), message.data, json.dumps(dict(message.attributes), ensure_ascii=False),
    )  # fmt: skip
    written = sql.execute(
        "INSERT INTO spool (source, id, type, worth, again, bytes, data, attributes)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        row,
    )
    if message.reported is not None:
        state = message.reported
        sql.execute(
            "INSERT INTO told (id, part, subject, life, state, seq) VALUES (?, ?, ?, ?, ?, ?)",
            (identity, state.part, state.subject, state.life, state.state, written.lastrowid),
        )


def _note(sql: sqlite3.Connection, name: str, value: str | None) -> None:
    if value is None:
        sql.execute("DELETE FROM notes WHERE name = ?", (name,))
        return
    sql.execute("INSERT OR REPLACE INTO notes (name, value) VALUES (?, ?)", (name, value))


def _count_lost(sql: sqlite3.Connection, lost: Counter[str]) -> None:
    if not lost:
        return
    row = sql.execute("SELECT value FROM notes WHERE name = 'lost'").fetchone()
    before: dict[str, int] = json.loads(row[0]) if row else {}
    _note(sql, "lost", json.dumps(dict(Counter(before) + lost), sort_keys=True))
