"""Reads the events of a PostgreSQL ledger from one snapshot, to verify them."""

from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any, LiteralString

import psycopg
from psycopg import sql

from watchkeeper.adapters.store.content import Problem, ProblemKind, Row, Seen, link_problems
from watchkeeper.adapters.store.postgres_address import Address
from watchkeeper.adapters.store.postgres_guard import Connection
from watchkeeper.adapters.store.postgres_link import Limits, Links

PAGE = 2_000
"""Events fetched at once by the walk over all."""

EVERYTHING = (1, 2**63 - 1)
"""All positions that there can be."""


@dataclass(frozen=True, slots=True)
class Asking:
    """A connection in a transaction that only reads, cut when an answer stays out."""

    links: Links
    connection: Connection

    def rows(self, query: LiteralString, *parameters: object) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""
        with (
            self.links.cut_when_late(self.connection),
            self.connection.cursor(binary=True) as cursor,
        ):
            return cursor.execute(query, parameters).fetchall()


@contextmanager
def asking_at(
    address: Address, limits: Limits, snapshot: str, *, alone: bool
) -> Generator[Asking, None, None]:
    """Begin a transaction that only reads: one view for everything, whatever is appended meanwhile.

    Args:
        address: Where the ledger is.
        limits: How long things may take.
        snapshot: Look at what another transaction sees, by the name that it exported.
        alone: The caller has the ledger alone, as while it restores one.

    Raises:
        StoreFailure: The server could not be asked, here or in the block.
    """
    links = Links(address, limits, alone=alone)
    try:
        with closing(links.connect()) as connection:
            connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            if snapshot:
                named = sql.SQL("SET TRANSACTION SNAPSHOT {}").format(sql.Literal(snapshot))
                connection.execute(named)
            yield Asking(links, connection)
    except psycopg.Error as error:
        raise links.failure(error, "verify", "Nothing was changed.") from error
    finally:
        links.close()


def export(asking: Asking) -> str:
    """Return the name under which other transactions may share this snapshot while it is open."""
    # It waits for them, however long they take.
    asking.connection.execute("SET idle_in_transaction_session_timeout = 0")
    return str(asking.rows("SELECT pg_export_snapshot()")[0][0])


def read_names(asking: Asking, seen: Seen) -> None:
    """Read what streams and topics are called."""
    seen.names = dict(asking.rows("SELECT id, name FROM streams"))
    seen.topics = dict(asking.rows("SELECT id, name FROM topics"))


def event_pages(asking: Asking, part: tuple[int, int] = EVERYTHING) -> Iterator[list[Row]]:
    """Yield events page by page, in the order of their commits.

    Args:
        asking: In the transaction that is verified.
        part: First and last position.
    """
    after, last = part[0] - 1, part[1]
    while page := asking.rows(_EVENTS, after, last, PAGE):
        yield page
        if len(page) < PAGE:
            return
        after = page[-1][0]


def row_problems(seen: Seen, row: Row) -> Iterator[Problem]:
    """Check one event, whatever it holds."""
    position, stream_id, version, topic_id, state, chain = row
    if stream_id not in seen.names or topic_id not in seen.topics:
        yield Problem(
            ProblemKind.FILE,
            f"The event at position {position} names a missing stream or topic.",
        )
        return
    yield from link_problems(seen, stream_id, version, seen.topics[topic_id], state, chain)


_EVENTS = """SELECT id, stream, version, topic, state, hash FROM events
WHERE id > %s AND id <= %s ORDER BY id LIMIT %s"""
