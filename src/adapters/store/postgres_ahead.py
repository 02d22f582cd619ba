"""Reads pages from PostgreSQL ahead, while the previous page is processed.

The next page is requested as soon as the previous one has arrived, on a reserved connection. No
thread waits. The rows arrive at the socket, and the server holds back what does not fit. After any
failure the page can be requested again, like any other. Reading ahead only saves time.
"""

import logging
import select
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, LiteralString

import psycopg
from psycopg.adapt import Transformer
from psycopg.pq import ExecStatus, Format
from psycopg.pq.abc import PGresult

from watchkeeper.adapters.store.postgres_guard import Connection
from watchkeeper.adapters.store.postgres_link import Links
from watchkeeper.clock import Deadline

_LOG = logging.getLogger(__name__)


def numbered(query: LiteralString) -> bytes:
    """Return a query as the server takes it, with `$1` for the first `%s`."""
    first, *others = query.split("%s")
    return (first + "".join(f"${number}{part}" for number, part in enumerate(others, 1))).encode()


@dataclass(frozen=True, slots=True)
class Question:
    """A query that is sent once for each page.

    It does not use psycopg's cursor, which would wait for the answer.

    Attributes:
        query: SQL in the form of `numbered`. A value has a cast if the server cannot infer its
            type. The last two values are the number after which the page begins, and its maximum of
            rows.
        column: Index of the `bigint` column by which pages are divided.
        where: The query's values, without the last two.
        limit: Maximum number of rows in a page.
    """

    query: bytes
    column: int
    where: Sequence[str]
    limit: int

    def send(self, connection: Connection, after: int) -> None:
        """Request the page after a number.

        Raises:
            psycopg.Error: The connection is lost.
        """
        # Values are sent as texts. The server converts them to the types in the query.
        values = [value.encode() for value in (*self.where, str(after), str(self.limit))]
        connection.pgconn.send_query_params(self.query, values, result_format=Format.BINARY)

    def end(self, found: PGresult) -> int:
        """Return the number after which the next page begins, before a page's rows are built."""
        number = found.get_value(found.ntuples - 1, self.column)
        assert number is not None, "a column that is never null"
        return int.from_bytes(number, "big", signed=True)


@contextmanager
def rows_ahead(
    links: Links, question: Question, after: int
) -> Generator[Iterator[tuple[Connection, list[tuple[Any, ...]]]], None, None]:
    """Request a page, and yield an iterator over this page and the following pages.

    The last page has fewer rows than the limit. If the iterator ends without such a page, no
    connection was free, or the connection was lost. The caller must then request the next page in
    another way. Each page comes with its connection. The caller must not query it, because the next
    page is already requested on it. The iterator raises `StoreFailure` if the server does not
    answer or the store was closed.

    Args:
        links: The connections.
        question: The query.
        after: Number after which the first page begins.
    """
    connection = links.spare()
    if connection is None:
        yield iter(())
        return
    try:
        try:
            question.send(connection, after)
        except psycopg.Error as error:
            _give_up(links, connection, error)
        yield _rows(links, connection, question)
    finally:
        # If an answer is still pending, this closes the connection.
        links.give_back(connection)


def _rows(
    links: Links, connection: Connection, question: Question
) -> Iterator[tuple[Connection, list[tuple[Any, ...]]]]:
    try:
        while not connection.closed:
            found = _answer(links, connection)
            links.refuse_if_closed()
            more = found.ntuples == question.limit
            if more:
                question.send(connection, question.end(found))
            reader = Transformer(connection)
            reader.set_pgresult(found)
            yield connection, reader.load_rows(0, found.ntuples, tuple)
            if not more:
                return
    except TimeoutError as error:
        connection.close()
        said = f"no answer within {links.limits.answer.total_seconds():.0f} s"
        raise links.failure(psycopg.OperationalError(said), "read") from error
    except psycopg.Error as error:
        _give_up(links, connection, error)


def _give_up(links: Links, connection: Connection, error: psycopg.Error) -> None:
    connection.close()
    _LOG.info("%s: a page that was read ahead is requested again: %s", links.where, error)


def _answer(links: Links, connection: Connection) -> PGresult:
    deadline = Deadline.after(links.limits.answer)
    found = _next(connection, deadline)
    if found is None or found.status != ExecStatus.TUPLES_OK:
        said = b"no result" if found is None else found.error_message
        raise psycopg.OperationalError(said.decode(errors="replace"))
    # `None` must follow the result: the connection is then ready again.
    if _next(connection, deadline) is not None:
        raise psycopg.OperationalError("a second result")
    return found


def _next(connection: Connection, deadline: Deadline) -> PGresult | None:
    """Return the next result. Other threads run meanwhile, unlike in libpq's own wait."""
    pgconn, socket = connection.pgconn, select.poll()
    socket.register(pgconn.socket, select.POLLIN)
    while pgconn.is_busy():
        if not socket.poll(deadline.remaining().total_seconds() * 1000):
            raise TimeoutError
        pgconn.consume_input()
    return pgconn.get_result()
