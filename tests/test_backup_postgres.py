"""`ledger backup` and `restore` where the ledger is on a server: by pg_dump and pg_restore."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.command_line import Cli
from tests.histories import told
from tests.postgres import PostgresServer
from tests.stores import Place, store_at, tamper
from watchkeeper.adapters.store.postgres_address import parse_address
from watchkeeper.event_store import Write

pytestmark = [
    pytest.mark.postgres,
    pytest.mark.parametrize("chosen_store", [pytest.param("postgresql")], indirect=True),
]


@pytest.fixture
def on_server(
    cli_without_home: Cli, postgres_url: str, monkeypatch: pytest.MonkeyPatch, chosen_store: str
) -> Cli:
    """A home whose ledger is on the server, with two runs in it."""
    monkeypatch.delenv("WATCHKEEPER_STORE")
    assert cli_without_home("--store", postgres_url, "init", "--human", "dri").code == 0
    with Place(postgres_url).ledger() as opened:
        told(opened.store, ["held", "crash_loop"])
    return cli_without_home


def test_a_backup_is_made_in_use_and_can_be_put_back(
    on_server: Cli, home: Path, tmp_path: Path, postgres_server: PostgresServer, postgres_url: str
) -> None:
    cli, copy = on_server, tmp_path / "ledger.dump"
    with store_at(home) as store:
        before = store.read_all(limit=10**6)
        made = cli("ledger", "backup", str(copy), "--json")
        assert (made.code, made.json["events"]) == (0, len(before))
        store.append([Write("run/after", 0, (("t", b"{}"),))], key="after")
        held = cli("ledger", "restore", str(copy))
        assert (held.code, "is in use (backend " in held.said) == (3, True), held.said
        assert store.newest() == len(before) + 1
    assert cli("ledger", "catch-up").code == 0
    assert cli("ledger", "backup", str(copy)).code == 4  # It exists.
    done = cli("ledger", "restore", str(copy), "--json")
    assert (done.code, done.json["events"]) == (0, len(before)), done.said
    kept = done.json["kept"].removeprefix("the schema ")
    with Place(f"{postgres_server.url}#{kept}").ledger() as old:
        assert old.store.newest() == len(before) + 1
    with store_at(home) as store:
        assert store.read_all(limit=10**6) == before
        assert store.answer("after") is None
        store.append([Write("run/after", 0, (("t", b"{}"),))])
    Place(postgres_url).assert_intact(len(before) + 1)
    assert cli("ledger", "catch-up").code == 0
    assert list(tmp_path.glob("*.new")) == []
    postgres_server.drop({kept})


def test_a_restore_that_was_cut_short_is_told_and_goes_on(
    on_server: Cli, tmp_path: Path, postgres_server: PostgresServer, postgres_url: str
) -> None:
    cli, copy = on_server, tmp_path / "ledger.dump"
    assert cli("ledger", "backup", str(copy)).code == 0
    # As a crash between the two steps leaves it: the old ledger is renamed, and none is there.
    schema = parse_address(postgres_url).schema
    postgres_server.execute(f"ALTER SCHEMA {schema} RENAME TO {schema}_gone")
    assert "restore a backup" in cli("status").said
    done = cli("ledger", "restore", str(copy), "--json")
    assert (done.code, done.json["kept"]) == (0, None)
    assert cli("verify", "--offline").code == 0
    postgres_server.drop({f"{schema}_gone"})


def pausing(place: Path, seconds: float, then: str = "") -> None:
    """A `pg_restore` that takes a while before it writes, and then may fail."""
    script = place / "pg_restore"
    real = shutil.which("pg_restore")
    wait = f'case "$*" in *--single-transaction*) sleep {seconds}; {then} ;; esac'
    script.write_text(f'#!/bin/sh\n{wait}\nexec {real} "$@"\n')
    script.chmod(0o755)


def test_where_the_old_ledger_cannot_be_put_back_it_is_said_where_it_is(
    on_server: Cli,
    tmp_path: Path,
    postgres_server: PostgresServer,
    postgres_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cli, copy = on_server, tmp_path / "ledger.dump"
    assert cli("ledger", "backup", str(copy)).code == 0
    # As where the server restarts in the middle of it: the connection of the restore is lost.
    ours = "pg_stat_activity where application_name = 'watchkeeper'"
    cut = f"select pg_terminate_backend(pid) from {ours}"
    pausing(tmp_path, 0, f'psql -q -d {postgres_server.url} -c "{cut}" >/dev/null; exit 1')
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    done = cli("ledger", "restore", str(copy))
    schema = parse_address(postgres_url).schema
    [back] = re.findall(rf"`(ALTER SCHEMA {schema}_before_\d+_\d+ RENAME TO {schema})`", done.said)
    assert done.code == 2, done.said
    assert "Nothing was restored" not in done.said
    postgres_server.execute(back)
    assert cli("verify", "--offline").code == 0


def test_a_long_restore_keeps_the_ledger_to_itself_on_a_server_that_ends_idle_sessions(
    on_server: Cli, tmp_path: Path, postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli, copy = on_server, tmp_path / "ledger.dump"
    assert cli("ledger", "backup", str(copy)).code == 0
    pausing(tmp_path, 1.5, "exit 1")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    postgres_server.execute("ALTER DATABASE postgres SET idle_session_timeout = '500ms'")
    try:
        done = cli("ledger", "restore", str(copy))
    finally:
        postgres_server.execute("ALTER DATABASE postgres RESET idle_session_timeout")
    assert "could not be put back" not in done.said
    assert cli("verify", "--offline").code == 0


def test_what_is_no_whole_copy_of_this_ledger_is_refused_and_nothing_is_changed(
    on_server: Cli, home: Path, tmp_path: Path, postgres_server: PostgresServer
) -> None:
    cli, copy = on_server, tmp_path / "ledger.dump"
    assert cli("ledger", "backup", str(copy)).code == 0
    with store_at(home) as store:
        before = store.read_all(limit=10**6)
    torn, other, text = tmp_path / "torn", tmp_path / "other", tmp_path / "text"
    whole = copy.read_bytes()
    torn.write_bytes(whole[: len(whole) * 3 // 4])
    text.write_text("{}")
    postgres_server.execute("CREATE SCHEMA t_another")
    subprocess.run(
        ["pg_dump", "-Fc", "-n", "t_another", "-f", other, "-d", postgres_server.url],
        check=True, timeout=60,
    )  # fmt: skip
    for path, code, says in (
        (torn, 3, "the archive is damaged"),
        (other, 3, "t_another"),
        (text, 3, "no archive"),
        (tmp_path / "missing", 3, "cannot be read"),
    ):
        said = cli("ledger", "restore", str(path))
        assert (said.code, says in said.said) == (code, True), said.said
    wrong = cli("--store", "sqlite", "ledger", "restore", str(copy))
    assert (wrong.code, "ledger on PostgreSQL" in wrong.said) == (3, True)
    with store_at(home) as store:
        assert store.read_all(limit=10**6) == before
    postgres_server.drop({"t_another"})


def test_a_broken_ledger_is_not_copied_and_a_broken_copy_goes_again(
    on_server: Cli, home: Path, tmp_path: Path, postgres_url: str
) -> None:
    cli, copy, by_hand = on_server, tmp_path / "ledger.dump", tmp_path / "hand.dump"
    address = parse_address(postgres_url)
    tamper(Place(postgres_url), "UPDATE events SET state = 'x' WHERE id = 3")
    said = cli("ledger", "backup", str(copy))
    assert (said.code, "is broken, so no copy was kept" in said.said) == (4, True), said.said
    assert not copy.exists()
    subprocess.run(
        ["pg_dump", "-Fc", "-n", address.schema, "-f", by_hand, "-d", address.url],
        check=True, timeout=60,
    )  # fmt: skip
    tamper(Place(postgres_url), "DELETE FROM keys")
    put = cli("ledger", "restore", str(by_hand))
    assert (put.code, "is broken, nothing was changed" in put.said) == (3, True), put.said
    with store_at(home) as store:
        assert list(store.key_rows()) == []  # What was there is back.


def test_without_the_client_programs_it_is_said_what_to_do(
    on_server: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    said = on_server("ledger", "backup", str(tmp_path / "copy"))
    assert said.code == 2
    assert "pg_dump was not found" in said.said
    assert "ledger export" in said.said
