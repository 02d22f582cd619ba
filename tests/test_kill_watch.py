"""The tool that kills the watch finds the bugs it is there for: each planted one turns it red."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

TOOL = Path(__file__).parents[1] / "tools" / "kill_watch.py"

pytestmark = [pytest.mark.git, pytest.mark.timeout(400)]


def kill_watch(*arguments: str) -> tuple[int, dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, str(TOOL), "--seed", "1", "--json", *arguments],
        capture_output=True,
        text=True,
        timeout=380,
        check=False,
    )
    assert done.stdout, done.stderr[-4000:]
    report: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    # Kept by the tool where it found something, for a person to look at.
    shutil.rmtree(report["home"], ignore_errors=True)
    return done.returncode, report


@pytest.mark.long
def test_a_relaunch_submitted_before_it_is_recorded_is_found() -> None:
    code, report = kill_watch(
        "--plant", "submit-early", "--runs", "0", "--kills", "1", "--only-point", "resubmit"
    )
    assert report["points"] == {"resubmit": 1}
    assert code == 1
    # Whether the two jobs also wrote at one time hangs on how fast the watch came back.
    assert any(
        problem.endswith("was submitted, and no request for it is on record")
        for problem in report["problems"]
    ), report["problems"]


@pytest.mark.long
def test_a_checkpoint_chosen_by_its_text_is_found() -> None:
    code, report = kill_watch(
        "--plant", "text-sort", "--runs", "1", "--kills", "1", "--only-point", "append"
    )
    assert report["points"] == {"append": 1}
    assert code == 1
    assert any(
        "resumes from step 900, but step 1000 was saved last" in problem
        for problem in report["problems"]
    ), report["problems"]


@pytest.mark.long
def test_a_watch_that_ends_before_its_kill_is_tried_again_and_what_was_missed_is_named() -> None:
    # Without a run the watch has nothing to do, and ends at once.
    code, report = kill_watch("--runs", "0", "--kills", "2", "--only-point", "push")
    assert (report["kills"], report["asked"]) == (2, 2), report
    assert code == 0, report["problems"]
    code, report = kill_watch("--runs", "0", "--kills", "1", "--plant", "idle")
    assert (report["kills"], report["asked"], code) == (0, 1, 1)
    assert "kill 1: 3 watches ended before it" in report["problems"]
