"""A bridge that is killed loses nothing, and the tool that says so finds planted bugs."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

TOOL = Path(__file__).parents[1] / "tools" / "kill_bridge.py"

pytestmark = [pytest.mark.ray, pytest.mark.pubsub, pytest.mark.timeout(1_500)]


def kill_bridge(emulator: str, *arguments: str) -> tuple[int, dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, str(TOOL), "--seed", "1", "--json", *arguments],
        env={**os.environ, "PUBSUB_EMULATOR_HOST": emulator},
        capture_output=True,
        text=True,
        timeout=1_400,
        check=False,
    )
    assert done.stdout, done.stderr[-4000:]
    report: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    # Kept by the tool where it found something, for a person to look at.
    shutil.rmtree(report["folder"], ignore_errors=True)
    return done.returncode, report


def test_a_bridge_that_is_killed_loses_nothing_and_doubles_nothing(pubsub_server: str) -> None:
    code, report = kill_bridge(pubsub_server, "--kills", "8")
    assert report["problems"] == []
    assert code == 0
    assert set(report["points"]) >= {"after-spool", "after-publish", "before-remove"}
    assert set(report["facts"]) == {"poll", "file", "http"}


@pytest.mark.long
def test_a_bridge_that_is_killed_a_hundred_times_loses_nothing(pubsub_server: str) -> None:
    code, report = kill_bridge(pubsub_server, "--kills", "100")
    assert report["problems"] == []
    assert code == 0
    assert report["kills"] == 100
    assert report["repeated"] > 0, "a kill before the removal publishes twice"


@pytest.mark.long
@pytest.mark.parametrize(
    ("plant", "point", "problem"),
    [("forget-first", "after-remove", "was lost"), ("fresh-ids", "before-remove", " ids")],
)
def test_a_planted_bug_is_found(pubsub_server: str, plant: str, point: str, problem: str) -> None:
    code, report = kill_bridge(
        pubsub_server, "--plant", plant, "--kills", "3", "--only-point", point
    )
    assert code == 1
    assert any(problem in each for each in report["problems"]), report["problems"]
