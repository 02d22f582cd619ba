"""Both kinds of store behind one handle, for tests that must hold on either."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from watchkeeper.adapters.ledger_choice import store_of_home
from watchkeeper.adapters.store.choosing import OpenLedger, open_ledger
from watchkeeper.adapters.store.postgres import open_postgres
from watchkeeper.adapters.store.postgres_address import is_postgres, parse_address
from watchkeeper.adapters.store.postgres_recorder import (
    PostgresAggregateRecorder,
    PostgresRecorder,
)
from watchkeeper.adapters.store.postgres_verify import verify_postgres
from watchkeeper.adapters.store.recorder import SqliteAggregateRecorder, SqliteRecorder
from watchkeeper.adapters.store.sqlite import open_store
from watchkeeper.adapters.store.verify import StoreReport, verify_store
from watchkeeper.event_store import EventStore

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
        if self.is_postgres:
            return PostgresAggregateRecorder(PostgresRecorder(store))
        return SqliteAggregateRecorder(SqliteRecorder(store))

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


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """A place for a ledger that does not exist yet: once in a file, once on a server."""
    if request.param == "sqlite":
        return Place(str(tmp_path / "ledger.db"))
    return Place(request.getfixturevalue("postgres_url"))
