"""How a store is opened, waited for, left at rest and closed."""

import shutil
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from threading import Thread

import pytest

from watchkeeper.adapters.store.rest import rest_path
from watchkeeper.adapters.store.sqlite import SqliteStore, open_store
from watchkeeper.adapters.store.verify import verify_store
from watchkeeper.ports.event_store import StoreFailure, VersionConflict, Write

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


def test_close_waits_for_reads_under_way(path: Path) -> None:
    store = open_store(path)
    with store.database.reading("read") as connection:
        closing = Thread(target=store.close)
        closing.start()
        closing.join(0.2)
        assert closing.is_alive()
        assert connection.execute("SELECT count(*) FROM events").fetchone() == (0,)
    closing.join(60)
    assert not closing.is_alive()
    assert verify_store(path).whole_file


def test_a_store_is_at_rest_once_the_last_one_has_left(path: Path) -> None:
    first, second = open_store(path), open_store(path)
    first.append([write("run/a", 0)])
    first.close()
    assert not rest_path(path).exists()
    second.close()
    assert rest_path(path).exists()
    assert sorted(file.name for file in path.parent.iterdir()) == [
        "ledger.db", "ledger.db.lock", "ledger.db.rest",
    ]  # fmt: skip


def test_reading_leaves_the_store_at_rest_as_it_was(path: Path) -> None:
    with open_store(path) as store:
        store.append([write("run/a", 0)])
    before = (path.read_bytes(), rest_path(path).stat().st_mtime_ns)
    with open_store(path) as store:
        assert len(store.read_all()) == 1
        assert rest_path(path).exists()
    assert (path.read_bytes(), rest_path(path).stat().st_mtime_ns) == before


def test_the_first_write_removes_the_digest_before_it_commits(path: Path) -> None:
    open_store(path).close()
    with open_store(path) as store:
        assert rest_path(path).exists()
        with pytest.raises(VersionConflict):
            store.append([write("run/a", 1)])
        assert rest_path(path).exists()
        with store.database.writing("append"):
            store.database.before_writing()
            assert not rest_path(path).exists()


def test_a_commit_is_on_the_disk_when_append_returns(store: SqliteStore) -> None:
    """No kill can show it, only a power failure: 2 is FULL, a flush in each commit."""
    with store.database.writing("look") as connection:
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_a_backup_by_sqlite_is_a_store_again(path: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    with open_store(path) as store:
        store.append([write("run/a", 0, 3)], key="k")
        with store.database.reading("back up") as connection:
            connection.execute("PRAGMA query_only = OFF")
            connection.execute("VACUUM INTO ?", (str(copy),))
    assert_intact(copy, events=3)
    with open_store(copy) as store:
        store.append([write("run/a", 3)])
    report = verify_store(copy)
    assert (report.problems, report.events, report.whole_file) == ((), 4, True)


@pytest.mark.parametrize("by", ["moved", "removed", "replaced"])
def test_nothing_is_written_to_a_file_that_is_the_ledger_no_more(
    path: Path, tmp_path: Path, by: str
) -> None:
    backup, away = tmp_path / "backup.db", tmp_path / "away.db"
    with open_store(path) as first:
        first.append([write("run/a", 0)])
    shutil.copy(path, backup)
    store = open_store(path)
    store.append([write("run/a", 1)])
    if by == "removed":
        path.unlink()
    else:
        path.rename(away)
        if by == "replaced":
            shutil.copy(backup, path)
    gone = "was moved, removed or replaced while it was in use. Nothing was stored"
    with pytest.raises(StoreFailure, match=gone):
        store.append([write("run/a", 2)])
    with pytest.raises(StoreFailure, match=gone), store.exclusive():
        pass
    # The reader that follows must not wait for ever, nor be given another file.
    with pytest.raises(StoreFailure, match=gone):
        store.wait(after=2, limit=timedelta(0))
    with pytest.raises(StoreFailure, match=gone):
        store.read("run/a")
    store.close()
    # It is somebody else's: nothing was said of its bytes.
    assert path.exists() == (by == "replaced")
    assert not rest_path(path).exists()
    if by == "replaced":
        assert path.read_bytes() == backup.read_bytes()
    if by == "moved":
        away.rename(path)
        with open_store(path) as again:
            assert again.head("run/a")[0] == 2
