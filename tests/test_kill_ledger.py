"""The tool that kills whoever writes the ledger: all is well, and a planted bug turns it red."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

TOOL = Path(__file__).parents[1] / "tools" / "kill_ledger.py"


def kill_ledger(*arguments: str) -> tuple[int, dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, str(TOOL), "--json", *arguments],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.stdout, done.stderr[-4000:]
    report: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    if report["folder"]:
        shutil.rmtree(report["folder"], ignore_errors=True)
    return done.returncode, report


def test_thirty_kills_lose_nothing_double_nothing_and_leave_every_view_equal() -> None:
    code, report = kill_ledger("--kills", "30", "--seed", "1")
    assert (code, report["problems"], report["kills"]) == (0, [], 30)
    # Before, within and right after each transaction, in the middle of a group, and at any moment.
    assert len(report["points"]) == 18


def test_a_page_in_two_steps_is_found() -> None:
    code, report = kill_ledger("--kills", "30", "--seed", "2", "--plant")
    assert code == 1
    assert any("not equal" in problem for problem in report["problems"])


@pytest.mark.postgres
def test_kills_of_who_appends_to_a_server_lose_and_double_nothing_there(postgres_url: str) -> None:
    code, report = kill_ledger("--kills", "30", "--seed", "3", "--store", postgres_url)
    assert (code, report["problems"], report["kills"]) == (0, [], 30)
    assert {
        *("append.before", "append.open", "append.stored"),
        *("group.before", "group.between", "group.open", "group.stored", "group.handed"),
    } <= set(report["points"])
