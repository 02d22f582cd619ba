"""What is SQLite's own in the contract of `EventStore`: its file, its rows, its readers."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from watchkeeper.adapters.store.sqlite import SqliteStore, open_store
from watchkeeper.adapters.store.verify import verify_store
from watchkeeper.ports.event_store import StoreFailure, Write

NOTED = ("run.noted.1", b'{"text":"all well"}')


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    with open_store(path) as opened:
        yield opened


def write(stream: str, expected: int, number: int = 1) -> Write:
    return Write(stream, expected, (NOTED,) * number)


def assert_intact(path: Path, events: int) -> None:
    report = verify_store(path)
    assert report.problems == ()
    assert report.events == events


def test_rows_of_events_can_neither_be_changed_nor_deleted(path: Path) -> None:
    with open_store(path) as store:
        store.append([write("run/a", 0)], key="k")
        for statement in (
            "UPDATE events SET state = x'00'",
            "DELETE FROM events",
            "INSERT OR REPLACE INTO events VALUES (1, 1, 1, 1, x'00', zeroblob(32))",
            "UPDATE streams SET name = 'run/b'",
            "DELETE FROM keys",
        ):
            with (
                pytest.raises(StoreFailure, match="what is recorded is never changed"),
                store.database.writing("tamper") as connection,
            ):
                connection.execute(statement)
    assert_intact(path, events=1)


def test_positions_are_not_given_again_after_the_newest_rows_are_gone(path: Path) -> None:
    with open_store(path) as store:
        store.append([write("run/a", 0, 3)])
        with store.database.writing("tamper") as connection:
            connection.execute("DROP TRIGGER events_no_delete")
            connection.execute("DELETE FROM events WHERE id = 3")
        store.append([write("run/a", 2)])
        assert [event.position for event in store.read_all()] == [1, 2, 4]


def test_the_file_is_recognised_as_a_watchkeeper_store(path: Path) -> None:
    open_store(path).close()
    header = path.read_bytes()[:100]
    assert header[68:72] == b"wkpr"
    assert header[18:20] == b"\x02\x02", "2 is WAL"


def test_a_lone_process_can_append_while_another_reads_a_long_time(
    path: Path, store: SqliteStore
) -> None:
    store.append([write("run/a", 0)])
    with store.database.reading("read") as connection:
        connection.execute("BEGIN")
        assert connection.execute("SELECT count(*) FROM events").fetchone() == (1,)
        store.append([write("run/a", 1)])
        assert connection.execute("SELECT count(*) FROM events").fetchone() == (1,)
        connection.execute("COMMIT")
    assert store.head("run/a")[0] == 2
