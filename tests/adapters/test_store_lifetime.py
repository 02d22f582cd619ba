"""How a store is opened, waited for, left at rest and closed."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from threading import Thread
from time import monotonic

import pytest

from tests.adapters.store_processes import line_of, tell, worker
from watchkeeper.adapters.store.recorder import SqliteRecorder
from watchkeeper.adapters.store.rest import rest_path
from watchkeeper.adapters.store.sqlite import SqliteStore, open_store
from watchkeeper.adapters.store.verify import verify_store
from watchkeeper.event_store import StoreFailure, VersionConflict, Write

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


def test_wait_returns_at_once_when_the_event_is_there(store: SqliteStore) -> None:
    store.append([write("run/a", 0)])
    assert store.wait(after=0, limit=timedelta(0))
    assert not store.wait(after=1, limit=timedelta(0))


def test_wait_gives_up_at_its_limit(store: SqliteStore) -> None:
    started = monotonic()
    assert not store.wait(after=0, limit=timedelta(milliseconds=200))
    assert 0.2 <= monotonic() - started < 2


def test_wait_wakes_within_a_second_of_an_append_by_another_thread(store: SqliteStore) -> None:
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(store.wait, after=0, limit=timedelta(seconds=30))
        store.append([write("run/a", 0)])
        assert waiting.result(timeout=1)


def test_wait_wakes_within_a_second_of_an_append_by_another_process(
    path: Path, store: SqliteStore
) -> None:
    with worker("append_on_request", path, "run/a") as process, ThreadPoolExecutor(1) as pool:
        assert line_of(process) == "open"
        for after in range(3):
            waiting = pool.submit(store.wait, after=after, limit=timedelta(seconds=30))
            tell(process)
            assert waiting.result(timeout=1)


def test_a_subscription_gets_events_of_this_and_of_other_processes(
    path: Path, store: SqliteStore
) -> None:
    store.append([write("run/old", 0)])
    with (
        worker("append_on_request", path, "run/theirs") as process,
        SqliteRecorder(store).subscribe(gt=1) as subscription,
    ):
        assert line_of(process) == "open"
        for index in range(3):
            store.append([write("run/ours", index)])
            assert next(subscription).originator_id == "run/ours"
            tell(process)
            assert next(subscription).originator_id == "run/theirs"


def test_closing_the_store_ends_a_subscription_with_an_error(path: Path) -> None:
    store = open_store(path)
    subscription = SqliteRecorder(store).subscribe()
    with subscription, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(next, subscription)
        store.close()
        assert "closed" in str(waiting.exception(timeout=5))


def test_a_process_can_end_with_everything_left_open(path: Path) -> None:
    with worker("leave_open", path) as process:
        said, _ = process.communicate(timeout=20)
        assert (said.strip(), process.returncode) == ("ending", 0)


def test_close_is_safe_to_call_twice_and_ends_all_use(path: Path) -> None:
    store = open_store(path)
    store.close()
    store.close()
    for act in (lambda: store.append([write("run/a", 0)]), lambda: store.read("run/a")):
        with pytest.raises(StoreFailure, match="it is closed"):
            act()


def test_close_waits_for_reads_under_way(path: Path) -> None:
    store = open_store(path)
    with store.database.reading("read") as connection:
        closing = Thread(target=store.close)
        closing.start()
        closing.join(0.2)
        assert closing.is_alive()
        assert connection.execute("SELECT count(*) FROM events").fetchone() == (0,)
    closing.join(10)
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
