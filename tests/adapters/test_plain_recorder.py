"""The plain SQLite recorder of `eventsourcing` cannot write into a ledger."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from eventsourcing.persistence import OperationalError
from eventsourcing.sqlite import SQLiteApplicationRecorder, SQLiteDatastore

from watchkeeper.adapters.store.rest import rest_path
from watchkeeper.adapters.store.sqlite import open_store
from watchkeeper.adapters.store.verify import verify_store
from watchkeeper.ports.event_store import Write


def write(path: Path, stream: str) -> None:
    with open_store(path) as store:
        store.append([Write(stream, 0, (("t.1", b"{}"),))])


@pytest.mark.parametrize("older", [False, True])
def test_a_ledger_refuses_the_plain_recorder(tmp_path: Path, older: bool) -> None:
    path = tmp_path / "ledger.db"
    write(path, "run/a")
    if older:
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("DROP INDEX IF EXISTS stored_events")
        rest_path(path).unlink()
        assert not verify_store(path).problems
        write(path, "run/b")
    with (
        closing(SQLiteDatastore(str(path))) as datastore,
        pytest.raises(OperationalError, match="stored_events"),
    ):
        SQLiteApplicationRecorder(datastore).create_table()
    assert not verify_store(path).problems
