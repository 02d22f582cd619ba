"""The demo, the README's main job, as a user runs it: every fault, on both orchestrators."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.missing import cannot_have
from tests.session import processes_of
from tests.training import git
from watchkeeper import clock
from watchkeeper.adapters.cli import run
from watchkeeper.adapters.cli.demo_closing import closing_words

WATCHKEEPER = Path(sys.executable).with_name("watchkeeper")

pytestmark = [pytest.mark.git, pytest.mark.timeout(400)]

# A run of half a minute to one each. The default run of the tests has one, on the local
# orchestrator; `-m servers` has each fault on one orchestrator; `-m long` has the other.
LOCAL_FIRST = [
    pytest.param("local", id="local", marks=pytest.mark.servers),
    pytest.param("ray", id="ray", marks=[pytest.mark.ray, pytest.mark.long]),
]


def run_cli(*arguments: str, limit_s: float = 300) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [str(WATCHKEEPER), *arguments],
        capture_output=True,
        text=True,
        timeout=limit_s,
        check=False,
    )


def play(
    home: Path, fault: str, orchestrator: str, pytestconfig: pytest.Config, *more: str
) -> dict[str, Any]:
    where = ("--home", str(home), "--orchestrator", orchestrator)
    done = run_cli("demo", *where, "--fault", fault, "--json", *more)
    if "Ray did not start" in done.stderr:
        cannot_have(pytestconfig, "ray", done.stderr)
    assert done.returncode == 0, done.stderr[-4000:]
    assert "Traceback" not in done.stderr
    summary: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return summary


def logbook_of(summary: dict[str, Any]) -> str:
    remote, branch, path = summary["logbook"].rsplit(":", 2)
    return git(Path(remote), "show", f"{branch}:{path}")


def strikes(summary: dict[str, Any]) -> list[dict[str, Any]]:
    """Read the fault process's own log, which shares nothing with the watch."""
    path = Path(summary["fault_log"])
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


FAILED = re.compile(
    r"^### (?P<day>\S+) \S+ UTC - (?P<instance>i\d+) failed at ~(?P<step>\d+)/\d+\n"
    r"- Status: interrupted; ended at (?P<ended>\S+), (?P<rest>.*?)(?=^### |\Z)",
    re.MULTILINE | re.DOTALL,
)


def assert_failures_logged(book: str, struck: list[dict[str, Any]]) -> None:
    """Compare each failure in the logbook with what the fault process wrote of it."""
    entries = list(FAILED.finditer(book))
    assert [entry["instance"] for entry in entries] == [f"i{n + 1}" for n in range(len(struck))]
    for entry, strike in zip(entries, struck, strict=True):
        # The metrics file has a line for every tenth step.
        assert 0 <= strike["step"] - int(entry["step"]) <= 10
        ended = datetime.fromisoformat(f"{entry['day']}T{entry['ended']}+00:00")
        # Written to the second; Ray itself notices the end of a driver some seconds later.
        late = ended - datetime.fromisoformat(strike["at"])
        assert timedelta(seconds=-1) <= late <= timedelta(seconds=15)
        assert f"ended by {signal.Signals(strike['signal']).name}" in entry["rest"]
        half_written = f"step-{strike['step']} incomplete: no metadata.json"
        assert (half_written in entry["rest"]) is strike["mid_write"]


@pytest.mark.parametrize(
    "orchestrator",
    [
        pytest.param("local", id="local"),
        pytest.param("ray", id="ray", marks=[pytest.mark.ray, pytest.mark.servers]),
    ],
)
def test_crash_resumes_from_the_newest_complete_checkpoint_and_is_sealed(
    tmp_path: Path, orchestrator: str, pytestconfig: pytest.Config, chosen_store: str
) -> None:
    home = tmp_path / "home"
    summary = play(home, "crash", orchestrator, pytestconfig)
    [strike] = strikes(summary)
    assert (strike["step"], strike["mid_write"]) == (1100, True)
    assert summary["phase"] == "sealed"
    assert summary["instances"] == ["i1", "i2"]
    assert [(d["rule"], d["resume_step"]) for d in summary["decisions"]] == [
        ("R1", 1000),
        ("R15", None),
    ]
    [failure] = summary["failures"]
    assert (failure["cause"], failure["outlook"]) == ("unknown", "retry_once")
    assert 0 <= strike["step"] - failure["step"] <= 10
    book = logbook_of(summary)
    assert_failures_logged(book, [strike])
    assert "step-1100 refused: no metadata.json" in book
    assert "resumed from step 1000, as decided" in book
    remote = Path(summary["logbook"].rsplit(":", 2)[0])
    assert git(remote, "cat-file", "-t", summary["seal"]).strip() == "tag"
    subjects = git(remote, "log", "--format=%s", "main")
    # What follows at once on a failure may stand in the failure's own commit.
    assert {"demo-lm: log relaunch", "demo-lm: log failure"} & set(subjects.splitlines())
    assert "demo-lm: log final seal" in subjects
    assert not processes_of(home)
    verified = run_cli("verify", "--home", str(home))
    assert verified.returncode == 0, verified.stdout
    if chosen_store == "sqlite":
        _flip_one_byte(home / "ledger.db")
        broken = run_cli("verify", "--home", str(home))
        assert broken.returncode == 1, broken.stdout


def _flip_one_byte(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 1
    path.write_bytes(bytes(content))


@pytest.mark.parametrize("orchestrator", LOCAL_FIRST)
def test_crash_loop_relaunches_once_and_then_asks(
    tmp_path: Path, orchestrator: str, pytestconfig: pytest.Config
) -> None:
    home = tmp_path / "home"
    summary = play(home, "crash-loop", orchestrator, pytestconfig)
    first, second = strikes(summary)
    assert first["pid"] != second["pid"]
    assert first["step"] == second["step"] == 1100
    assert summary["phase"] == "interrupted"
    assert [d["rule"] for d in summary["decisions"]] == ["R1", "R2"], summary
    assert summary["questions"] == ["q-1"]
    assert summary["seal"] is None
    book = logbook_of(summary)
    assert_failures_logged(book, [first, second])
    assert f"came back without progress past ~{summary['failures'][1]['step']}" in book
    assert book.count("no relaunch; a human is asked\n") == 1
    assert not processes_of(home)
    status = run_cli("status", "demo-lm", "--home", str(home))
    assert "q-1" in status.stdout
    assert run_cli("verify", "--home", str(home)).returncode == 0


LIVE = {
    "nan": ("H7", "alert", "loss is not a finite number since step"),
    "hang": ("H3", "alert", "RUNNING and not training: no step for"),
    "slow": ("H4", "notify", "below its baseline for"),
    "wrong-tracker": ("H2", "alert", "the tracker shows id demo-lm-old"),
    "no-checkpoint": ("H5", "alert", "steps move and no complete checkpoint comes"),
}
"""What each fault that leaves the training alive must be found as."""


@pytest.mark.parametrize(
    ("fault", "orchestrator"),
    [
        *(
            pytest.param(fault, "local", id=f"{fault}-local", marks=pytest.mark.servers)
            for fault in LIVE
        ),
        *(
            pytest.param(fault, "ray", id=f"{fault}-ray", marks=[pytest.mark.ray, pytest.mark.long])
            for fault in LIVE
        ),
    ],
)
def test_a_live_run_that_goes_wrong_is_reported_and_never_relaunched(
    tmp_path: Path, fault: str, orchestrator: str, pytestconfig: pytest.Config
) -> None:
    rule, severity, says = LIVE[fault]
    home = tmp_path / "home"
    summary = play(home, fault, orchestrator, pytestconfig)
    [struck] = strikes(summary)
    assert struck["kind"] == fault
    assert (summary["phase"], summary["instances"]) == ("running", ["i1"])
    assert not summary["failures"]
    found = [one for one in summary["findings"] if one["rule"] == rule]
    assert any(says in one["summary"] for one in found), summary["findings"]
    assert {one["severity"] for one in found} == {severity}
    # The only decisions are notifications.
    assert {(one["action"], one["rule"]) for one in summary["decisions"]} <= {
        ("alert", "R17"),
        ("notify", "R17"),
    }
    assert bool(summary["questions"]) is (severity == "alert")
    book = logbook_of(summary)
    assert re.search(
        rf"^### .* - finding: .*\n- Status: .*\(rule {rule}, event", book, re.MULTILINE
    )
    assert says in book
    asked = "the job is left alone; a human is asked (rule R17"
    notified = "the job is left alone; a human is notified (rule R17"
    assert (asked if severity == "alert" else notified) in book
    why = run_cli("why", "demo-lm", "--home", str(home))
    assert why.returncode == 0
    assert not processes_of(home)


@pytest.mark.parametrize("orchestrator", LOCAL_FIRST)
def test_without_a_fault_one_instance_is_sealed(
    tmp_path: Path, orchestrator: str, pytestconfig: pytest.Config
) -> None:
    home = tmp_path / "home"
    summary = play(home, "none", orchestrator, pytestconfig)
    assert summary["phase"] == "sealed"
    assert summary["instances"] == ["i1"]
    assert not summary["failures"]
    assert not strikes(summary)
    assert re.search(r"sealed as `run/demo-lm/final`", logbook_of(summary))
    assert not processes_of(home)


@pytest.mark.parametrize(
    ("orchestrator", "signals"),
    [
        pytest.param("local", 1, id="local"),
        pytest.param("local", 2, id="local-twice"),
        pytest.param("ray", 1, id="ray", marks=[pytest.mark.ray, pytest.mark.long]),
    ],
)
def test_ctrl_c_leaves_no_process_behind(tmp_path: Path, orchestrator: str, signals: int) -> None:
    home = tmp_path / "home"
    process = subprocess.Popen(
        [str(WATCHKEEPER), "demo", "--home", str(home), "--orchestrator", orchestrator],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    output = home / "demo" / "output"
    backoff = clock.ExponentialBackoff(maximum=timedelta(milliseconds=200))
    trains = backoff.wait_until(lambda: (output / "metrics.jsonl").exists(), timedelta(seconds=90))
    assert trains or process.poll() is None
    below = psutil.Process(process.pid).children(recursive=True)
    heads = heads_of(below)
    assert len(heads) == (1 if orchestrator == "ray" else 0)
    os.kill(process.pid, signal.SIGINT)
    for _ in range(signals - 1):
        # What an impatient hand does; there is no condition to wait for.
        clock.sleep(timedelta(milliseconds=50))
        os.kill(process.pid, signal.SIGINT)
    process.communicate(timeout=90)
    assert process.returncode == 130
    assert not processes_of(home)
    assert not living(below)
    # A job on Ray is not below its head.
    assert not heads & heads_of(psutil.process_iter())
    assert not any(Path(head).exists() for head in heads)


def living(processes: Iterable[psutil.Process]) -> list[psutil.Process]:
    """Those that have not ended."""
    found: list[psutil.Process] = []
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def heads_of(processes: Iterable[psutil.Process]) -> set[str]:
    """The folders of the Ray heads that some processes belong to."""
    found: set[str] = set()
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            found |= {process.environ().get("WK_RAY_HEAD", "")}
    return found - {""}


def test_without_git_the_demo_says_so(tmp_path: Path) -> None:
    done = subprocess.run(
        [str(WATCHKEEPER), "demo", "--home", str(tmp_path / "home")],
        env={**os.environ, "PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert "install git" in done.stderr
    assert "internal error" not in done.stderr


def test_without_a_ray_head_the_demo_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # As in an environment where Ray's own command is not next to Python.
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert run(["demo", "--home", str(tmp_path / "home")]) == 2
    errors = capsys.readouterr().err
    assert "Ray did not start" in errors
    assert "internal error" not in errors


@pytest.mark.parametrize(
    ("instances", "words"), [(["i1"], "1 instance,"), (["i1", "i2"], "2 inst")]
)
def test_the_demos_last_words_count_as_people_do(instances: list[str], words: str) -> None:
    summary = {
        "run": "demo-lm", "phase": "running", "elapsed_s": 21.5, "instances": instances,
        "events": 24, "verify": [], "logbook": "/remote:main:logbook.md", "home": "/home",
        "seal": "", "findings": [], "questions": [],
    }  # fmt: skip
    assert words in closing_words(summary)
