"""The tour, as a new user takes it: every command in it, and the logbook that it leaves."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.missing import cannot_have
from tests.session import processes_of
from tests.training import git

WATCHKEEPER = Path(sys.executable).with_name("watchkeeper")

pytestmark = [pytest.mark.git, pytest.mark.ray, pytest.mark.servers, pytest.mark.timeout(400)]

IN_ORDER = (
    "launch", "contract amended", "approve refused", "launch (continued)",
    "watch handed over to ana", "watch taken by ana", "relaunch of i1 requested",
    "i1 stopped at", "relaunch as i2", "i2 resumed", "milestone step-1000 verified",
    "i2 finished at", "seal verified", "sealed",
)  # fmt: skip


def test_the_tour_goes_from_a_blocked_launch_to_a_seal(
    tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    home = tmp_path / "home"
    done = subprocess.run(
        [str(WATCHKEEPER), "demo", "--tour", "--home", str(home), "--json"],
        capture_output=True,
        text=True,
        timeout=380,
        check=False,
    )
    if "Ray did not start" in done.stderr:
        cannot_have(pytestconfig, "ray", done.stderr)
    assert done.returncode == 0, done.stderr[-4000:]
    assert "Traceback" not in done.stderr
    assert "L7   final step        the contract says 1400" in done.stderr
    [line] = done.stdout.splitlines()
    summary: dict[str, Any] = json.loads(line)
    assert (summary["phase"], summary["instances"]) == ("sealed", ["i1", "i2"])
    assert [decision["rule"] for decision in summary["decisions"]] == ["R18", "R15"]
    assert not summary["failures"]
    remote, branch, path = summary["logbook"].rsplit(":", 2)
    book = git(Path(remote), "show", f"{branch}:{path}")
    titles = re.findall(
        r"^### \S+ \S+ UTC - (.*)$", book.partition("## Event Log")[2], re.MULTILINE
    )
    places = [next(n for n, title in enumerate(titles) if title.startswith(w)) for w in IN_ORDER]
    assert places == sorted(places)
    tags = git(Path(remote), "tag", "--list").split()
    assert tags == ["run/demo-lm/final", "run/demo-lm/step-1000"]
    assert not processes_of(home)
