"""Both kinds of store behind one handle, for tests that must hold on either."""

import os
import sqlite3
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any

import psycopg
import pytest

from tests.postgres import new_schema
from watchkeeper.adapters.ledger_choice import VARIABLE, store_of_home
from watchkeeper.adapters.store.choosing import OpenLedger, open_ledger
from watchkeeper.adapters.store.library import LedgerAggregateRecorder
from watchkeeper.adapters.store.postgres import asked_of, open_postgres
from watchkeeper.adapters.store.postgres_address import is_postgres, parse_address
from watchkeeper.adapters.store.postgres_append import APPEND_FUNCTION
from watchkeeper.adapters.store.postgres_recorder import PostgresRecorder
from watchkeeper.adapters.store.postgres_schema import TRIGGERS
from watchkeeper.adapters.store.postgres_verify import COLUMNS, verify_postgres
from watchkeeper.adapters.store.recorder import SqliteRecorder
from watchkeeper.adapters.store.sqlite import open_store
from watchkeeper.adapters.store.verify import StoreReport, verify_store
from watchkeeper.adapters.views_file import ViewsFile
from watchkeeper.ports.event_store import Append, EventStore, Write

KINDS = (
    pytest.param("sqlite", id="sqlite"),
    pytest.param("postgresql", id="postgresql", marks=pytest.mark.postgres),
)
"""For `indirect` parametrisation of the fixtures `place` and `chosen_store`."""

ON_FILE = pytest.mark.parametrize("chosen_store", ["sqlite"], indirect=True)
"""For a test of the ledger's file: it has one whatever the rest of the run is on."""

ON_BOTH = pytest.mark.parametrize("chosen_store", KINDS, indirect=True)
"""For a test that each run makes on a file and on a server."""


@contextmanager
def store_at(home: Path) -> Generator[EventStore, None, None]:
    """Open the ledger of a home, wherever this test keeps it."""
    with open_ledger(
        store_of_home(home, None, os.environ), home / "ledger.db", create=True
    ) as opened:
        yield opened.store


@dataclass(frozen=True, slots=True)
class Place:
    """Where a test's ledger is: a file, or a schema of a server.

    Attributes:
        text: The file's path or the URL; what `store_worker` takes.
    """

    text: str

    @property
    def is_postgres(self) -> bool:
        return is_postgres(self.text)

    def open(self) -> Any:
        """Open the store, making it when there is none; the caller closes it."""
        if self.is_postgres:
            return open_postgres(parse_address(self.text), create=True)
        return open_store(Path(self.text))

    def recorder(self, store: Any) -> Any:
        return PostgresRecorder(store) if self.is_postgres else SqliteRecorder(store)

    def aggregate_recorder(self, store: Any) -> Any:
        return LedgerAggregateRecorder(self.recorder(store))

    @contextmanager
    def ledger(self) -> Generator[OpenLedger, None, None]:
        """Open it as the commands do."""
        url, file = (self.text, Path()) if self.is_postgres else ("", Path(self.text))
        with open_ledger(url, file, create=True) as opened:
            yield opened

    def verify(self) -> StoreReport:
        if self.is_postgres:
            return verify_postgres(parse_address(self.text))
        return verify_store(Path(self.text))

    def assert_intact(self, events: int) -> None:
        report = self.verify()
        assert report.problems == ()
        assert report.events == events


def recorder_of(store: Any) -> Any:
    """Return an open store as a recorder of the `eventsourcing` library."""
    return SqliteRecorder(store) if store.kind == "sqlite" else PostgresRecorder(store)


def place_of_run(folder: Path) -> Place:
    """Return a place that nothing else uses: a file, or a schema where this run keeps its homes."""
    url = os.environ.get(VARIABLE, "")
    if not url:
        return Place(str(folder / "ledger.db"))
    return Place(f"{url.partition('#')[0]}#{new_schema('t_run')}")


@pytest.fixture
def store(tmp_path: Path) -> Generator[Any, None, None]:
    """A ledger where this run keeps them."""
    with place_of_run(tmp_path).open() as store:
        yield store


@pytest.fixture
def views(tmp_path: Path) -> Generator[ViewsFile, None, None]:
    """Views beside it, of which none is begun."""
    with ViewsFile(tmp_path / "views.db") as views:
        yield views


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """A place for a ledger that does not exist yet: once in a file, once on a server."""
    if request.param == "sqlite":
        return Place(str(tmp_path / "ledger.db"))
    return Place(request.getfixturevalue("postgres_url"))


def open_place(place: Place) -> Any:
    """Open a place as `open_store` opens a file."""
    return place.open()


def verify_place(place: Place) -> StoreReport:
    """Verify a place as `verify_store` verifies a file."""
    return place.verify()


def stored_bytes(place: Place) -> bytes:
    """Return everything that is stored, as it lies in the files or in the rows of all tables."""
    if not place.is_postgres:
        return b"".join(file.read_bytes() for file in Path(place.text).parent.iterdir())
    address = parse_address(place.text)
    found = b""
    with psycopg.connect(address.url) as connection:
        connection.execute(f"SET search_path = {address.schema}".encode())
        for table in COLUMNS:
            for (row,) in connection.execute(f"SELECT t::text FROM {table} AS t".encode()):
                found += str(row).encode()
        for (state,) in connection.execute("SELECT state FROM events"):
            found += state
    return found


@contextmanager
def held_open(place: Place, store: Any) -> Generator[Event, None, None]:
    """Append to `run/slow` in a transaction that commits when the event is set, or at the end."""
    let_go, inside = Event(), Event()
    append = Append([Write("run/slow", 0, (("run.noted.1", b"slow"),))])

    def on_file() -> None:
        before = store.database.before_writing

        def waits() -> None:
            inside.set()
            let_go.wait(30)
            before()

        store.database.before_writing = waits
        store.append_batch([append])
        store.database.before_writing = before

    def on_server() -> None:
        parameters = store.parameters([asked_of(append)])
        with store.links.borrowed() as connection, connection.transaction():
            connection.execute(APPEND_FUNCTION.call.encode(), parameters)
            inside.set()
            let_go.wait(30)

    with ThreadPoolExecutor(1) as pool:
        appending = pool.submit(on_server if place.is_postgres else on_file)
        try:
            assert inside.wait(60)
            yield let_go
        finally:
            let_go.set()
            appending.result(timeout=60)


def tamper(place: Place, *statements: str) -> None:
    """Change what is recorded, as somebody with every right could: without the triggers."""
    if place.is_postgres:
        address = parse_address(place.text)
        with psycopg.connect(address.url, autocommit=True) as connection:
            connection.execute(f"SET search_path = {address.schema}".encode())
            tables = [
                str(name)
                for (name,) in connection.execute(
                    "SELECT relname::text FROM pg_class WHERE relkind = 'r' "
                    "AND relnamespace = current_schema()::regnamespace"
                )
            ]
            for table in tables:
                connection.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER".encode())
            for statement in statements:
                connection.execute(statement.encode())
            for table, trigger in TRIGGERS:
                connection.execute(f"ALTER TABLE {table} ENABLE ALWAYS TRIGGER {trigger}".encode())
        return
    with closing(sqlite3.connect(place.text, isolation_level=None)) as file:
        made = file.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for name, _ in made:
            file.execute(f"DROP TRIGGER {name}")
        for statement in statements:
            file.execute(statement)
        for _, sql in made:
            file.execute(sql)
    Path(place.text).with_name("ledger.db.rest").unlink(missing_ok=True)
