"""The open store file: its connections, its transactions, and closing it."""

import logging
import os
import random
import sqlite3
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from threading import Condition, RLock

from watchkeeper.adapters.store.failures import (
    SQLITE_ERRORS,
    extended_code,
    failure,
    failures_named,
    primary_code,
)
from watchkeeper.adapters.store.feed import Feed
from watchkeeper.adapters.store.lock import UseLock
from watchkeeper.adapters.store.rest import remove_rest, rest_path, settle
from watchkeeper.adapters.store.schema import check_schema, connect
from watchkeeper.clock import Deadline, sleep
from watchkeeper.ports.event_store import StoreFailure

POLL = timedelta(milliseconds=50)
"""Time between two polls. A poll takes about 4 µs: 0.01 % of a core. Listeners wake after 25 ms on
average."""


def poll(connect: Callable[[], sqlite3.Connection], feed: Feed) -> None:
    """Wake the listeners after each change, by any process, until the feed is closed.

    Args:
        connect: Opens a connection for the poll alone; may raise `sqlite3.Error`.
        feed: The feed whose listeners are woken.
    """
    while not feed.closed:
        try:
            _watch(connect, feed)
        except SQLITE_ERRORS:
            # The listeners wake, and their own reads raise the error in their threads. Until it is
            # gone, this loop wakes them regularly.
            feed.wake()
            feed.pause(POLL)


def _watch(connect: Callable[[], sqlite3.Connection], feed: Feed) -> None:
    connection = connect()
    try:
        seen = None
        while not feed.pause(POLL):
            version = connection.execute("PRAGMA data_version").fetchone()[0]
            if version != seen:
                seen = version
                feed.wake()
    finally:
        connection.close()


READERS_MAX = 8
"""Idle reading connections that are kept; more are opened when needed and closed after use."""

READERS_LIMIT = timedelta(seconds=30)
"""How long closing waits for reads under way in other threads; a read takes milliseconds."""

_RETRY_WAIT = timedelta(microseconds=500)
"""The approximate wait between two attempts to begin while another process writes."""

_RANDOM = random.Random()

_NOTHING_COMMITTED = {
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_IOERR_WRITE,
}
"""Errors of COMMIT after which the write is certainly absent: its last frame was not written. After
any other error, such as a failed fsync, a crash may keep or lose the write."""

_LOG = logging.getLogger(__name__)


class Database:
    """One process's use of a store: one connection to write with, several to read with.

    Any thread may call any method. Made by `opening.open_database`.
    """

    def __init__(
        self, path: Path, lock: UseLock, busy_limit: timedelta, *, at_rest: bool = False
    ) -> None:
        """Open the writing connection of a prepared store whose lock is shared.

        Args:
            path: The store.
            lock: The lock on the store, held shared; held exclusively for a store at rest.
            busy_limit: How long to wait for other processes.
            at_rest: Whether no process can write to the store, so that SQLite needs no other files.

        Raises:
            StoreFailure: It could not be opened, or this code does not know its format.
        """
        self.path = path
        self._lock = lock
        self._busy_limit = busy_limit
        parameters = "immutable=1" if at_rest else "mode=rw"
        self._connect = partial(connect, path, parameters=parameters, busy_limit=busy_limit)
        with failures_named(path, "open"):
            self._writer = self._connect()
        try:
            check_schema(self._writer, path)
        except StoreFailure:
            self._writer.close()
            raise
        self._file = _identity(path)
        # `_begin` has its own wait for other writers.
        self._writer.execute("PRAGMA busy_timeout = 0")
        self.feed = Feed(partial(poll, self._connect))
        # A thread that writes within `exclusive` takes this lock twice.
        self._write_lock = RLock()
        self._exclusive = False
        self._digest_removed = False
        self._closed = False
        self._refusal: str | None = None
        self._readers = Condition()
        self._idle: list[sqlite3.Connection] = []
        self._reading = 0

    @contextmanager
    def reading(self, doing: str) -> Generator[sqlite3.Connection, None, None]:
        """Lend a read connection for the length of a block.

        Raises:
            StoreFailure: The store is closed, or could not be read.
        """
        with failures_named(self.path, doing):
            connection = self._borrow()
            try:
                yield connection
            finally:
                self._give_back(connection)

    @contextmanager
    def writing(self, doing: str) -> Generator[sqlite3.Connection, None, None]:
        """Run a block in one write transaction: commit at its end, roll back when it raises.

        `before_writing` comes before the block's first change.

        Raises:
            StoreFailure: The store is closed or failed; nothing was stored.
        """
        with self._write_lock:
            self._refuse_if_unusable()
            try:
                if self._exclusive:
                    self._exclusive = False
                else:
                    self._begin()
                yield self._writer
            except SQLITE_ERRORS as error:
                self._roll_back()
                raise failure(error, self.path, doing) from error
            except BaseException:
                self._roll_back()
                raise
            self._commit(doing)
        self.feed.wake()

    @contextmanager
    def exclusive(self) -> Generator[None, None, None]:
        """Begin a write transaction; the first `writing` in the block uses and ends it.

        Raises:
            StoreFailure: The store is closed or failed.
        """
        with self._write_lock:
            self._refuse_if_unusable()
            with failures_named(self.path, "append"):
                self._begin()
            self._exclusive = True
            try:
                yield
            finally:
                if self._exclusive:
                    self._exclusive = False
                    self._roll_back()

    def before_writing(self) -> None:
        """Remove the digest of the file at rest, before the first change after the opening.

        A crash after this leaves a complete store without a digest, which `verify` reports.

        Raises:
            StoreFailure: The digest could not be removed.
        """
        if self._digest_removed:
            return
        try:
            remove_rest(self.path)
        except OSError as error:
            raise StoreFailure(
                f"{rest_path(self.path)}: could not be removed before writing: {error.strerror}. "
                "Nothing was stored. Check that this user may write in its folder, then try again."
            ) from error
        self._digest_removed = True

    def expect_same_file(self) -> None:
        """Refuse if the path now names another file, for example after a manual restore.

        A write to the old file would be confirmed, but would be in no ledger.

        Raises:
            StoreFailure: The file was moved, removed or replaced.
        """
        if _identity(self.path) != self._file:
            raise StoreFailure(
                f"{self.path}: the file that this process opened was moved, removed or "
                "replaced while it was in use. Nothing was stored. Put the right ledger in "
                "place, then restart."
            )

    def close(self) -> None:
        """Close every connection, and leave the file at rest if no other process uses it.

        Safe to call twice. Waits for reads and writes under way in other threads.
        """
        with self._write_lock:
            if self._closed:
                return
            self._closed = True
            self.feed.close()
            with self._readers:
                limit_s = READERS_LIMIT.total_seconds()
                reads_ended = self._readers.wait_for(lambda: self._reading == 0, limit_s)
                for connection in self._idle:
                    connection.close()
                self._idle.clear()
            self._writer.close()
            # All connections must be closed before the lock is held exclusively: see `write_rest`.
            if not reads_ended:
                _LOG.warning("%s: closed while a read was still running", self.path)
            elif self._lock.own() and _identity(self.path) == self._file:
                settle(self.path, self._busy_limit)
            self._lock.close()

    def _refuse_if_unusable(self) -> None:
        self._refuse_if_closed()
        if self._refusal is not None:
            raise StoreFailure(self._refusal)
        self.expect_same_file()

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise StoreFailure(f"{self.path}: it is closed. Nothing was stored. Open it again.")

    def _borrow(self) -> sqlite3.Connection:
        with self._readers:
            self._refuse_if_closed()
            self._reading += 1
            if self._idle:
                return self._idle.pop()
        try:
            # SQLite opens the path again, so it must still name the writer's file.
            self.expect_same_file()
            connection = self._connect()
            connection.execute("PRAGMA query_only = ON")
        except (StoreFailure, *SQLITE_ERRORS):
            self._give_back(None)
            raise
        return connection

    def _give_back(self, connection: sqlite3.Connection | None) -> None:
        with self._readers:
            self._reading -= 1
            if connection is not None:
                if len(self._idle) < READERS_MAX and not self._closed:
                    self._idle.append(connection)
                else:
                    connection.close()
            self._readers.notify_all()

    def _begin(self) -> None:
        """Begin a write transaction, after those of other processes.

        SQLite's own busy wait sleeps longer each time, up to 0.1 s. So the newest writer often goes
        first, and some wait for seconds. A transaction takes less than a millisecond.
        """
        deadline = Deadline.after(self._busy_limit)
        while True:
            try:
                self._writer.execute("BEGIN IMMEDIATE")
            except SQLITE_ERRORS as error:
                if primary_code(error) != sqlite3.SQLITE_BUSY or deadline.expired():
                    raise
            else:
                return
            sleep(_RETRY_WAIT * (0.5 + _RANDOM.random()))

    def _roll_back(self) -> None:
        # Some errors, such as a full disk, make SQLite roll back by itself.
        if not self._writer.in_transaction:
            return
        try:
            self._writer.execute("ROLLBACK")
        except SQLITE_ERRORS as error:
            # The caller raises the first error. The open transaction must never commit.
            self._refusal = (
                f"{self.path}: an append failed and could not be undone: {error}. Nothing "
                "was stored, and writing stops. Check the disk, then restart."
            )

    def _commit(self, doing: str) -> None:
        try:
            self._writer.execute("COMMIT")
        except SQLITE_ERRORS as error:
            self._roll_back()
            if extended_code(error) in _NOTHING_COMMITTED:
                raise failure(error, self.path, doing) from error
            # Later writes would depend on this one, which a crash may keep or lose.
            self._refusal = (
                f"{self.path}: it is unknown whether the last {doing} was stored: its commit "
                f"failed with: {error}. Writing stops. Check the disk, restart, and repeat "
                "the last command with the same key."
            )
            raise StoreFailure(self._refusal) from error


def _identity(path: Path) -> tuple[int, int] | None:
    """Return a file's device and inode, which a replacement does not share; None without a file."""
    try:
        stat = os.stat(path)
    except OSError:
        return None
    return stat.st_dev, stat.st_ino
