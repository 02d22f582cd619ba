"""Homes without their ledger: which commands make one, and what is said where one was lost."""

import json
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path

import pytest

from bench.commands import WATCHKEEPER, fill
from tests.command_line import Cli, written
from tests.missing import cannot_have
from tests.postgres import PostgresServer
from tests.stores import ON_FILE
from tests.training import Site, tiny_contract
from watchkeeper.adapters.home import create_home
from watchkeeper.adapters.store.sqlite import open_store
from watchkeeper.adapters.views_copy import readable
from watchkeeper.ports.views import ViewsFailure

pytestmark = ON_FILE

COMMANDS = (
    ["status"], ["status", "--json"], ["note", "tiny", "hi"], ["verify"], ["events", "tiny"],
    ["logbook", "tiny"], ["tools", "subscribe", "--no-follow"], ["ledger", "stats"],
    ["ledger", "export", "-o", "-"], ["watch"],
)  # fmt: skip


@pytest.fixture
def used(cli: Cli, home: Path, site: Site, tmp_path: Path) -> Path:
    """A home with one run, and with views."""
    assert cli("launch", written(tmp_path, tiny_contract(site, "tiny"))).code == 3
    assert cli("ledger", "catch-up").code == 0
    return home


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_only_init_makes_a_ledger(cli_without_home: Cli, home: Path, words: list[str]) -> None:
    create_home(home)
    told = cli_without_home(*words)
    assert told.code == 2
    assert f"{home / 'ledger.db'} is not there: this home has no ledger" in told.said
    assert "if its ledger is on a server, give --store URL" in told.said
    assert "watchkeeper init" not in told.said
    assert not (home / "ledger.db").exists()


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_ledger_that_was_lost_is_told_with_how_it_comes_back(
    used: Path, cli: Cli, words: list[str]
) -> None:
    (used / "ledger.db").unlink()
    told = cli(*words)
    assert told.code == 2
    assert "is gone: this home has no ledger, only deployment.json, views.db" in told.said
    assert f"`watchkeeper ledger restore FILE --home {used}`" in told.said
    assert "watchkeeper init" not in told.said
    assert not (used / "ledger.db").exists()


def test_doctor_tells_of_the_lost_ledger_and_the_advice_of_all_holds(
    used: Path, cli: Cli, tmp_path: Path
) -> None:
    copy = tmp_path / "copy.db"
    assert cli("ledger", "backup", str(copy)).code == 0
    (used / "ledger.db").unlink()
    checks = {row["check"]: row for row in cli("doctor", "--json").json["checks"]}
    assert not checks["ledger"]["ok"]
    assert "is gone: this home has no ledger" in checks["ledger"]["says"]
    assert cli("ledger", "restore", str(copy)).code == 0
    assert "tiny" in cli("status", "--all").out


def test_init_says_that_it_found_the_remains_of_a_home(used: Path, cli: Cli) -> None:
    (used / "ledger.db").unlink()
    refused = cli("init", "--human", "dri")
    assert refused.code == 3
    assert (
        "holds the remains of a home whose ledger, ledger.db, is missing: views.db" in refused.err
    )
    assert "ledger restore FILE" in refused.err
    assert not (used / "ledger.db").exists()


def test_remains_without_their_marker_are_no_new_home(used: Path, cli: Cli) -> None:
    (used / "ledger.db").unlink()
    (used / "deployment.json").unlink()
    for words in (["status"], ["note", "tiny", "hi"], ["init"]):
        told = cli(*words)
        assert told.code in (2, 3, 4)
        assert "its deployment.json first, then `watchkeeper ledger restore FILE" in told.said
    assert not (used / "deployment.json").exists()


def test_a_folder_of_others_is_no_remains(cli_without_home: Cli, home: Path) -> None:
    (home / "runs").mkdir(parents=True)
    assert "run `watchkeeper init" in cli_without_home("status").said
    assert cli_without_home("init").code == 0


@pytest.mark.postgres
def test_init_keeps_the_server_that_the_variable_names_for_the_next_shell(
    cli_without_home: Cli, home: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WATCHKEEPER_STORE", postgres_url)
    made = cli_without_home("init", "--human", "dri")
    assert made.code == 0
    monkeypatch.delenv("WATCHKEEPER_STORE")
    assert json.loads((home / "deployment.json").read_text())["store"] == postgres_url
    assert cli_without_home("status").code == 0
    assert cli_without_home("note", "tiny", "hi").code == 3
    assert not (home / "ledger.db").exists()


@pytest.mark.postgres
def test_a_password_in_the_variable_is_not_kept(
    cli_without_home: Cli, home: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WATCHKEEPER_STORE", postgres_url.replace("@", ":s3cr3t-pw@", 1))
    assert cli_without_home("init").code == 0
    assert json.loads((home / "deployment.json").read_text())["store"] == postgres_url


@pytest.mark.postgres
def test_init_takes_a_schema_for_each_home_by_the_option(
    cli_without_home: Cli, home: Path, postgres_server: PostgresServer
) -> None:
    before = postgres_server.schemas()
    made = cli_without_home("--store", f"{postgres_server.url}#t_{{home}}", "init")
    assert made.code == 0
    assert json.loads((home / "deployment.json").read_text())["store"].endswith("#t_{home}")
    assert cli_without_home("status").code == 0
    [schema] = postgres_server.schemas() - before
    assert schema.startswith("t_")
    postgres_server.drop({schema})


@pytest.mark.postgres
@pytest.mark.git
@pytest.mark.long
def test_a_demo_under_the_variable_is_found_by_the_next_shell(
    cli_without_home: Cli, tmp_path: Path, postgres_server: PostgresServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    before = postgres_server.schemas()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WATCHKEEPER_STORE", f"{postgres_server.url}#demo_{{home}}")
    words = ("demo", "--orchestrator", "local", "--tracker", "jsonl", "--fault", "none")
    # A relative folder: the jobs that it starts have another working directory.
    played = cli_without_home(*words, "--home", "there")
    assert played.code == 0, played.said
    monkeypatch.delenv("WATCHKEEPER_STORE")
    assert "demo-lm" in cli_without_home("status", "--all", "--home", "there").out
    assert not (tmp_path / "there" / "ledger.db").exists()
    shutil.rmtree(tmp_path / "there")
    postgres_server.drop(postgres_server.schemas() - before)


def test_an_export_into_no_folder_says_what_a_backup_says(
    used: Path, cli: Cli, tmp_path: Path
) -> None:
    said = [
        cli("ledger", *words, str(tmp_path / "no" / "x"))
        for words in (["export", "-o"], ["backup"])
    ]
    assert [one.code for one in said] == [4, 4]
    assert said[0].err == said[1].err
    assert "is not a folder: create it, or choose another file" in said[0].err


HOLDS = """
import sys, time
from pathlib import Path
from watchkeeper.adapters.home import open_home, watch_lock
with watch_lock(open_home(Path(sys.argv[1])), "watch"):
    print("held", flush=True)
    time.sleep(60)
"""


def test_status_says_at_once_that_a_watch_was_killed(cli: Cli, home: Path) -> None:
    # Runs that somebody holds and that are not late, as a killed watch leaves them.
    fill(home, 12)
    words = [sys.executable, "-c", HOLDS, str(home)]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as watch:
        assert watch.stdout is not None
        assert watch.stdout.readline() == b"held\n"
        assert "not watched" not in cli("status").out
        assert cli("status", "--json").json["watch_wrong"] == []
        watch.kill()
    needs = cli("status").out.partition("NEEDS YOU\n")[2]
    assert needs.lstrip().startswith("3 runs are not watched: run-00003,")
    assert len(cli("status", "--json").json["watch_wrong"]) == 1


def _read_only(home: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    """Run a command where the home is a read-only mount, which holds for root as well."""
    mount = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@"'
    command = [sys.executable, "-c", WATCHKEEPER, *words, "--home", str(home)]
    return subprocess.run(
        ["unshare", "-m", "sh", "-c", mount, str(home), *command],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def _can_mount(folder: Path) -> bool:
    mount = ["unshare", "-m", "mount", "--bind", str(folder), str(folder)]
    return bool(shutil.which("unshare")) and subprocess.run(mount, check=False).returncode == 0


@pytest.fixture
def mounted(used: Path, request: pytest.FixtureRequest) -> Path:
    """The same home, which may be mounted read-only."""
    if not _can_mount(used):
        cannot_have(request.config, "mount", "no right to mount a folder read-only")
    return used


LIES = "read without locks, because its mount is read-only"
READS = (
    ["status"], ["status", "tiny"], ["status", "--json"], ["why", "tiny"], ["events", "tiny"],
    ["logbook", "tiny"], ["checkpoints", "tiny"], ["tools", "subscribe", "--no-follow"],
    ["ledger", "export"], ["ledger", "replay", "--all"], ["ledger", "stats"], ["ledger", "weeks"],
    ["ledger", "projections"],
)  # fmt: skip


@pytest.mark.parametrize("words", READS, ids=" ".join)
@pytest.mark.servers
def test_a_ledger_at_rest_on_a_read_only_mount_is_read_as_it_lies(
    mounted: Path, cli: Cli, words: list[str]
) -> None:
    told = _read_only(mounted, *words)
    assert told.returncode == 0, told.stdout + told.stderr
    assert LIES in told.stderr
    here = cli(*words)
    assert LIES not in here.said
    # What `status` says has ages in it.
    assert told.stdout == here.out or (words[0] == "status" and "tiny" in told.stdout)


def test_a_ledger_on_a_read_only_mount_is_verified_with_its_views(mounted: Path, cli: Cli) -> None:
    cli("ledger", "catch-up")
    told = _read_only(mounted, "verify", "--offline", "--json")
    found = json.loads(told.stdout)
    assert (found["runs"], found["problems"], found["unchecked"]) == (1, [], [])
    assert LIES in found["notes"][0] + found["notes"][-1]
    assert told.returncode == 0
    with closing(sqlite3.connect(mounted / "views.db")) as views, views:
        views.execute("""UPDATE rows SET row = '{"events":7,"bytes":7}' WHERE key LIKE 'topic %'""")
    told = _read_only(mounted, "verify", "--offline")
    assert (told.returncode, "view sizes@" in told.stdout) == (1, True), told.stdout


def test_views_that_a_read_only_mount_lacks_are_counted_for_whoever_asks(
    mounted: Path, cli: Cli
) -> None:
    whole = cli("ledger", "stats", "--json").json
    for left in mounted.glob("views.db*"):
        left.unlink()
    told = _read_only(mounted, "ledger", "stats", "--json")
    assert (told.returncode, json.loads(told.stdout)) == (0, whole), told.stderr
    assert not list(mounted.glob("views.db*"))
    assert _read_only(mounted, "verify", "--offline").returncode == 0


def test_views_that_cannot_be_copied_are_told_with_what_to_do(
    used: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    said = r"could not be copied.*gone.*Set TMPDIR"
    with pytest.raises(ViewsFailure, match=said), readable(used, at_rest=True):
        pass


@pytest.mark.parametrize("words", [["note", "tiny", "hi"], ["watch", "--until-idle"]])
def test_nothing_is_recorded_on_a_read_only_mount(
    mounted: Path, cli: Cli, words: list[str]
) -> None:
    before = cli("events", "tiny").out
    told = _read_only(mounted, *words)
    assert told.returncode == 2, told.stdout + told.stderr
    assert "This folder can't be written to" in told.stdout + told.stderr
    assert cli("events", "tiny").out == before


def test_a_ledger_that_somebody_else_writes_is_not_read_as_it_lies(mounted: Path) -> None:
    with open_store(mounted / "ledger.db"):
        told = _read_only(mounted, "why", "tiny")
    assert (told.returncode, LIES in told.stderr) == (2, False)
    assert _read_only(mounted, "why", "tiny").returncode == 0


def test_a_byte_that_was_changed_on_a_read_only_mount_is_not_read_over(mounted: Path) -> None:
    path = mounted / "ledger.db"
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b'"tiny"', b'"tinY"'))
    told = _read_only(mounted, "why", "tiny")
    assert (told.returncode, LIES in told.stderr) == (2, False)
    assert _read_only(mounted, "verify", "--offline").returncode == 1


@pytest.mark.parametrize("words", [["doctor"], ["verify"], ["status"], ["why", "tiny"]])
def test_a_home_that_cannot_be_written_is_not_called_damaged(
    mounted: Path, words: list[str]
) -> None:
    used = mounted
    # As a home in use was copied: nothing says that what lies there is all.
    (used / "ledger.db.rest").unlink()
    told = _read_only(used, *words)
    said = told.stdout + told.stderr
    assert told.returncode in (1, 2), said
    assert "This folder can't be written to; the ledger may be intact." in said
    assert "restore" not in said
    assert "watchkeeper verify" not in said
