"""Reads pages from PostgreSQL ahead, while the previous page is processed.

The next page is requested as soon as the previous one has come, on a connection reserved for it. No
thread waits: the rows arrive at the socket meanwhile, and the server holds back what does not fit.
After any failure the page can be requested again, like any other. Reading ahead only saves time.
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
    """A query for page after page, without psycopg's cursor, which would wait for an answer.

    Attributes:
        query: See `numbered`; a value whose type does not follow from its place has a cast. The
            last two values are what the page begins after, and the most rows of it.
        column: The place of the column, a `bigint`, that the next page begins after.
        where: The values of the query but the last two.
        limit: The most rows of a page.
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
        # As texts, which the server converts to the types in the query.
        values = [value.encode() for value in (*self.where, str(after), str(self.limit))]
        connection.pgconn.send_query_params(self.query, values, result_format=Format.BINARY)

    def end(self, found: PGresult) -> int:
        """Return the start of the page after one, before its rows are built."""
        number = found.get_value(found.ntuples - 1, self.column)
        assert number is not None, "a column that is never null"
        return int.from_bytes(number, "big", signed=True)


@contextmanager
def rows_ahead(
    links: Links, question: Question, after: int
) -> Generator[Iterator[tuple[Connection, list[tuple[Any, ...]]]], None, None]:
    """Request a page; yield, for a block, its rows and those of the following pages.

    They end with a page that has fewer rows than the limit. Where they end without one, no
    connection could be spared, or it was lost: then the next page is to be asked for by other
    means. Each comes with its connection, on which nothing may be asked, as the next page is under
    way. The iterator raises a `StoreFailure` when the server does not answer, or the store was
    closed.

    Args:
        links: The connections.
        question: What is asked.
        after: What the first page begins after.
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
        # One on which an answer is under way is closed by that.
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
    # No result follows it, and the connection is then ready again.
    if _next(connection, deadline) is not None:
        raise psycopg.OperationalError("a second result")
    return found


def _next(connection: Connection, deadline: Deadline) -> PGresult | None:
    """Wait without keeping other threads from running, which libpq's own waiting would."""
    pgconn, socket = connection.pgconn, select.poll()
    socket.register(pgconn.socket, select.POLLIN)
    while pgconn.is_busy():
        if not socket.poll(deadline.remaining().total_seconds() * 1000):
            raise TimeoutError
        pgconn.consume_input()
    return pgconn.get_result()
