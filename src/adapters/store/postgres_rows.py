"""Single queries of a PostgreSQL ledger for commands that do not open it.

These are `status` and tab completion.
"""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, LiteralString

import psycopg

from watchkeeper.adapters.store.postgres import PREFIX_END
from watchkeeper.adapters.store.postgres_address import parse_address
from watchkeeper.adapters.store.postgres_guard import Connection
from watchkeeper.adapters.store.postgres_link import Limits, Links
from watchkeeper.adapters.store.postgres_schema import prepare

_LOOK = Limits(
    connect=timedelta(seconds=5),
    # Before the statement's limit, so that a held lock is not reported as a server under load.
    lock=timedelta(seconds=5),
    statement=timedelta(seconds=10),
    answer=timedelta(seconds=15),
    reconnect=timedelta(0),
)

_GLANCE = Limits(
    connect=timedelta(seconds=2),
    statement=timedelta(seconds=1),
    answer=timedelta(seconds=3),
    reconnect=timedelta(0),
)
"""For a person who has pressed tab."""


def read_rows(url: str, run: str | None = None) -> list[tuple[str, str, str]]:
    """Read the status rows, as run, part and row.

    Args:
        url: The ledger.
        run: Only this run's rows; all if None.

    Raises:
        StoreFailure: They could not be read; the message says what to do.
    """
    if run is None:
        return _looked(url, _LOOK, "SELECT run, part, row FROM status", ())
    return _looked(url, _LOOK, "SELECT run, part, row FROM status WHERE run = %s", (run,))


@contextmanager
def looking(
    url: str,
) -> Generator[tuple[Callable[[], int], Callable[[int], bytes | None]], None, None]:
    """Yield, for a block, functions for the newest position and the first event after one.

    Raises:
        StoreFailure: They could not be read; from the block, too.
    """
    with _opened(url, _LOOK) as connection:

        def newest() -> int:
            row = connection.execute("SELECT position FROM counter").fetchone()
            return int(row[0]) if row is not None else 0

        def after(position: int) -> bytes | None:
            asked = "SELECT state FROM events WHERE id > %s ORDER BY id LIMIT 1"
            row = connection.execute(asked, (position,)).fetchone()
            return None if row is None else bytes(row[0])

        yield newest, after


def run_names(url: str, beginning: str, number: int) -> list[str]:
    """Return the names of at most so many runs that begin so.

    Raises:
        StoreFailure: They could not be read.
    """
    asked: LiteralString = (
        "SELECT run FROM status WHERE part = 'run' AND run >= %s AND run < %s ORDER BY run LIMIT %s"
    )
    values = (beginning, beginning + PREFIX_END, number)
    return [name for (name,) in _looked(url, _GLANCE, asked, values)]


def _looked(
    url: str, limits: Limits, asked: LiteralString, values: tuple[object, ...]
) -> list[Any]:
    with _opened(url, limits) as connection:
        return connection.execute(asked, values).fetchall()


@contextmanager
def _opened(url: str, limits: Limits) -> Generator[Connection, None, None]:
    address = parse_address(url)
    links = Links(address, limits)
    try:
        with links.cut_when_late(links.connect()) as connection, connection:
            # A look may have no right to change anything, and no time; its tables are of old.
            prepare(connection, address.schema, links.where, create=False, migrate=False)
            yield connection
    except psycopg.Error as error:
        raise links.failure(error, "read") from error
    finally:
        links.close()
