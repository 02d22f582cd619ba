"""`launch` at a real terminal asks a human for the approval; nowhere else, and nobody else."""

import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import Cli, written
from tests.training import Site, tiny_contract

pytestmark = pytest.mark.git

PROGRAM = "from watchkeeper.adapters.cli import main; main()"
PROMPT = "approve? [y/N]: "
LIMIT_S = 60


def at_terminal(
    *words: str, answer: str, meanwhile: Callable[[], object] = lambda: None
) -> tuple[int, str]:
    """Run a command on a terminal of its own, and answer what it asks.

    Args:
        words: Of the command line, without the program's name.
        answer: What the person types at the prompt.
        meanwhile: What happens before the answer.

    Returns:
        The exit code, and all that the terminal showed.
    """
    ours, theirs = pty.openpty()
    command = [sys.executable, "-c", PROGRAM, *words]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        shown = ""
        while True:
            try:
                read = os.read(ours, 65536)
            except OSError:
                # Linux reports the closed end of a terminal as an error.
                break
            shown += read.decode()
            if shown.endswith(PROMPT):
                meanwhile()
                os.write(ours, f"{answer}\n".encode())
        code = process.wait(LIMIT_S)
    os.close(ours)
    return code, shown.replace("\r\n", "\n")


def approvals(cli: Cli) -> list[dict[str, Any]]:
    events = cli("events", "tiny", "--json").json["events"]
    return [event for event in events if "launch_approved" in str(event)]


@pytest.fixture
def contract(cli: Cli, site: Site, tmp_path: Path) -> str:
    return written(tmp_path, tiny_contract(site, "tiny"))


def test_a_yes_is_recorded_as_an_approval_of_the_page_that_was_shown_and_launches(
    cli: Cli, contract: str
) -> None:
    code, shown = at_terminal("launch", contract, answer="y")
    assert (code, shown.count("Plan "), shown.count(PROMPT)) == (0, 1, 1)
    assert "recorded and carried out" in shown
    [given] = approvals(cli)
    assert f"Plan {given['data']['digest'][:12]} " in shown
    assert "'dri'" in str(given)
    assert cli("status", "tiny", "--json").json["phase"] not in ("draft", "cleared")


def test_a_no_and_a_plan_that_changed_before_the_yes_launch_nothing(
    cli: Cli, contract: str, site: Site, tmp_path: Path
) -> None:
    code, shown = at_terminal("launch", contract, answer="")
    assert (code, "recorded; nothing was launched" in shown) == (3, True)
    other = tiny_contract(site, "tiny").model_copy(update={"goal": "another goal"})

    def change() -> None:
        changed = tmp_path / "changed.yaml"
        changed.write_text(Path(written(tmp_path, other)).read_text())
        assert cli("launch", str(changed)).code == 3

    code, shown = at_terminal("launch", contract, answer="y", meanwhile=change)
    assert (code, "refused (PLAN_UNKNOWN)" in shown) == (3, True)
    assert approvals(cli) == []


def test_an_agent_and_a_program_are_not_asked(cli: Cli, contract: str) -> None:
    for words in (["--as", "some-bot"], ["--json"], ["--dry-run"]):
        _, shown = at_terminal("launch", contract, *words, answer="y")
        assert "approve?" not in shown
    assert "approve?" not in cli("launch", contract).said
