"""The examples are run as programs, on a home with the events of many lives of runs."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest

from tests.projections.tales import TALES
from tests.published import events_of
from tests.stores import store_at
from watchkeeper import clock
from watchkeeper.adapters.home import create_home
from watchkeeper.domain.run.envelope import encode
from watchkeeper.ports.event_store import Write
from watchkeeper.services.ledger.ledger_reader import run_stream

EXAMPLES = Path(__file__).parents[1] / "examples"
LIMIT_S = 60
LINES_MAX = 80

PAGER = """#!/bin/sh
printf '%s\\t%s\\t%s\\n' "$WATCHKEEPER_EVENT_ID" "$1" "$2" >> "{log}"
test ! -e "{log}.down"
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with one run for each tale, stored as the ledger stores them."""
    path = tmp_path_factory.mktemp("examples") / "home"
    made = create_home(path)
    with store_at(made.path) as store:
        for number, (name, tale) in enumerate(TALES.items()):
            slug = f"{name.replace('_', '-')}-{number}"
            envelopes = [e.envelope.model_copy(update={"event_id": uuid4()}) for e in tale().events]
            store.append([Write(run_stream(slug), 0, tuple(encode(one) for one in envelopes))])
    return path


def example(name: str, *words: str, code: int = 0) -> str:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name), *words],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == code, done.stderr
    return done.stderr


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.name)
def test_an_example_is_short(path: Path) -> None:
    assert len(path.read_text().splitlines()) < LINES_MAX


def pages_wanted(home: Path) -> list[str]:
    wanted: list[str] = []
    for event in events_of(home):
        told = event.envelope["data"]
        asks = event.topic == "run.escalation_raised.1"
        if asks or (event.topic == "run.finding_opened.1" and told["severity"] == "alert"):
            wanted.append(event.id)
    return wanted


def test_the_pager_pages_each_once_and_goes_on_after_a_failure(home: Path, tmp_path: Path) -> None:
    log = tmp_path / "pages"
    pager = tmp_path / "pager"
    pager.write_text(PAGER.format(log=log))
    pager.chmod(0o755)
    position = tmp_path / "position"
    words = ("--home", str(home), "--position", str(position), "--no-follow", "--", str(pager))
    down = tmp_path / "pages.down"
    down.touch()
    assert "the page of" in example("page_on_escalation.py", *words, code=1)
    down.unlink()
    example("page_on_escalation.py", *words)
    example("page_on_escalation.py", *words)
    wanted = pages_wanted(home)
    assert len(wanted) > 5
    rows = [line.split("\t") for line in log.read_text().splitlines()]
    # The one that failed is tried again, and no other is paged twice.
    assert [row[0] for row in rows] == [wanted[0], *wanted]
    assert all(row[1] and row[2] for row in rows)
    assert int(position.read_text()) <= events_of(home)[-1].position


def test_the_table_counts_each_event_once_however_the_program_ends(
    home: Path, tmp_path: Path
) -> None:
    table = tmp_path / "runs.db"
    words = ["--home", str(home), "--table", str(table)]
    backoff = clock.ExponentialBackoff()
    for _ in range(2):
        process = subprocess.Popen(
            [sys.executable, str(EXAMPLES / "table_of_runs.py"), *words], start_new_session=True
        )
        try:
            backoff.copy().wait_until_or_raise(
                lambda: position_in(table) > 0, timedelta(seconds=LIMIT_S), "some rows"
            )
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(timeout=LIMIT_S)
    example("table_of_runs.py", *words, "--no-follow")
    wanted = events_of(home)
    assert position_in(table) == wanted[-1].position
    with closing(sqlite3.connect(table)) as found:
        rows = found.execute("SELECT run, events, checks, last_event, step FROM runs").fetchall()
    runs = {event.run for event in wanted}
    assert {row[0] for row in rows} == runs
    for run, count, checks, last, step in rows:
        mine = [event for event in wanted if event.run == run]
        assert (count, last) == (len(mine), mine[-1].type)
        checked = [event for event in mine if event.topic == "run.check_recorded.1"]
        assert checks == len(checked)
        known = [p["step"] for e in checked if (p := e.envelope["data"]["progress"])]
        assert step == (known[-1] if known else None), json.dumps(run)


def position_in(table: Path) -> int:
    if not table.exists():
        return 0
    with closing(sqlite3.connect(table, timeout=10)) as found:
        try:
            return int(found.execute("SELECT position FROM place").fetchone()[0])
        except (sqlite3.OperationalError, TypeError):
            return 0


def test_the_library_s_projection_counts_each_finding_once(home: Path, tmp_path: Path) -> None:
    table = tmp_path / "findings.db"
    environ = {
        **os.environ,
        "WATCHKEEPER_HOME": str(home),
        "PERSISTENCE_MODULE": "watchkeeper.eventsourcing",
        "SQLITE_DBNAME": str(table),
    }
    opened = [event for event in events_of(home) if event.topic == "run.finding_opened.1"]
    wanted = Counter((f"run/{one.run}", one.envelope["data"]["kind"]) for one in opened)
    assert wanted.total() > 5
    for least in (1, wanted.total()):
        count_until(table, least, environ)
    assert counted_in(table) == wanted


def count_until(table: Path, least: int, environ: dict[str, str]) -> None:
    """Run the example until it has counted so many, and kill it."""
    process = subprocess.Popen(
        [sys.executable, str(EXAMPLES / "count_findings.py")], env=environ, start_new_session=True
    )
    try:
        clock.ExponentialBackoff().wait_until_or_raise(
            lambda: counted_in(table).total() >= least,
            timedelta(seconds=LIMIT_S),
            "some findings",
        )
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(timeout=LIMIT_S)


def counted_in(table: Path) -> Counter[tuple[str, str]]:
    if not table.exists():
        return Counter()
    with closing(sqlite3.connect(table, timeout=10)) as found:
        try:
            rows = found.execute("SELECT run, kind, number FROM findings").fetchall()
        except sqlite3.OperationalError:
            return Counter()
    return Counter({(run, kind): number for run, kind, number in rows})
