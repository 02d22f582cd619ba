"""Every change of a store file by something else is found, within known limits."""

import os
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from tests.adapters.store_processes import line_of, worker
from watchkeeper.adapters.store import content, rest, verify
from watchkeeper.adapters.store.content import (
    PROBLEMS_MAX,
    Problem,
    ProblemKind,
    Seen,
    content_problems,
)
from watchkeeper.adapters.store.lock import lock_path
from watchkeeper.adapters.store.rest import rest_path
from watchkeeper.adapters.store.sqlite import open_store
from watchkeeper.adapters.store.verify import verify_store
from watchkeeper.ports.event_store import Appended, StatusRow, StoreFailure, Write

STREAMS = [f"run/stream-{letter}" for letter in "abcdefgh"]
EVENTS = 400
PAGE_BYTES = 4096

CUT_OFF = (
    "DELETE FROM keys WHERE position > 390",
    "DELETE FROM events WHERE id > 390",
    "UPDATE sqlite_sequence SET seq = 390",
)
"""Removes the newest events and every counter that speaks of them."""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A closed store of some hundred events on several streams."""
    path = tmp_path_factory.mktemp("built") / "ledger.db"
    with open_store(path) as store:
        for index in range(EVENTS // len(STREAMS)):
            for stream in STREAMS:
                state = f'{{"text":"note {index} of {stream}"}}'.encode()
                store.append(
                    [Write(stream, index, ((f"run.noted.{index % 3}", state),))],
                    key=f"{stream} {index}",
                    digest=b"digest",
                    status=[StatusRow(stream, "run", f'{{"index":{index}}}')],
                )
    return path


@pytest.fixture
def path(built: Path, tmp_path: Path) -> Path:
    """A copy of the closed store, with its digest, to damage."""
    shutil.copytree(built.parent, tmp_path / "copy")
    return tmp_path / "copy" / built.name


@pytest.fixture
def unrested(path: Path) -> Path:
    """A copy without a digest: only the content speaks."""
    rest_path(path).unlink()
    return path


def flip(file: Path, offset: int, bits: int = 0x01) -> int:
    """Change one byte; return what it was."""
    with file.open("r+b") as opened:
        opened.seek(offset)
        byte = opened.read(1)[0]
        opened.seek(offset)
        opened.write(bytes([byte ^ bits]))
    return byte


def kinds(path: Path) -> set[ProblemKind]:
    return {problem.kind for problem in verify_store(path).problems}


def files(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def test_a_closed_store_is_intact_as_a_whole_and_verifying_changes_no_file(path: Path) -> None:
    before = files(path.parent)
    report = verify_store(path)
    assert (report.problems, report.notes, report.whole_file) == ((), (), True)
    assert (report.streams, report.events) == (len(STREAMS), EVENTS)
    assert files(path.parent) == before


def offsets(size_bytes: int) -> list[int]:
    """All of the file header, the interesting places of each page, and some at random."""
    chosen = random.Random(4711)
    everywhere = [chosen.randrange(size_bytes) for _ in range(200)]
    in_pages = [
        page + place
        for page in range(0, size_bytes, PAGE_BYTES)
        for place in (0, 1, 3, 5, 9, 200, PAGE_BYTES // 2, PAGE_BYTES - 1)
    ]
    return sorted({*range(100), *in_pages, *everywhere})


def test_one_changed_byte_anywhere_in_the_file_is_found(path: Path) -> None:
    size_bytes = path.stat().st_size
    assert size_bytes >= 10 * PAGE_BYTES
    bits = random.Random(17)
    for offset in offsets(size_bytes):
        byte = flip(path, offset, 1 << bits.randrange(8))
        report = verify_store(path)
        assert report.problems, f"byte {offset} was changed and nothing was found"
        assert not report.whole_file
        with path.open("r+b") as file:
            file.seek(offset)
            file.write(bytes([byte]))
    assert verify_store(path).whole_file


def test_one_changed_byte_anywhere_in_the_digest_is_found(path: Path) -> None:
    for offset in range(rest_path(path).stat().st_size):
        for bits in (0x01, 0x20):
            flip(rest_path(path), offset, bits)
            assert ProblemKind.DIGEST in kinds(path), f"byte {offset} of the digest"
            flip(rest_path(path), offset, bits)
    assert verify_store(path).whole_file


@pytest.mark.parametrize("size_change", [-PAGE_BYTES, -1, 1, PAGE_BYTES])
def test_a_longer_or_shorter_file_is_found(path: Path, size_change: int) -> None:
    os.truncate(path, path.stat().st_size + size_change)
    assert ProblemKind.DIGEST in kinds(path)


@pytest.mark.parametrize("suffix", ["-wal", "-journal"])
def test_a_log_put_beside_a_file_at_rest_is_found(path: Path, suffix: str) -> None:
    path.with_name(path.name + suffix).write_bytes(b"\0")
    [problem] = verify_store(path).problems
    assert problem.kind is ProblemKind.DIGEST
    assert f"ledger.db{suffix} is not empty" in problem.message


def test_without_the_digest_the_report_says_what_was_not_checked(unrested: Path) -> None:
    before = files(unrested.parent)
    report = verify_store(unrested)
    assert (report.problems, report.whole_file) == ((), False)
    assert report.notes == (
        "not at rest: it was not closed cleanly, so there is no whole-file digest to check",
    )
    assert files(unrested.parent) == before


def places(file: Path, content: bytes) -> list[int]:
    found = [match.start() for match in re.finditer(re.escape(content), file.read_bytes())]
    assert found
    return found


@pytest.mark.parametrize(
    "content", [b"note 17 of run/stream-c", b"run/stream-b", b"run.noted.2", b"CREATE TRIGGER"]
)
def test_without_the_digest_a_changed_byte_of_content_is_found(
    unrested: Path, content: bytes
) -> None:
    # In the table, in its index, in keys; a page that SQLite has split holds old copies as well.
    found = 0
    for at in places(unrested, content):
        flip(unrested, at + 5)
        found += bool(verify_store(unrested).problems)
        flip(unrested, at + 5)
    assert found >= 1


def test_without_the_digest_every_changed_byte_of_a_hash_is_found(unrested: Path) -> None:
    with closing(sqlite3.connect(unrested)) as connection:
        (chain,) = connection.execute("SELECT hash FROM events WHERE id = 30").fetchone()
    [at] = places(unrested, chain)
    for offset in range(32):
        flip(unrested, at + offset)
        assert ProblemKind.CHAIN in kinds(unrested)
        flip(unrested, at + offset)


def tamper(path: Path, *statements: str) -> None:
    """Change rows as one who knows SQL would: without the triggers, and with them put back."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        triggers = connection.execute(
            "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"
        ).fetchall()
        for name, _ in triggers:
            connection.execute(f"DROP TRIGGER {name}")
        connection.execute("PRAGMA ignore_check_constraints = ON")
        # SQLite else renames nothing in a file with views of a table that is not there.
        connection.execute("PRAGMA writable_schema = ON")
        for statement in statements:
            connection.execute(statement)
        for _, sql in triggers:
            connection.execute(sql)


@pytest.mark.parametrize(
    ("statement", "kind"),
    [
        ("UPDATE events SET state = CAST(state || 'x' AS BLOB) WHERE id = 30", ProblemKind.CHAIN),
        ("UPDATE events SET state = zeroblob(0) WHERE id = 400", ProblemKind.CHAIN),
        ("UPDATE events SET topic = 3 - topic WHERE id = 30", ProblemKind.CHAIN),
        ("UPDATE events SET hash = randomblob(32) WHERE id = 30", ProblemKind.CHAIN),
        ("UPDATE events SET version = 99 WHERE id = 400", ProblemKind.VERSION),
        ("UPDATE events SET version = version + 100 WHERE stream = 1", ProblemKind.CHAIN),
        ("UPDATE events SET id = 1000 WHERE id = 30", ProblemKind.POSITION),
        ("UPDATE events SET stream = 2, version = 51 WHERE id = 393", ProblemKind.CHAIN),
        ("UPDATE topics SET name = 'run.sealed.1' WHERE id = 2", ProblemKind.CHAIN),
        ("UPDATE streams SET name = 'run/other' WHERE id = 2", ProblemKind.CHAIN),
        ("UPDATE streams SET name = CAST(x'ff' AS TEXT) WHERE id = 2", ProblemKind.CHAIN),
        ("UPDATE events SET hash = x'00' WHERE id = 30", ProblemKind.FILE),
        ("DELETE FROM events WHERE id = 30", ProblemKind.VERSION),
        ("DELETE FROM events WHERE id = 1", ProblemKind.VERSION),
        ("DELETE FROM events WHERE id = 400", ProblemKind.POSITION),
        ("DELETE FROM events WHERE stream = 3", ProblemKind.POSITION),
        ("DELETE FROM streams WHERE id = 3", ProblemKind.FILE),
        ("DELETE FROM topics WHERE id = 1", ProblemKind.FILE),
        ("INSERT INTO events VALUES (401, 1, 51, 1, x'00', zeroblob(32))", ProblemKind.CHAIN),
        ("UPDATE sqlite_sequence SET seq = 10", ProblemKind.POSITION),
        ("DELETE FROM sqlite_sequence", ProblemKind.POSITION),
        ("UPDATE keys SET answer = replace(answer, '[50,50]', '[50,51]')", ProblemKind.KEY),
        ("UPDATE keys SET answer = '[1]' WHERE position = 3", ProblemKind.KEY),
        ("UPDATE keys SET position = 4 WHERE position = 3", ProblemKind.KEY),
        ("UPDATE meta SET value = '0'", ProblemKind.SCHEMA),
        ("PRAGMA application_id = 1", ProblemKind.SCHEMA),
        ("CREATE TABLE more (a)", ProblemKind.SCHEMA),
        ("CREATE TRIGGER more AFTER INSERT ON events BEGIN SELECT 1; END", ProblemKind.SCHEMA),
        ("DROP TABLE status", ProblemKind.SCHEMA),
        ("ALTER TABLE status RENAME COLUMN row TO text", ProblemKind.SCHEMA),
    ],
)
def test_without_the_digest_changed_rows_are_found(
    unrested: Path, statement: str, kind: ProblemKind
) -> None:
    tamper(unrested, statement)
    assert kind in kinds(unrested)


def test_a_change_is_reported_where_it_is_and_not_in_all_that_follows(unrested: Path) -> None:
    tamper(unrested, "UPDATE events SET state = x'00' WHERE id = 30")
    [problem] = verify_store(unrested).problems
    assert (problem.kind, problem.stream, problem.version) == (
        ProblemKind.CHAIN, "run/stream-f", 4,
    )  # fmt: skip


def test_a_removed_trigger_is_found(unrested: Path) -> None:
    with closing(sqlite3.connect(unrested)) as connection:
        connection.execute("DROP TRIGGER events_no_update")
    [problem] = verify_store(unrested).problems
    assert problem.message == "The trigger events_no_update is not as watchkeeper creates it."


def test_two_swapped_events_are_found(unrested: Path) -> None:
    tamper(
        unrested,
        "UPDATE events SET version = -1 WHERE id = 30",
        "UPDATE events SET version = 4 WHERE id = 38",
        "UPDATE events SET version = 5 WHERE id = 30",
    )
    assert {ProblemKind.VERSION, ProblemKind.CHAIN} <= kinds(unrested)


def test_a_stream_removed_with_its_name_and_keys_is_found(unrested: Path) -> None:
    tamper(
        unrested,
        "DELETE FROM keys WHERE key LIKE 'run/stream-c%'",
        "DELETE FROM events WHERE stream = 3",
        "DELETE FROM streams WHERE id = 3",
    )
    assert kinds(unrested) == {ProblemKind.POSITION}


def test_problems_are_limited(unrested: Path) -> None:
    tamper(unrested, "UPDATE events SET state = x'00'")
    report = verify_store(unrested)
    assert len(report.problems) == PROBLEMS_MAX
    assert report.notes[-1] == "stopped after 100 problems"


def test_known_limit_the_newest_events_removed_with_every_counter_are_not_found(
    unrested: Path,
) -> None:
    """The chain says nothing about its end: heads that are kept elsewhere do."""
    tamper(unrested, *CUT_OFF)
    assert verify_store(unrested).problems == ()


def test_known_limit_a_rewritten_file_with_a_new_digest_is_not_found(unrested: Path) -> None:
    """Whoever may write the file may also write a digest: heads that are kept elsewhere tell."""
    tamper(unrested, *CUT_OFF)
    open_store(unrested).close()
    assert verify_store(unrested).whole_file


def test_while_it_is_open_elsewhere_the_events_are_checked_and_the_report_says_so(
    path: Path,
) -> None:
    with worker("hold", path) as process:
        assert line_of(process) == "open"
        report = verify_store(path)
        assert (report.problems, report.whole_file, report.events) == ((), False, EVENTS)
        assert report.notes == (
            "not at rest: it is open in a process, so the whole-file digest was not checked",
        )
        flip(path, places(path, b"note 17 of run/stream-c")[0])
        assert ProblemKind.CHAIN in kinds(path)


def test_verifying_leaves_the_locks_of_a_store_open_in_this_process(path: Path) -> None:
    """Closing a file drops every POSIX lock that the process has on it, SQLite's too."""
    code = (
        "import sqlite3, sys\n"
        "c = sqlite3.connect(sys.argv[1], timeout=0)\n"
        "try: print(c.execute('PRAGMA journal_mode = DELETE').fetchone()[0])\n"
        "except sqlite3.OperationalError as error: print(error)\n"
    )
    with open_store(path) as store:
        assert store.head(STREAMS[0])[0] == 50
        assert verify_store(path).problems == ()
        said = subprocess.run(
            [sys.executable, "-c", code, str(path)],
            capture_output=True, text=True, timeout=30, check=True,
        )  # fmt: skip
        assert said.stdout.strip() == "database is locked"


def test_a_crashed_store_is_verified_with_its_log_and_left_as_it_is(path: Path) -> None:
    with worker("append_on_request", path, "run/new") as process:
        assert line_of(process) == "open"
        assert process.stdin is not None
        process.stdin.write("go\ngo\n")
        process.stdin.flush()
        with open_store(path) as store:
            while store.head("run/new")[0] < 2:
                store.wait(after=EVENTS, limit=timedelta(seconds=1))
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=60)
    assert path.with_name("ledger.db-wal").stat().st_size > 0
    before = files(path.parent)
    report = verify_store(path)
    after = files(path.parent)
    assert (report.problems, report.events) == ((), EVENTS + 2)
    assert "not closed cleanly" in report.notes[0]
    # The -shm file is SQLite's scratch: it holds nothing that the log does not.
    before.pop("ledger.db-shm", None)
    after.pop("ledger.db-shm", None)
    assert after == before


def test_a_copy_without_a_lock_file_is_verified_and_gets_none(path: Path) -> None:
    lock_path(path).unlink()
    assert verify_store(path).whole_file
    assert not lock_path(path).exists()


def test_a_write_in_the_middle_is_no_problem(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[Appended] = []

    def write_once() -> None:
        if not written:
            with open_store(path) as store:
                written.append(store.append([Write("run/new", 0, (("a.1", bytes(9_000)),) * 9)]))

    def interrupted(connection: sqlite3.Connection, seen: Seen) -> Iterator[Problem]:
        connection.set_progress_handler(write_once, 3_000)
        return content_problems(connection, seen)

    # Only so does another's write come into the middle for sure: SQLite calls it while it reads.
    monkeypatch.setattr(verify, "content_problems", interrupted)
    report = verify_store(path)
    assert written
    assert (report.problems, report.events) == ((), EVENTS + 9)


def test_a_very_large_file_has_no_digest_and_the_report_says_so(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (rest, verify):
        monkeypatch.setattr(module, "REST_BYTES_MAX", 1 << 16)
    with open_store(path) as store:
        store.append([Write("run/new", 0, (("a.1", b""),))])
    assert not rest_path(path).exists()
    report = verify_store(path)
    assert (report.problems, report.whole_file) == ((), False)
    assert report.notes[0].startswith("larger than 0 MiB: such files have no whole-file digest")


@pytest.fixture
def crashed(path: Path) -> Path:
    """A copy whose last user was killed after three answered appends, with its log beside it."""
    with worker("append_on_request", path, "run/new") as process:
        assert line_of(process) == "open"
        assert process.stdin is not None
        process.stdin.write("go\ngo\ngo\n")
        process.stdin.flush()
        with open_store(path) as store:
            while store.head("run/new")[0] < 3:
                store.wait(after=EVENTS, limit=timedelta(seconds=1))
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=60)
    return path


def log_of(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def index_of(path: Path) -> Path:
    return path.with_name(f"{path.name}-shm")


def test_one_changed_byte_anywhere_in_the_log_of_a_killed_process_is_found(crashed: Path) -> None:
    chosen, size_bytes = random.Random(23), log_of(crashed).stat().st_size
    frame_bytes = 24 + PAGE_BYTES
    assert size_bytes > 3 * frame_bytes
    starts = range(32, size_bytes, frame_bytes)
    headers = [start + place for start in starts for place in range(24)]
    anywhere = [chosen.randrange(size_bytes) for _ in range(60)]
    for offset in [*range(32), *headers, *anywhere, size_bytes - 1]:
        flip(log_of(crashed), offset)
        assert kinds(crashed) == {ProblemKind.LOG}, f"byte {offset} of the log"
        flip(log_of(crashed), offset)
    assert verify_store(crashed).problems == ()


def test_a_log_that_lost_its_end_is_found(crashed: Path) -> None:
    os.truncate(log_of(crashed), log_of(crashed).stat().st_size - 1)
    assert kinds(crashed) == {ProblemKind.LOG}


def test_a_log_that_is_gone_is_found(crashed: Path) -> None:
    log_of(crashed).unlink()
    assert kinds(crashed) == {ProblemKind.LOG}
    with pytest.raises(StoreFailure, match="it is gone"):
        open_store(crashed)


def test_a_damaged_log_is_left_as_it_is_by_verify_and_by_opening(crashed: Path) -> None:
    flip(log_of(crashed), log_of(crashed).stat().st_size - PAGE_BYTES)
    before = files(crashed.parent)
    assert kinds(crashed) == {ProblemKind.LOG}
    with pytest.raises(StoreFailure, match=r"ledger\.db-wal: frame .* Nothing was stored"):
        open_store(crashed)
    assert kinds(crashed) == {ProblemKind.LOG}
    assert files(crashed.parent) == before


def test_a_write_that_was_cut_off_is_no_damage(crashed: Path) -> None:
    whole = log_of(crashed).read_bytes()
    generation = whole[16:24]
    begun = b"\0\0\0\1\0\0\0\0" + generation + b"12345678"
    for cut_off in (begun, begun + bytes(100), begun + bytes(PAGE_BYTES)):
        log_of(crashed).write_bytes(whole + cut_off)
        report = verify_store(crashed)
        assert (report.problems, report.events) == ((), EVENTS + 3)
    with open_store(crashed) as store:
        assert store.head("run/new")[0] == 3


def test_without_the_index_a_changed_byte_is_found_unless_it_looks_like_a_cut_off_end(
    crashed: Path,
) -> None:
    # As after a power loss, or in a copy: only the order in the log speaks.
    index_of(crashed).unlink()
    frame_bytes = 24 + PAGE_BYTES
    last = log_of(crashed).stat().st_size - frame_bytes
    for offset in (0, 16, 31, 32, 40, 32 + frame_bytes, last - 1):
        flip(log_of(crashed), offset)
        assert kinds(crashed) == {ProblemKind.LOG}, f"byte {offset} of the log"
        flip(log_of(crashed), offset)
        index_of(crashed).unlink(missing_ok=True)
    flip(log_of(crashed), last + 100)
    assert verify_store(crashed).problems == ()


@pytest.mark.parametrize("copy", [0, 48])
def test_an_index_that_was_being_written_says_nothing(crashed: Path, copy: int) -> None:
    flip(index_of(crashed), copy + 16)
    assert verify_store(crashed).problems == ()


@pytest.mark.parametrize("page", [1, 7, 100, EVENTS + 1])
@pytest.mark.parametrize(
    ("change", "found"),
    [
        ("SELECT 1", []),
        ("UPDATE events SET state = x'00' WHERE id IN (1, 100, 101, 399, 400)", ["chain"] * 5),
        (
            "UPDATE events SET version = version + 900 WHERE id = 250",
            ["version", "chain", "version"],
        ),
        ("DELETE FROM events WHERE id = 250", ["position", "version", "chain"]),
        ("UPDATE events SET topic = 77 WHERE id = 101", ["file", "file", "version", "chain"]),
    ],
)
def test_the_same_is_found_however_many_events_are_checked_at_once(
    unrested: Path, monkeypatch: pytest.MonkeyPatch, page: int, change: str, found: list[str]
) -> None:
    monkeypatch.setattr(content, "_PAGE", page)
    with closing(sqlite3.connect(unrested, isolation_level=None)) as connection:
        connection.execute("PRAGMA foreign_keys = OFF")
        guards = connection.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'")
        made = guards.fetchall()
        for name, _ in made:
            connection.execute(f"DROP TRIGGER {name}")
        connection.execute(change)
        for _, text in made:
            connection.execute(text)
    report = verify_store(unrested)
    kinds = [one.kind for one in report.problems if one.kind is not ProblemKind.KEY]
    # What follows in the same stream is told once, and not for each event.
    assert kinds == found, report.problems
    assert report.events == EVENTS - change.startswith("DELETE")
