"""The few PostgreSQL connections of one process: checked, and cut when they hang."""

import logging
import math
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from threading import local
from typing import Any, LiteralString, TypeVar

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict
from psycopg_pool import ConnectionPool, PoolClosed, PoolTimeout

from watchkeeper.adapters.store.postgres_address import Address
from watchkeeper.adapters.store.postgres_failures import (
    NOTHING_STORED,
    failure,
    is_lost,
)
from watchkeeper.adapters.store.postgres_guard import Connection, Guard
from watchkeeper.adapters.store.postgres_names import rows_of
from watchkeeper.adapters.store.postgres_schema import Marks, marks_of, prepare
from watchkeeper.clock import Deadline, ExponentialBackoff, sleep
from watchkeeper.ports.event_store import StoreFailure, StoreUnavailable

_Read = TypeVar("_Read")

_LOOK_S = 0.1
"""How long to wait for the pool before asking why it has no connection."""

_LOG = logging.getLogger(__name__)

# Its warnings repeat the errors that callers get.
logging.getLogger("psycopg.pool").setLevel(logging.ERROR)


@dataclass(frozen=True, slots=True)
class Limits:
    """Time limits.

    Attributes:
        connect: To open one connection, for each address of the server.
        lock: For the locks of others, on the server: appends wait for each other.
        statement: For one statement, on the server.
        answer: For one statement, here: when the server or the network is silent, the connection
            is cut. Longer than `statement`, so that a server that lives says it first.
        idle: For a transaction of ours that does nothing, on the server: one that a stopped
            process left open would hold up everybody.
        reconnect: In all, for getting through again after a connection was lost.
        connections: Most connections of this process, one more listens.
    """

    connect: timedelta = timedelta(seconds=5)
    lock: timedelta = timedelta(seconds=10)
    statement: timedelta = timedelta(seconds=30)
    answer: timedelta = timedelta(seconds=40)
    idle: timedelta = timedelta(seconds=60)
    reconnect: timedelta = timedelta(seconds=15)
    connections: int = 4


LIMITS = Limits()


class Links:
    """The connections of a process to one ledger. Any thread may call any method.

    `psycopg_pool` keeps and lends them. Its connections are checked by the first query: a lost one
    is reported as such, and the caller tries again on the next one. Close it when done.

    Args:
        address: Where the ledger is.
        limits: Time limits.
        alone: Skip the lock that shows a restore that the ledger is in use.
    """

    def __init__(self, address: Address, limits: Limits, *, alone: bool = False) -> None:
        """Connect to nothing yet."""
        self.limits = limits
        self._alone = alone
        self.marks: Marks = marks_of(address.schema)
        self._address = address
        self._pool = ConnectionPool[Connection](
            kwargs=self._arguments(),
            configure=self._configure,
            # One stays open as long as the ledger is: its lock shows a restore that it is in use.
            min_size=1,
            max_size=limits.connections,
            max_lifetime=math.inf,
            # The server may still count a connection that was closed a moment ago.
            reconnect_timeout=limits.connect.total_seconds(),
            num_workers=1,
            open=False,
        )
        self._away = False
        self._guard = Guard()
        self._mine = local()
        self.where = f"PostgreSQL {address.shown}"

    def prepare(self, *, create: bool) -> None:
        """Connect once, bring the ledger to this code's schema, and open the pool.

        Args:
            create: Create a missing ledger.

        Raises:
            StoreFailure: It cannot be reached or used; the message says what to do.
        """
        try:
            with closing(self.connect()) as connection, self._guarded(connection):
                prepare(connection, self._address.schema, self.where, create=create)
            # Only now, because a role may have a single connection.
            self._pool.open(wait=True, timeout=self.limits.connect.total_seconds())
        except psycopg.Error as error:
            raise self.failure(error, "open") from error

    def connect(self) -> Connection:
        """Open a connection that the caller owns, in autocommit mode.

        Raises:
            StoreFailure: It could not be opened.
        """
        try:
            connection = psycopg.connect(**self._arguments())
        except psycopg.Error as error:
            raise self.failure(error, "connect") from error
        try:
            self._configure(connection)
        except psycopg.Error as error:
            connection.close()
            raise self.failure(error, "connect") from error
        return connection

    def _arguments(self) -> dict[str, Any]:
        """Return what a connection is opened with."""
        # The kernel ends a connection whose other side has vanished silently.
        idle_s = max(1, int(self.limits.answer.total_seconds() / 4))
        return {
            "application_name": "watchkeeper",
            "connect_timeout": max(2, int(self.limits.connect.total_seconds())),
            "keepalives": 1,
            "keepalives_idle": idle_s,
            "keepalives_interval": idle_s,
            "keepalives_count": 3,
            "tcp_user_timeout": int(self.limits.answer.total_seconds() * 1000),
            **conninfo_to_dict(self._address.url),
            "autocommit": True,
        }

    def _configure(self, connection: Connection) -> None:
        """Set what holds as long as a connection lasts."""
        with self._guard.watching(connection, self.limits.answer):
            connection.execute(self._settings())
            if not self._alone:
                # As long as the connection lasts; a restore does not wait, but refuses.
                lock = sql.Literal(self.marks.use_lock)
                connection.execute(sql.SQL("SELECT pg_advisory_lock_shared({})").format(lock))

    def failure(
        self, error: psycopg.Error, doing: str, outcome: str = NOTHING_STORED
    ) -> StoreFailure:
        """Put an error into a sentence that holds no password."""
        problem = failure(error, self.where, doing, outcome=outcome)
        if not self._address.password:
            return problem
        return type(problem)(str(problem).replace(self._address.password, "***"))

    @contextmanager
    def borrowed(self) -> Generator[Connection, None, None]:
        """Lend a connection for the length of a block; it is closed if it hangs.

        Raises:
            StoreFailure: No connection is available, or the store is closed. Nothing was sent.
            psycopg.Error: From the block, unchanged.
        """
        held: Connection | None = getattr(self._mine, "connection", None)
        if held is not None and not held.closed:
            yield held  # It is watched already, by `holding`.
            return
        connection = self._borrow()
        try:
            with self._guarded(connection):
                yield connection
            self._away = False
        finally:
            self._pool.putconn(connection)

    @contextmanager
    def holding(self, lock: int) -> Generator[None, None, None]:
        """Hold an advisory lock for a block, in which its thread keeps one connection.

        Where that connection is lost the lock is, too: what the block does is then done without.

        Raises:
            StoreFailure: The lock was not to be had in time, or no connection is.
        """
        with self.borrowed() as connection:
            try:
                connection.execute("SELECT pg_advisory_lock(%s)", (lock,))
            except psycopg.Error as error:
                raise self.failure(error, "append") from error
            self._mine.connection = connection
            try:
                yield
            finally:
                self._mine.connection = None
                self._let_go(connection, lock)

    def _let_go(self, connection: Connection, lock: int) -> None:
        try:
            connection.execute("SELECT pg_advisory_unlock(%s)", (lock,))
        except psycopg.Error as error:
            # A connection that ends gives its locks back; one that is kept would keep them.
            _LOG.info("%s: a lock was released by closing: %s", self.where, error)
            connection.close()

    def read(
        self, doing: str, query: LiteralString, parameters: tuple[object, ...]
    ) -> list[tuple[Any, ...]]:
        """Return the rows of a query that changes nothing; raises the same errors as `read_by`."""
        return self.read_by(doing, lambda connection: rows_of(connection, query, parameters))

    def read_by(self, doing: str, act: Callable[[Connection], _Read]) -> _Read:
        """Return the result of a read-only operation; it is retried after a lost link.

        Raises:
            StoreFailure: The server refused, or could not be reached within `Limits.reconnect`.
        """
        deadline, backoff = self.patience(), ExponentialBackoff()
        while True:
            try:
                with self.borrowed() as connection:
                    return act(connection)
            except psycopg.Error as error:
                if not is_lost(error) or deadline.expired():
                    raise self.failure(error, doing) from error
            except Unreached as error:
                if deadline.expired():
                    raise self.given_up(error, str(error)) from error
            sleep(min(backoff.next_wait(), deadline.remaining()))

    def patience(self) -> Deadline:
        """Return until when to try again: at once over while the server is known to be away."""
        return Deadline.after(timedelta(0) if self._away else self.limits.reconnect)

    def given_up(self, error: "Unreached", says: str) -> StoreFailure:
        """Return the failure for a caller that waited long enough; the next one does not wait."""
        away = isinstance(error.__cause__, StoreUnavailable)
        self._away = away
        return StoreUnavailable(says) if away else StoreFailure(says)

    def refuse_if_closed(self) -> None:
        """Raise when the store is closed.

        Raises:
            StoreFailure: It is.
        """
        if self._pool.closed:
            raise StoreFailure(f"{self.where}: it is closed. {NOTHING_STORED} Open it again.")

    def close(self) -> None:
        """Close every connection; those in use are closed as they come back."""
        self._pool.close()
        self._guard.close()

    def _borrow(self) -> Connection:
        deadline = Deadline.after(self.limits.answer)
        while not deadline.expired():
            try:
                return self._pool.getconn(timeout=_LOOK_S)
            except PoolClosed:
                self.refuse_if_closed()
            except PoolTimeout:
                if self._pool.get_stats()["pool_size"] < self.limits.connections:
                    self._try_to_connect()
        raise StoreFailure(
            f"{self.where}: all {self.limits.connections} connections of this process were "
            f"busy for {self.limits.answer.total_seconds():.0f} s. {NOTHING_STORED} Look at the "
            "server's load."
        )

    def _try_to_connect(self) -> None:
        """Raise the reason for a missing connection, which the pool does not give."""
        try:
            self.connect().close()
        except StoreFailure as error:
            raise Unreached(str(error)) from error

    @contextmanager
    def cut_when_late(self, connection: Connection) -> Generator[Connection, None, None]:
        """Cut a connection when the block takes longer than `Limits.answer`."""
        with self._guarded(connection):
            yield connection

    @contextmanager
    def _guarded(self, connection: Connection) -> Generator[Connection, None, None]:
        with self._guard.watching(connection, self.limits.answer):
            yield connection

    def _settings(self) -> sql.Composed:
        milliseconds = {
            "statement_timeout": self.limits.statement,
            "lock_timeout": self.limits.lock,
            "idle_in_transaction_session_timeout": self.limits.idle,
        }
        asked: list[sql.Composable] = [
            sql.SQL("SET {} = {}").format(
                sql.Identifier(name), sql.Literal(int(limit.total_seconds() * 1000))
            )
            for name, limit in milliseconds.items()
        ]
        asked.append(sql.SQL("SET search_path = {}").format(sql.Identifier(self._address.schema)))
        # A function's statements see what was committed while it waited at this level only.
        asked.append(sql.SQL("SET default_transaction_isolation = 'read committed'"))
        asked.append(sql.SQL("SET client_encoding = 'UTF8'"))
        # Its rows have no order, so a page of a stream would cost the whole rest of the stream.
        asked.append(sql.SQL("SET enable_bitmapscan = off"))
        # A commit that returned is on the disk, whatever the database's default; who waits for
        # standbys goes on doing so.
        asked.append(
            sql.SQL(
                "SELECT set_config('synchronous_commit', 'on', false) "
                "WHERE current_setting('synchronous_commit') = 'off'"
            )
        )
        return sql.SQL("; ").join(asked)


class Unreached(StoreFailure):
    """No connection could be had, so nothing was sent; another attempt may have one."""
