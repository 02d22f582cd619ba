"""Export and import: byte for byte, verified before it is stored, gone on with after a crash."""

import gzip
import json
import os
import sqlite3
import stat
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from tests.command_line import Cli
from tests.histories import told
from tests.stores import ON_BOTH, ON_FILE, store_at
from watchkeeper.adapters.store.recorder import SqliteRecorder
from watchkeeper.adapters.store.sqlite import SqliteStore, open_store
from watchkeeper.adapters.store.verify import verify_store
from watchkeeper.ports.event_store import READ_PAGE, StoreFailure, Write
from watchkeeper.services.ledger.export import export_lines
from watchkeeper.services.ledger.import_ import BadExport, OtherLedger, check_export, import_lines


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    with open_store(tmp_path / "ledger.db") as store:
        yield store


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[SqliteStore]:
    with open_store(tmp_path / "empty.db") as store:
        yield store


def add(store: SqliteStore, *streams: str, key: str | None = None, number: int = 1) -> None:
    writes = [
        Write(stream, store.head(stream)[0], (("t.1", f"«{stream}» ü".encode()),) * number)
        for stream in streams
    ]
    store.append(writes, key=key, digest=b"d" * 32)


def mixed(store: SqliteStore) -> None:
    """Appends of every kind: with and without keys, over several streams, bytes of no text."""
    store.append([], key="nothing")
    for number in range(READ_PAGE // 3):
        add(store, f"run/{number % 5}", f"effects/{number % 5}", key=f"k {number}", number=2)
        add(store, "roots")
    store.append([Write("uuid/0", 0, (("t.1", b"\xff\x00\n"),))], key="binary")
    add(store, "run/0", "roots", key="last")


def exported(store: SqliteStore, runs: Sequence[str] = ()) -> Iterator[bytes]:
    return export_lines(store, SqliteRecorder(store), runs)


def content(store: SqliteStore) -> tuple[object, object]:
    return store.read_all(limit=10**6), list(store.key_rows())


def test_what_is_imported_is_what_was_exported_and_exports_to_the_same_bytes(
    store: SqliteStore, empty: SqliteStore, tmp_path: Path
) -> None:
    mixed(store)
    lines = list(exported(store))
    assert check_export(lines).events == store.newest()
    done = import_lines(empty, lines)
    assert (done.events, done.known) == (store.newest(), 0)
    assert content(empty) == content(store)
    assert b"".join(exported(empty)) == b"".join(lines)
    assert empty.answer("k 7") == store.answer("k 7")
    empty.close()
    assert verify_store(tmp_path / "empty.db").problems == ()


def test_an_export_of_some_runs_has_their_streams_only(
    store: SqliteStore, empty: SqliteStore
) -> None:
    mixed(store)
    lines = list(exported(store, ["0", "3"]))
    import_lines(empty, lines)
    assert empty.streams("") == ["effects/0", "effects/3", "run/0", "run/3"]
    assert empty.head("run/0") == store.head("run/0")
    assert b"".join(exported(empty)) == b"".join(lines)


def test_an_import_that_was_cut_short_goes_on(store: SqliteStore, empty: SqliteStore) -> None:
    mixed(store)
    lines = list(exported(store))

    class Killed(Exception):
        pass

    def killed(events: int) -> None:
        raise Killed

    with pytest.raises(Killed):
        import_lines(empty, lines, killed)
    assert 0 < empty.newest() < store.newest()
    done = import_lines(empty, lines)
    assert done.known + done.events == store.newest()
    assert done.known > 0
    assert content(empty) == content(store)
    assert import_lines(empty, lines).events == 0


def test_an_import_into_another_ledger_is_refused(store: SqliteStore, empty: SqliteStore) -> None:
    mixed(store)
    lines = list(exported(store))
    add(empty, "run/0")
    before = empty.newest()
    with pytest.raises(OtherLedger, match="empty store"):
        import_lines(empty, lines)
    assert empty.newest() == before


def test_an_import_into_a_longer_ledger_is_refused(store: SqliteStore, empty: SqliteStore) -> None:
    mixed(store)
    lines = list(exported(store))
    import_lines(empty, lines)
    add(empty, "run/new")
    with pytest.raises(OtherLedger):
        import_lines(empty, lines)


def broken(lines: list[bytes], how: str) -> list[bytes]:
    match how:
        case "cut":
            return lines[:-1]
        case "torn":
            return [*lines[:20], lines[20][:30]]
        case "changed":
            return [line.replace(b"run/2", b"run/9") for line in lines]
        case "dropped":
            return [*lines[:20], *lines[21:]]
        case "empty":
            return []
        case _:
            return [b'{"format":"other"}\n', *lines[1:]]


@pytest.mark.parametrize("how", ["cut", "torn", "changed", "dropped", "empty", "foreign"])
def test_a_file_that_is_not_whole_is_refused_before_anything_is_stored(
    store: SqliteStore, how: str
) -> None:
    mixed(store)
    with pytest.raises(BadExport):
        check_export(broken(list(exported(store)), how))


def test_a_changed_event_with_a_digest_made_to_fit_is_found_by_its_chain(
    store: SqliteStore, empty: SqliteStore
) -> None:
    add(store, "run/a", number=3)
    lines = list(exported(store))
    event = json.loads(lines[2])
    event["state"] = "forged"
    with pytest.raises(BadExport, match="chain hash"):
        import_lines(empty, [*lines[:2], json.dumps(event).encode() + b"\n", *lines[3:]])


def test_the_command_line_moves_a_ledger_to_another_home(
    cli: Cli, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with store_at(home) as store:
        slugs = told(store)
        newest = store.newest()
    file, again = tmp_path / "ledger.jsonl.gz", tmp_path / "again.jsonl"
    assert cli("ledger", "export", "-o", str(file)).code == 0
    assert cli("ledger", "export", "-o", str(again)).code == 0
    assert gzip.decompress(file.read_bytes()) == again.read_bytes()
    assert cli("ledger", "export", "-o", str(file)).code == 4
    other = tmp_path / "other"
    monkeypatch.setenv("WATCHKEEPER_HOME", str(other))
    assert cli("init", "--human", "dri").code == 0
    done = cli("ledger", "import", str(file), "--json")
    assert (done.code, done.json["events"], done.json["runs"]) == (0, newest, len(slugs))
    with store_at(home) as one, store_at(other) as two:
        assert two.status_rows() == one.status_rows()
    assert cli("verify", "--offline").code == 0
    assert cli("ledger", "import", str(file), "--json").json["known"] == newest
    cut = tmp_path / "cut.jsonl"
    cut.write_bytes(again.read_bytes()[:-100])
    said = cli("ledger", "import", str(cut))
    assert (said.code, "cut short" in said.said) == (4, True)
    unpacked = tmp_path / "not.gz"
    unpacked.write_bytes(again.read_bytes())
    assert cli("ledger", "import", str(unpacked)).code == 4


@ON_FILE
def test_an_export_of_a_broken_ledger_says_that_nothing_takes_it_and_leaves_it_for_whoever_looks(
    cli: Cli, home: Path, tmp_path: Path
) -> None:
    with store_at(home) as store:
        told(store, ["held"])
    with closing(sqlite3.connect(home / "ledger.db")) as connection:
        connection.execute("DROP TRIGGER events_no_update")
        connection.execute("UPDATE events SET state = X'7b7d' WHERE id = 5")
        connection.commit()
    (home / "ledger.db.rest").unlink()
    file = tmp_path / "broken.jsonl"
    done = cli("ledger", "export", "-o", str(file))
    assert done.code == 1
    assert "event 5 of run/held does not follow from the one before it" in done.said
    assert file.exists()
    again = cli("ledger", "export", "-o", str(tmp_path / "again.jsonl"), "--json")
    assert (again.code, again.json["exit"], again.json["events"]) == (1, 1, 23)
    shown = cli("ledger", "export")
    assert (shown.code, "`ledger import` refuses it" in shown.said) == (1, True)
    assert cli("ledger", "replay", "--file", str(file)).code == 4


@ON_FILE
def test_a_backup_is_whole_at_rest_and_can_be_put_back(
    cli: Cli, home: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy.db"
    with open_store(home / "ledger.db") as store:
        told(store)
        before = store.newest()
        assert cli("ledger", "backup", str(copy)).code == 0  # While it is in use.
        assert verify_store(copy).whole_file
        told_after = store.append([Write("run/after", 0, (("t", b"{}"),))])
        assert told_after
        held = cli("ledger", "restore", str(copy))
        assert (held.code, "in use" in held.said) == (3, True)
        assert store.newest() == before + 1
    assert cli("ledger", "catch-up").code == 0
    done = cli("ledger", "restore", str(copy), "--json")
    assert (done.code, done.json["events"]) == (0, before)
    with closing(sqlite3.connect(done.json["kept"])) as old:
        assert old.execute("SELECT max(id) FROM events").fetchone() == (before + 1,)
    assert cli("verify", "--offline").code == 0
    assert cli("ledger", "catch-up").code == 0
    with open_store(home / "ledger.db") as store:
        assert store.newest() == before
    assert cli("ledger", "backup", str(copy)).code == 4  # It exists.


@ON_BOTH
@pytest.mark.parametrize("mask", [0o000, 0o022])
def test_a_backup_is_for_its_owner_alone(
    cli: Cli, tmp_path: Path, mask: int, request: pytest.FixtureRequest
) -> None:
    before = os.umask(mask)
    request.addfinalizer(lambda: os.umask(before))
    copy = tmp_path / "copy"
    assert cli("ledger", "backup", str(copy)).code == 0
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600


@ON_FILE
def test_a_broken_backup_is_not_put_back(cli: Cli, home: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    with open_store(home / "ledger.db") as store:
        told(store)
    assert cli("ledger", "backup", str(copy)).code == 0
    torn = bytearray(copy.read_bytes())
    torn[len(torn) // 2] ^= 0xFF
    copy.write_bytes(bytes(torn))
    before = (home / "ledger.db").read_bytes()
    said = cli("ledger", "restore", str(copy))
    assert (said.code, "broken" in said.said) == (4, True)
    assert (home / "ledger.db").read_bytes() == before


@ON_FILE
def test_a_crash_between_the_steps_of_a_restore_leaves_a_store_that_is_refused_or_whole(
    home: Path, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "copy.db"
    with open_store(home / "ledger.db") as store:
        told(store, ["refused"])
    assert cli("ledger", "backup", str(copy)).code == 0
    with open_store(home / "ledger.db") as store:
        told(store, ["held"])
    whole = Path.replace

    def replace(self: Path, target: Path) -> Path:
        if self.name.endswith(".restored"):
            raise OSError("a crash, as it were")
        return whole(self, target)

    monkeypatch.setattr(Path, "replace", replace)
    assert cli("ledger", "restore", str(copy)).code == 2
    monkeypatch.setattr(Path, "replace", whole)
    with pytest.raises(StoreFailure, match="verify"):
        open_store(home / "ledger.db")
    assert cli("ledger", "restore", str(copy)).code == 0
    assert cli("verify", "--offline").code == 0
