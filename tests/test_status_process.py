"""`status` as a process of its own: what it reads, what it imports, what it costs."""

import json
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bench.commands import LIMITS, WATCHKEEPER, fill, main
from tests.stores import ON_FILE
from watchkeeper.adapters.verified import FILE, Verified, written_result

RUNS = 24

pytestmark = ON_FILE

HEAVY = (
    "aiohttp", "eventsourcing", "fsspec", "gcsfs", "google", "numpy", "psutil", "pydantic", "ray",
    "requests", "ruamel", "s3fs", "wandb",
)  # fmt: skip

OURS_HEAVY = (
    "watchkeeper.domain",
    "watchkeeper.services.ledger.ledger",
    "watchkeeper.ports.sources",
    "watchkeeper.services.watch.loop",
    "watchkeeper.services.watch.actions",
    "watchkeeper.services.outbox.logbook_push",
    "watchkeeper.adapters.git",
    "watchkeeper.adapters.store",
    "watchkeeper.adapters.compose",
    "watchkeeper.adapters.cli.common",
)

FROZEN = f"import freezegun; freezegun.freeze_time('2026-11-21 12:00').start(); {WATCHKEEPER}"
"""The same at one time of day, which what is due or late is compared with."""

PROGRAM = """
import json, sys
from watchkeeper.adapters.cli import run
code = run(sys.argv[1:])
print(json.dumps({"code": code, "modules": sorted(sys.modules)}))
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with runs of every kind of history."""
    path = tmp_path_factory.mktemp("status") / "home"
    with pytest.MonkeyPatch.context() as patch:
        # Before the mark of this file can say so.
        patch.delenv("WATCHKEEPER_STORE", raising=False)
        fill(path, RUNS)
    return path


@pytest.mark.parametrize(
    "words", [(), ("--all",), ("--json",), ("run-00000",), ("run-00000", "--json")]
)
def test_a_status_imports_neither_event_models_nor_any_client(
    home: Path, words: tuple[str, ...]
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, "status", *words, "--home", str(home)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    shown, _, last = done.stdout.rstrip().rpartition("\n")
    assert "run-000" in shown
    told = json.loads(last)
    assert told["code"] == 0
    imported = [
        name
        for name in told["modules"]
        if name.partition(".")[0] in HEAVY or name.startswith(OURS_HEAVY)
    ]
    assert imported == []


@pytest.mark.parametrize("words", [("events",), ("logbook",), ("why",), ("doctor",)])
def test_a_reading_command_imports_no_client_and_no_statistics(
    home: Path, words: tuple[str, ...]
) -> None:
    run = () if words == ("doctor",) else ("run-00000",)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words, *run, "--home", str(home)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    told = json.loads(done.stdout.rstrip().rpartition("\n")[2])
    assert told["code"] == (1 if words == ("doctor",) else 0)
    heavy = {name.partition(".")[0] for name in told["modules"]} & set(HEAVY)
    assert heavy == {"pydantic"}
    assert "watchkeeper.domain.rules.decide" not in told["modules"]


def test_a_status_reads_rows_and_no_events(home: Path, tmp_path: Path) -> None:
    # A copy whose events are gone shows the same.
    bare = tmp_path / "home"
    bare.mkdir()
    with (
        closing(sqlite3.connect(home / "ledger.db")) as whole,
        closing(sqlite3.connect(bare / "ledger.db")) as rows,
    ):
        rows.execute("CREATE TABLE status (run TEXT, part TEXT, row TEXT)")
        found = whole.execute("SELECT run, part, row FROM status").fetchall()
        rows.executemany("INSERT INTO status VALUES (?, ?, ?)", found)
        # Rows are compared with the number of their run's newest event, and with nothing in it.
        rows.execute("CREATE TABLE streams (id INTEGER PRIMARY KEY, name TEXT)")
        rows.execute("CREATE TABLE events (stream INTEGER, version INTEGER)")
        for table, columns in (("streams", "id, name"), ("events", "stream, version")):
            there = whole.execute(f"SELECT {columns} FROM {table}").fetchall()
            rows.executemany(f"INSERT INTO {table} VALUES (?, ?)", there)
        rows.commit()
    assert {run for run, _, _ in found} == {f"run-{n:05}" for n in range(RUNS)}
    answers = [
        subprocess.run(
            [sys.executable, "-c", FROZEN, "status", "--json", "--home", str(path)],
            capture_output=True,
            timeout=60,
            check=True,
        ).stdout
        for path in (home, bare)
    ]
    # How far the views are is asked of the ledger itself, which is gone there.
    whole, bare_ = (json.loads(answer) for answer in answers)
    for name in ("views", "views_wrong"):
        del whole[name], bare_[name]
    assert whole == bare_
    assert len(whole["runs"]) == RUNS


def test_a_ledger_that_failed_its_verification_is_shown_first_and_fails_status(
    home: Path, tmp_path: Path
) -> None:
    place = tmp_path / "home"
    shutil.copytree(home, place)

    def status() -> tuple[int, str]:
        words = [sys.executable, "-c", FROZEN, "status", "--home", str(place)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=60)
        return done.returncode, done.stdout

    assert "LEDGER  never verified: watchkeeper verify" in status()[1]
    noon = datetime(2026, 11, 21, 9, tzinfo=UTC)
    for code, problem in ((0, ""), (1, "event 7 was changed")):
        (place / FILE).write_bytes(written_result(Verified(noon, code, 20, problem)))
        told, text = status()
        assert told == code
        assert (f"the ledger failed its verification: {problem}" in text) is bool(problem)
    assert text.partition("NEEDS YOU\n")[2].lstrip().startswith("since 09:00 UTC: the ledger")
    assert "      -> watchkeeper verify  # find the damage" in text.splitlines()
    (place / FILE).unlink()
    with closing(sqlite3.connect(place / "ledger.db")) as ledger:
        row = json.loads(ledger.execute("SELECT row FROM status LIMIT 1").fetchone()[0])
        old = json.dumps({**row, "version": row["version"] - 1})
        ledger.execute("UPDATE status SET row = ? WHERE run = ?", (old, "run-00000"))
        ledger.commit()
    told, text = status()
    assert told == 1
    assert "rows of status differ from the ledger: run-00000 at event" in text


@pytest.mark.servers
def test_the_bench_says_what_each_command_costs(capsys: pytest.CaptureFixture[str]) -> None:
    # A machine that is busy with other tests measures nothing; the limits are asked for by hand.
    assert main(["--runs", "8", "--repetitions", "1", "--json"]) in (0, 1)
    told = json.loads(capsys.readouterr().out)
    assert told["runs"] == 8
    assert {name: one["ratio_max"] for name, one in told["commands"].items()} == LIMITS
    assert all(one["ratio"] > 0 for one in told["commands"].values())
    assert told["within"] == all(
        one["ratio"] <= one["ratio_max"] for one in told["commands"].values()
    )
