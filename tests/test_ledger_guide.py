"""Every step of the page about the ledger is tried, in its order."""

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.command_line import Cli
from tests.histories import told
from watchkeeper.adapters.store.sqlite import open_store

PAGE = Path(__file__).parents[1] / "docs" / "ledger-guide.md"


def steps() -> list[str]:
    blocks = re.findall(r"^```console\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    return [line.removeprefix("$ ") for block in blocks for line in block.splitlines()]


def test_every_step_of_the_page_does_what_it_says(
    cli: Cli, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_store(home / "ledger.db") as store:
        told(store)
    monkeypatch.chdir(tmp_path)
    tried: list[str] = []
    for step in steps():
        words = shlex.split(step.replace("$WATCHKEEPER_HOME", str(home)))
        if words[0] == "watchkeeper":
            answer = cli(*words[1:])
            # `doctor` tells that nobody watches the runs, which is so here.
            assert answer.code == (1 if words[1] == "doctor" else 0), (step, answer.said)
            assert words[1] != "doctor" or "FAIL watch" in answer.out
        else:
            subprocess.run(words, check=True, timeout=60)
        tried.append(step)
    assert len(tried) >= 20
