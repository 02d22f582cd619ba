"""Choosing where the ledger is: by `--store`, by WATCHKEEPER_STORE, or by what `init` was given."""

import importlib.util
import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from bench.commands import fill
from tests.command_line import Cli, written
from tests.postgres import PostgresServer
from tests.session import data_of, phase_of, requested, runs_of, watch_until
from tests.sockets import free_port
from tests.stores import ON_FILE, Place, tamper
from tests.training import Site, tiny_contract
from watchkeeper.adapters.cli.common import Session, holder_of, open_session
from watchkeeper.adapters.home import create_home
from watchkeeper.adapters.store.postgres_address import parse_address
from watchkeeper.domain.run.watch import WatchTaken
from watchkeeper.ports.event_store import StoreFailure
from watchkeeper.services.watch.loop import Watcher

pytestmark = [pytest.mark.postgres, ON_FILE]
"""The tests choose by themselves; nothing is chosen for them."""


@pytest.fixture
def contract(tmp_path: Path, site: Site) -> str:
    return written(tmp_path, tiny_contract(site, "tiny"))


def test_init_keeps_the_server_and_every_command_uses_it(
    cli_without_home: Cli, home: Path, postgres_url: str, contract: str
) -> None:
    made = cli_without_home("--store", postgres_url, "init", "--human", "dri")
    assert made.code == 0
    assert f"ledger {postgres_url}, 0 runs" in made.out
    assert json.loads((home / "deployment.json").read_text())["store"] == postgres_url
    cli = cli_without_home
    assert cli("launch", contract).code == 3
    assert not (home / "ledger.db").exists()
    assert "tiny" in cli("status", "--all").out
    assert cli("status", "tiny", "--json").json["run"] == "tiny"
    assert "run.drafted" in cli("events", "tiny").out
    assert cli("tools", "subscribe", "--no-follow").out.count("\n") >= 1
    told = cli("verify", "--offline", "--json")
    assert (told.code, told.json["intact"], told.json["runs"]) == (0, True, 1)
    assert any("pg_amcheck" in note for note in told.json["notes"])
    checks = {row["check"]: row for row in cli("doctor", "--json").json["checks"]}
    assert checks["server"]["ok"]
    assert checks["server"]["says"].startswith("PostgreSQL ")
    assert checks["ledger"]["says"] == f"{postgres_url}, 1 run"


def test_the_option_wins_over_the_variable_and_that_over_what_the_home_keeps(
    cli: Cli, home: Path, postgres_url: str, contract: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cli("launch", contract).code == 3
    assert "tiny" in cli("status", "--all").out
    monkeypatch.setenv("WATCHKEEPER_STORE", postgres_url)
    assert "no ledger. Nothing was stored" in cli("status").err
    assert "tiny" in cli("--store", "sqlite", "status", "--all").out
    assert cli("--store", "sqlite", "verify", "--offline").code == 0


def test_each_home_has_a_schema_of_its_own_where_the_url_says_so(
    cli_without_home: Cli, postgres_server: PostgresServer, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, contract: str,
) -> None:  # fmt: skip
    monkeypatch.setenv("WATCHKEEPER_STORE", f"{postgres_server.url}#t_{{home}}")
    cli = cli_without_home
    for name in ("one", "two"):
        assert cli("init", "--home", str(tmp_path / name), "--human", "dri").code == 0
    assert cli("launch", contract, "--home", str(tmp_path / "one")).code == 3
    assert "tiny" in cli("status", "--all", "--home", str(tmp_path / "one")).out
    assert "tiny" not in cli("status", "--all", "--home", str(tmp_path / "two")).out
    postgres_server.drop(postgres_server.schemas())


def test_a_schema_of_a_home_that_is_lost_is_not_made_anew(
    postgres_server: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WATCHKEEPER_STORE", f"{postgres_server.url}#t_{{home}}")
    create_home(tmp_path / "home")
    with open_session(tmp_path / "home") as session:
        assert session.ledger.slugs() == []
    postgres_server.drop(postgres_server.schemas())
    with (
        pytest.raises(StoreFailure, match=r"no ledger\. Nothing was stored.*restore a backup"),
        open_session(tmp_path / "home"),
    ):
        pass


@pytest.mark.parametrize("place", ["user", "query"])
def test_a_password_on_the_command_line_is_refused_and_not_repeated(
    cli: Cli, home: Path, place: str
) -> None:
    url = {
        "user": "postgresql://me:s3cr3t-pw@127.0.0.1:1/db",
        "query": "postgresql://me@127.0.0.1:1/db?password=s3cr3t-pw",
    }[place]
    refused = cli("--store", url, "init")
    assert refused.code == 4
    assert "set PGPASSWORD or a line in ~/.pgpass" in refused.err
    assert "s3cr3t-pw" not in refused.said
    assert "s3cr3t-pw" not in (home / "deployment.json").read_text()


def test_a_password_in_the_variable_is_used_and_never_shown(
    cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WATCHKEEPER_STORE", f"postgresql://me:s3cr3t-pw@127.0.0.1:{free_port()}/db")
    for words in (
        ["status"],
        ["doctor"],
        ["verify"],
        ["events", "x"],
        ["init"],
        ["status", "--json"],
    ):
        told = cli(*words)
        assert told.code in (1, 2), words
        assert "postgresql://me@127.0.0.1" in told.said
        assert "s3cr3t-pw" not in told.said
    assert "s3cr3t-pw" not in (home / "deployment.json").read_text()


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("mysql://db/x", "not a store"),
        ("ledger.db", "not a store"),
        ("postgresql://db/x#Team-1", "the schema 'Team-1' can't be used"),
        ("postgresql://db/x#pg_team", "the schema 'pg_team' can't be used"),
    ],
)
def test_a_name_that_is_no_store_is_bad_input(cli: Cli, url: str, says: str) -> None:
    refused = cli("--store", url, "status")
    assert refused.code == 4
    assert says in refused.err


@pytest.mark.parametrize(
    ("url", "schema", "kept"),
    [
        ("postgresql://a@h/d", "watchkeeper", "postgresql://a@h/d"),
        ("postgresql://a@h/d#team", "team", "postgresql://a@h/d"),
        ("postgresql://h/d?options=-csearch_path%3Dx", "x", "postgresql://h/d"),
        (
            "postgres://h1:1,h2:2/d?options=-c%20search_path%3Dx%20-c%20geqo%3Doff&sslmode=require",
            "x",
            "postgres://h1:1,h2:2/d?options=-c%20geqo%3Doff&sslmode=require",
        ),
    ],
)
def test_the_schema_is_named_in_the_fragment_or_as_the_search_path(
    url: str, schema: str, kept: str
) -> None:
    address = parse_address(url)
    assert (address.schema, address.url) == (schema, kept)


def test_a_home_with_events_does_not_change_over_to_a_ledger_without_them(
    cli: Cli, home: Path, contract: str, postgres_url: str
) -> None:
    assert cli("launch", contract).code == 3
    refused = cli("--store", postgres_url, "init")
    assert refused.code == 3
    assert "Nothing was changed. Move them first: `watchkeeper ledger export`" in refused.err
    assert "store" not in json.loads((home / "deployment.json").read_text())
    assert "tiny" in cli("status", "--all").out


def test_a_server_that_is_gone_is_told_by_every_command(
    cli: Cli, home: Path, postgres_to_stop: PostgresServer, contract: str
) -> None:
    url = f"{postgres_to_stop.url}#team"
    assert cli("--store", url, "init").code == 0
    assert cli("launch", contract).code == 3
    postgres_to_stop.stop()
    for words in (["status"], ["verify"], ["events", "tiny"], ["note", "tiny", "hello"]):
        told = cli(*words)
        assert told.code == 2, words
        assert "Check that the server runs" in told.err
    told = cli("doctor")
    assert told.code == 1
    assert "FAIL ledger" in told.out
    assert cli("status", "--json").json["exit"] == 2
    postgres_to_stop.start()
    assert cli("note", "tiny", "hello").code == 0


def test_verify_says_broken_of_a_changed_row(cli: Cli, contract: str, postgres_url: str) -> None:
    assert cli("--store", postgres_url, "init").code == 0
    assert cli("launch", contract).code == 3
    tamper(Place(postgres_url), "UPDATE events SET state = state || ' '::bytea WHERE id = 1")
    told = cli("verify", "--offline")
    assert told.code == 1
    assert "run/tiny, version 1: the stored hash" in told.out


def test_doctor_says_when_the_server_does_not_keep_what_it_stored(
    cli: Cli, postgres_to_stop: PostgresServer
) -> None:
    assert cli("--store", f"{postgres_to_stop.url}#team", "init").code == 0
    postgres_to_stop.execute("ALTER SYSTEM SET fsync = off")
    postgres_to_stop.restart()
    told = cli("doctor")
    assert told.code == 1
    assert "fsync off: a crash of its machine loses events" in told.out


def test_without_the_client_it_is_said_how_to_install_it(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A stand-in: the tests' own machine has the client.
    found = importlib.util.find_spec

    def without(name: str) -> object:
        return None if name == "psycopg" else found(name)

    monkeypatch.setattr(importlib.util, "find_spec", without)
    for words in (["events", "x"], ["status"], ["verify"]):
        told = cli("--store", "postgresql://h/d", *words)
        assert told.code == 2
        assert "pip install 'watchkeeper[postgres]'" in told.err


def test_the_tab_key_offers_the_runs_of_a_server(
    tmp_path: Path,
    postgres_url: str,
    monkeypatch: pytest.MonkeyPatch,
    cli: Cli,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert cli("--store", postgres_url, "init").code == 0
    monkeypatch.setenv("WATCHKEEPER_STORE", postgres_url)
    fill(tmp_path / "home", 12)
    monkeypatch.setenv("_WATCHKEEPER_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", "watchkeeper events run-0000")
    monkeypatch.setenv("COMP_CWORD", "2")
    with pytest.raises(SystemExit):
        cli()
    assert capsys.readouterr().out.count("run-0000") == 10


@contextmanager
def _watching(session: Session) -> Generator[None, None, None]:
    stop = threading.Event()
    watcher = Watcher(session.services, holder_of(session.home, "watchkeeper"), session.home)
    thread = threading.Thread(target=watcher.run, args=(stop,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(timeout=40)


@pytest.mark.git
def test_two_homes_on_one_ledger_leave_each_run_to_who_holds_its_watch(
    tmp_path: Path, site: Site, postgres_url: str, monkeypatch: pytest.MonkeyPatch, cli: Cli
) -> None:
    assert cli("--store", postgres_url, "init").code == 0
    monkeypatch.setenv("WATCHKEEPER_STORE", postgres_url)
    create_home(tmp_path / "other")
    with open_session(tmp_path / "home") as one, open_session(tmp_path / "other") as two:
        for number in range(3):
            made = tiny_contract(site, f"run-{number}")
            requested(one, made)

        def over(runs: dict[str, Any]) -> bool:
            return len(runs) == 3 and all(
                type(run.phase).__name__ in ("Sealed", "Failed") for run in runs.values()
            )

        with _watching(two):
            watch_until(one, over)
        for number in range(3):
            slug = f"run-{number}"
            assert phase_of(two, slug) == "sealed"
            # One submission and one holder, though two watches saw every event.
            assert [i.plan.instance for i in runs_of(two)[slug].instances] == ["i1"]
            holders = {taken.holder.home for taken in data_of(two, slug, WatchTaken)}
            assert len(holders) == 1, holders
        assert one.ledger.store.newest() == two.ledger.store.newest()
    place = Place(postgres_url)
    assert place.verify().problems == ()
