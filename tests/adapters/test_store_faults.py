"""Kills, full disks, locks, damage, foreign files: nothing is lost, and messages help."""

import os
import random
import signal
import sqlite3
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from threading import Event

import pytest
from eventsourcing.persistence import (
    IntegrityError,
    OperationalError,
    ProgrammingError,
    StoredEvent,
)

from tests.adapters.store_processes import ROOT, WORKER, line_of, worker
from watchkeeper.adapters.store.lock import UseLock
from watchkeeper.adapters.store.recorder import SqliteRecorder
from watchkeeper.adapters.store.rest import rest_path
from watchkeeper.adapters.store.sqlite import open_store
from watchkeeper.adapters.store.verify import verify_store
from watchkeeper.ports.event_store import Appended, StoreFailure, StoreUnavailable, Write

KILLS = 15
SHORT = timedelta(milliseconds=50)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


def write(stream: str, expected: int, state: bytes = b"{}") -> Write:
    return Write(stream, expected, (("run.noted.1", state),))


def fill(path: Path, events: int) -> None:
    with open_store(path) as store:
        for version in range(events):
            store.append([write("run/a", version, bytes(500))])


@pytest.mark.servers
def test_whatever_append_returned_is_there_after_a_kill(path: Path) -> None:
    """Two streams and a key in each append: killed at any moment, all of it is there or none."""
    chosen = random.Random(7)
    version = effects = 0
    for _ in range(KILLS):
        with worker("write_for_ever", path, "run/a") as process:
            said = [line_of(process) for _ in range(chosen.randint(1, 40))]
            process.send_signal(signal.SIGKILL)
            # Not by `communicate`, which would leave out what `readline` has buffered.
            assert process.stdout is not None
            rest_of_output = process.stdout.read()
            process.wait(timeout=60)
        # The last line may be cut off: then its append returned, but nobody was told.
        said += [line for line in rest_of_output.split("\n")[:-1] if line]
        version_said, effects_said, pid, index = map(int, said[-1].split())
        report = verify_store(path)
        assert report.problems == ()
        with open_store(path) as store:
            version, effects = store.head("run/a")[0], store.head("effects/run/a")[0]
            assert version == 2 * effects
            # One more may have been stored whose answer never came.
            assert effects in (effects_said, effects_said + 1)
            assert store.answer(f"{pid} {index}") == Appended(
                {
                    "run/a": (version_said - 1, version_said),
                    "effects/run/a": (effects_said, effects_said),
                },
                repeated=True,
            )
            unsaid = store.answer(f"{pid} {index + 1}")
            assert (unsaid is not None) == (effects > effects_said)
    report = verify_store(path)
    assert (report.problems, report.whole_file) == ((), True)
    assert report.events == version + effects > 3 * KILLS


def test_a_full_disk_is_said_and_nothing_of_the_append_is_stored(path: Path) -> None:
    # The limit on file sizes is a real failure of the operating system, and needs no rights.
    with worker("fill", path, 400_000) as process:
        said, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    stored, message = said.splitlines()
    assert message == (
        f"{path}: append failed: disk I/O error. Nothing was stored. "
        "Check the disk, its quota and the limit on file sizes, then try again."
    )
    with open_store(path) as store:
        assert store.head("run/a")[0] == int(stored) + 1 > 10
    assert verify_store(path).problems == ()


def test_a_database_that_may_not_grow_is_said_to_be_full(path: Path) -> None:
    with open_store(path) as store:
        store.append([write("run/a", 0)])
        with store.database.writing("limit") as connection:
            pages = connection.execute("PRAGMA page_count").fetchone()[0]
            connection.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(StoreFailure, match=r"is full\. Nothing was stored\. Free space"):
            store.append([write("run/b", 0), write("run/a", 1, bytes(100_000))], key="k")
        assert (store.head("run/a")[0], store.streams("run/b"), store.answer("k")) == (1, [], None)
        with store.database.writing("limit") as connection:
            connection.execute("PRAGMA max_page_count = 100000")
        store.append([write("run/b", 0), write("run/a", 1, bytes(100_000))], key="k")
    report = verify_store(path)
    assert (report.problems, report.events) == ((), 3)


def test_a_write_lock_held_past_the_limit_is_said(path: Path) -> None:
    with (
        open_store(path, busy_limit=SHORT) as store,
        closing(sqlite3.connect(path, isolation_level=None)) as other,
    ):
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(
            StoreUnavailable, match=r"locked\. Nothing was stored\. Another process"
        ):
            store.append([write("run/a", 0)])
        assert store.read("run/a") == []
        other.execute("ROLLBACK")
        store.append([write("run/a", 0)])


def test_a_write_lock_held_for_a_moment_is_waited_for(path: Path) -> None:
    with (
        open_store(path) as store,
        closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other,
        ThreadPoolExecutor(1) as pool,
    ):
        other.execute("BEGIN IMMEDIATE")
        appending = pool.submit(store.append, [write("run/a", 0)])
        with pytest.raises(TimeoutError):
            appending.result(timeout=0.2)
        other.execute("ROLLBACK")
        assert appending.result(timeout=60) == Appended({"run/a": (1, 1)})


def test_a_store_that_another_owns_alone_for_too_long_is_said(path: Path) -> None:
    owner, other = UseLock(path, create=True), UseLock(path, create=True)
    assert owner.own()
    with pytest.raises(StoreFailure, match=r"has owned the store for more than 0\.05 s"):
        other.share(SHORT)
    owner.close()
    other.share(SHORT)
    other.close()
    other.close()


def crashed(path: Path) -> None:
    """Leave a store as a crash does: without the digest that would show any change at once."""
    rest_path(path).unlink()


def test_a_store_that_was_changed_at_rest_is_refused_before_it_is_opened(path: Path) -> None:
    fill(path, 5)
    content = bytearray(path.read_bytes())
    content[5000] ^= 1
    path.write_bytes(bytes(content))
    with pytest.raises(StoreFailure, match="when the store was last closed"):
        open_store(path)
    # Whoever has looked may accept the file as it is.
    rest_path(path).unlink()
    with open_store(path) as store:
        assert store.newest() == 5


@pytest.mark.parametrize("offset", [0, 5000, 9000])
def test_a_damaged_file_is_said_when_it_is_opened_or_used(path: Path, offset: int) -> None:
    fill(path, 50)
    crashed(path)
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(random.Random(offset).randbytes(30_000))

    def use() -> None:
        with open_store(path) as store:
            store.read_all()
            store.append([write("run/a", store.head("run/a")[0])])

    with pytest.raises(StoreFailure, match=r"The file is damaged.*`watchkeeper verify`"):
        use()
    assert verify_store(path).problems


def test_names_that_are_no_text_are_damage(path: Path) -> None:
    fill(path, 1)
    crashed(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP TRIGGER topics_no_update")
        connection.execute("UPDATE topics SET name = CAST(x'ff' AS TEXT)")
        connection.commit()
    with open_store(path) as store, pytest.raises(StoreFailure, match="The file is damaged"):
        store.read_all()


def make_text(path: Path) -> None:
    path.write_text("These are my notes. " * 400)


def make_foreign(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE notes (a)")


def make_newer(path: Path) -> None:
    fill(path, 1)
    crashed(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP TRIGGER meta_no_update")
        connection.execute("UPDATE meta SET value = '2'")
        connection.commit()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (make_text, "file is not a database. Nothing was stored. The file is damaged"),
        (make_foreign, "SQLite file of another program (application id 0x0, expected 0x776b7072)"),
        (make_newer, "written by a newer watchkeeper (schema 2, this one knows 1). Nothing was"),
    ],
)
def test_a_file_that_is_not_ours_to_write_is_refused_and_left_as_it_is(
    path: Path, make: Callable[[Path], None], message: str
) -> None:
    make(path)
    before = path.read_bytes()
    with pytest.raises(StoreFailure) as refused:
        open_store(path)
    assert message in str(refused.value)
    assert path.read_bytes() == before


def test_an_unknown_older_schema_is_refused(path: Path) -> None:
    make_newer(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE meta SET value = '0'")
        connection.commit()
    with pytest.raises(StoreFailure, match="schema version '0' is unknown, expected 1"):
        open_store(path)


@pytest.mark.parametrize("content", [b"", b"This is no database. " * 500])
def test_a_file_that_is_no_store_is_broken(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "ledger.db"
    file.write_bytes(content)
    assert verify_store(file).problems


def test_a_missing_file_can_not_be_verified(tmp_path: Path) -> None:
    with pytest.raises(StoreFailure, match="no store to verify"):
        verify_store(tmp_path / "ledger.db")


def test_a_newer_store_can_not_be_verified_by_older_code(path: Path) -> None:
    make_newer(path)
    with pytest.raises(StoreFailure, match=r"newer watchkeeper.*Upgrade"):
        verify_store(path)


def test_a_missing_folder_is_said(tmp_path: Path) -> None:
    with pytest.raises(StoreFailure, match=r"its folder does not exist.*Create"):
        open_store(tmp_path / "none" / "ledger.db")


@pytest.mark.parametrize("emptied", [True, False])
def test_a_lost_store_is_not_begun_anew(path: Path, emptied: bool) -> None:
    fill(path, 1)
    path.unlink()
    if emptied:
        path.touch()
    with pytest.raises(StoreFailure, match="missing or empty, but ledger\\.db\\.rest still exists"):
        open_store(path)
    rest_path(path).unlink()
    open_store(path).close()


def test_a_store_whose_creation_was_cut_short_is_created_again(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
    assert path.stat().st_size > 0, "a header and no table"
    fill(path, 1)
    assert verify_store(path).whole_file


def said_without_root_rights(path: Path) -> str:
    # Root may write everywhere; without this right the modes of files hold for it as well.
    drop = "-dac_override,-dac_read_search"
    root = ["setpriv", f"--bounding-set={drop}", f"--inh-caps={drop}"] if os.geteuid() == 0 else []
    command = [*root, *WORKER, "try_all", str(path)]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=30, check=True
    ).stdout


@pytest.mark.parametrize("exists", [True, False])
def test_a_folder_that_may_not_be_written_to_is_said(path: Path, exists: bool) -> None:
    if exists:
        fill(path, 1)
    path.parent.chmod(0o500)
    try:
        said = said_without_root_rights(path)
    finally:
        path.parent.chmod(0o700)
    assert "Nothing was stored" in said
    assert "Check that this user may write" in said
    if exists:
        assert verify_store(path).events == 1


def test_a_file_that_may_not_be_written_is_said(path: Path) -> None:
    fill(path, 1)
    path.chmod(0o400)
    assert "Check that this user may write the file" in said_without_root_rights(path)
    assert verify_store(path).whole_file


def test_nothing_is_written_while_the_digest_can_not_be_removed(path: Path) -> None:
    fill(path, 1)
    rest_path(path).unlink()
    rest_path(path).mkdir()
    with open_store(path) as store:
        with pytest.raises(StoreFailure, match=r"could not be removed before writing"):
            store.append([write("run/a", 1)])
        assert store.head("run/a")[0] == 1


def test_a_digest_that_can_not_be_written_is_logged_and_closing_goes_on(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = open_store(path)
    store.append([write("run/a", 0)])
    path.with_name("ledger.db.rest.new").mkdir()
    store.close()
    assert "no whole-file digest was written at close" in caplog.text
    report = verify_store(path)
    assert (report.problems, report.events, report.whole_file) == ((), 1, False)


class FsyncFails:
    """A fake, for the one fault that can't be had for real: the flush inside COMMIT fails."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def __getattr__(self, name: str) -> object:
        return getattr(self._connection, name)

    def execute(self, statement: str) -> object:
        if statement == "COMMIT":
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorcode = sqlite3.SQLITE_IOERR_FSYNC
            raise error
        return self._connection.execute(statement)


def test_a_commit_whose_outcome_is_unknown_stops_all_writing(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(path)
    store.append([write("run/a", 0)])
    with monkeypatch.context() as patch:
        patch.setattr(store.database, "_writer", FsyncFails(vars(store.database)["_writer"]))
        with (
            pytest.raises(StoreFailure, match="it is unknown whether the last note was stored"),
            store.database.writing("note"),
        ):
            pass
    with pytest.raises(StoreFailure, match="Writing stops"):
        store.append([write("run/a", 1)], key="k")
    store.close()
    with open_store(path) as opened:
        assert not opened.append([write("run/a", 1)], key="k").repeated
    assert verify_store(path).problems == ()


def test_whoever_waits_hears_of_damage_and_does_not_wait_on(path: Path) -> None:
    fill(path, 1)
    with open_store(path) as store, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(store.wait, after=1, limit=timedelta(seconds=30))
        path.write_bytes(b"garbage" * 5_000)
        assert isinstance(waiting.exception(timeout=60), StoreFailure)


def test_an_error_under_the_feed_wakes_the_listeners(path: Path) -> None:
    with open_store(path) as store:
        heard = Event()
        store.database.feed.listen(heard)
        assert heard.wait(60), "the first poll"
        heard.clear()
        path.write_bytes(b"garbage" * 5_000)
        assert heard.wait(60)


def test_the_recorder_raises_the_errors_of_the_library(path: Path) -> None:
    event = StoredEvent("run/a", 1, "run.noted.1", b"{}")
    with open_store(path, busy_limit=SHORT) as store:
        recorder = SqliteRecorder(store)
        recorder.insert_events([event])
        for versions in ([1], [3], [2, 2], [2, 4]):
            with pytest.raises(IntegrityError, match="does not follow"):
                recorder.insert_events([StoredEvent("run/a", v, "t.1", b"") for v in versions])
        with pytest.raises(ProgrammingError, match="tracking"):
            recorder.insert_events([event], tracking=object())
        with pytest.raises(ProgrammingError, match="give it as one"):
            recorder.select_events("uuid/" + "0" * 32)
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(OperationalError, match="Another process holds it"):
                recorder.insert_events([StoredEvent("run/a", 2, "run.noted.1", b"{}")])
        assert store.head("run/a")[0] == 1
    with pytest.raises(OperationalError, match="it is closed"):
        recorder.max_notification_id()
