"""A ledger that another process keeps locked is waited for, and nothing is done twice."""

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Generator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import Cli, launch, written
from tests.session import LIMIT, data_of, requested, watch_until
from tests.stores import ON_BOTH, ON_FILE
from tests.test_watch import Faulty
from tests.training import Site, tiny_contract
from watchkeeper import clock
from watchkeeper.adapters.cli import locking
from watchkeeper.adapters.cli import status as cli_status
from watchkeeper.adapters.cli.common import Session
from watchkeeper.adapters.home import open_home, watch_lock
from watchkeeper.adapters.ledger_choice import store_of_home
from watchkeeper.adapters.store.postgres_address import parse_address
from watchkeeper.adapters.store.postgres_schema import marks_of
from watchkeeper.adapters.store.verify import verify_store
from watchkeeper.domain.run.launch import InstanceLaunched, LaunchRequested
from watchkeeper.domain.run.run import Run
from watchkeeper.domain.run.watch import CheckRecorded
from watchkeeper.domain.values.basic import JobSpec
from watchkeeper.domain.values.contract.contract import Contract

pytestmark = [pytest.mark.git, pytest.mark.timeout(200)]

# As a backup does that copies the file by hand, or a shell that was left open.
HOLD = """
import sqlite3, sys
held = sqlite3.connect(sys.argv[1], isolation_level=None)
held.execute("PRAGMA busy_timeout = 30000")
held.execute("BEGIN EXCLUSIVE")
print("held", flush=True)
sys.stdin.read()
"""

HOLD_ON_SERVER = """
import psycopg, sys
held = psycopg.connect(sys.argv[1], autocommit=True)
held.execute("SELECT pg_advisory_lock(%s)", (int(sys.argv[2]),))
print("held", flush=True)
sys.stdin.read()
"""

WATCHKEEPER = Path(sys.executable).with_name("watchkeeper")


class Holder:
    """Another process that keeps a home's ledger locked until it is told to let go."""

    def __init__(self, home: Path) -> None:
        url = store_of_home(home, None, os.environ)
        script = [HOLD, str(home / "ledger.db")]
        if url:
            address = parse_address(url)
            script = [HOLD_ON_SERVER, address.url, str(marks_of(address.schema).append_lock)]
        self._process = subprocess.Popen(
            [sys.executable, "-c", *script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline().strip() == "held"

    def let_go(self) -> None:
        self._process.communicate(timeout=60)


@contextmanager
def holders() -> Generator[list[Holder], None, None]:
    found: list[Holder] = []
    try:
        yield found
    finally:
        for holder in found:
            holder.let_go()


def doctor(home: Path) -> tuple[int, dict[str, Any]]:
    done = subprocess.run(
        [str(WATCHKEEPER), "doctor", "--home", str(home), "--json"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    checks = {one["check"]: one for one in json.loads(done.stdout)["checks"]}
    return done.returncode, checks["ledger"]


@ON_BOTH
@pytest.mark.servers
def test_a_job_that_was_submitted_as_the_ledger_was_locked_is_not_submitted_again(
    session: Session, site: Site, caplog: pytest.LogCaptureFixture, chosen_store: str
) -> None:
    contract = tiny_contract(site, "held", steps=100_000)
    requested(session, contract)
    real = session.adapters.orchestrator(contract)
    seen: list[tuple[int, dict[str, Any]]] = []

    with holders() as held:

        def submit(job: JobSpec) -> None:
            real.submit(job)
            # The job is there; that it is cannot be recorded.
            held.append(Holder(session.home.path))

        faulty = Faulty(real, submit=submit)

        def orchestrator(of: Contract) -> Any:
            del of
            return faulty

        def said(words: str) -> bool:
            return words in caplog.text

        def goes_on(runs: dict[str, Run]) -> bool:
            del runs
            if said("the ledger is away") and not seen:
                seen.append(doctor(session.home.path))
                assert data_of(session, "held", InstanceLaunched) == []
                held[0].let_go()
            return said("the ledger is back") and len(data_of(session, "held", CheckRecorded)) > 1

        services = replace(
            session.services, outside=Faulty(session.adapters, orchestrator=orchestrator)
        )
        watch_until(session, goes_on, services=services, limit=LIMIT * 2)
        assert len(held) == 1, "submitted once"
    assert len(list(session.home.jobs.glob("held-*"))) == 1
    assert len(data_of(session, "held", LaunchRequested)) == 1
    assert len(data_of(session, "held", InstanceLaunched)) == 1
    looked = [one.observation for one in data_of(session, "held", CheckRecorded)]
    assert len(looked) == len(set(looked))
    [(code, told)] = seen
    assert (code, told["ok"]) == (1, False)
    locked = {"sqlite": "database is locked", "postgresql": "lock timeout"}[chosen_store]
    assert locked in told["says"]
    assert "Another process holds it" in told["says"]


@ON_FILE
def test_a_file_that_cannot_even_be_read_is_called_locked_and_not_damaged(tmp_path: Path) -> None:
    home = tmp_path / "home"
    subprocess.run(
        [str(WATCHKEEPER), "init", "--home", str(home), "--human", "dri"], check=True, timeout=60
    )
    with closing(sqlite3.connect(home / "ledger.db", isolation_level=None)) as held:
        # Without shared memory nobody else may read, either.
        held.execute("PRAGMA locking_mode = EXCLUSIVE")
        held.execute("BEGIN EXCLUSIVE")
        code, told = doctor(home)
    assert (code, told["ok"]) == (1, False)
    assert "Another process holds it" in told["says"]
    assert "backup" not in told["says"]
    assert verify_store(home / "ledger.db").problems == ()


@ON_FILE
def test_status_of_a_file_that_cannot_be_read_says_who_has_it_and_shows_no_empty_fleet(
    cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cli_status, "_BUSY_S", 0.2)
    with closing(sqlite3.connect(home / "ledger.db", isolation_level=None)) as held:
        held.execute("PRAGMA locking_mode = EXCLUSIVE")
        held.execute("BEGIN EXCLUSIVE")
        for words in (["status"], ["status", "--all"], ["status", "a-run"]):
            told = cli(*words)
            assert (told.code, told.out) == (2, "")
            assert "database is locked" in told.err
            assert "Another process holds it: wait for it or stop it" in told.err
        told = cli("status", "--json")
    assert (told.code, told.json["exit"]) == (2, 2)
    assert "Another process holds it" in told.json["error"]
    assert "runs" not in told.json


@ON_BOTH
def test_status_says_that_the_ledger_is_locked_where_a_watch_runs_and_checks_are_late(
    cli: Cli, home: Path, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    launch(cli, written(home.parent, tiny_contract(site, "late", steps=100_000)), "late")
    # What the command then waits for is the lock alone.
    monkeypatch.setattr(locking, "_LIMIT", timedelta(seconds=1))

    def told() -> tuple[str, list[str]]:
        return cli("status").out, cli("status", "--json").json["ledger_wrong"]

    later = clock.now() + timedelta(hours=2)
    monkeypatch.setattr(clock, "now", lambda: later)
    with holders() as held:
        said, wrong = told()
        assert "nobody watches it" in said
        assert ("ledger:" in said, wrong) == (False, [])
        with watch_lock(open_home(home), "watch"):
            assert ("ledger:" in told()[0], told()[1]) == (False, [])
            held.append(Holder(home))
            said, wrong = told()
        [why] = wrong
        assert f"ledger: {why}" in said
        assert "Another process holds it" in why
        # No watch runs: that is why they are late.
        assert told()[1] == []
        # Nor does one that was killed, and left its name.
        (home / "watch.lock").write_text("watch 1\n")
        assert told()[1] == []
