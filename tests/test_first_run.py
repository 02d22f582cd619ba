"""The README's first own run, command by command, with the output that the README shows."""

import getpass
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from tests.session import end_processes
from watchkeeper import clock

pytestmark = [pytest.mark.git]

ROOT = Path(__file__).parents[1]
SECTION = "## Your first own run"
PROGRAM = "from watchkeeper.adapters.cli import main; main()"
LIMIT = timedelta(seconds=60)


def blocks() -> list[tuple[str, list[str]]]:
    """Return the section's commands, each with the lines that the README prints below it."""
    section = (ROOT / "README.md").read_text().partition(SECTION)[2].partition("\n## ")[0]
    found: list[tuple[str, list[str]]] = []
    for block in re.findall(r"^```console\n(.*?)^```$", section, re.MULTILINE | re.DOTALL):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line[2:].partition("  # ")[0], []))
            else:
                found[-1][1].append(line)
    return found


def normal(text: str, folder: Path) -> str:
    """Replace what differs between two machines: folders, people, digests and numbers."""
    text = text.replace(str(folder), "/home/alice").replace(getpass.getuser(), "alice")
    text = re.sub(r"\b(?=[a-f]*\d)[0-9a-f]{12}\b", "DIGEST", text)
    return " ".join(re.sub(r"\d+", "N", text).split())


@pytest.fixture
def environ(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The environment of a new user, whose `watchkeeper` is this checkout's."""
    program = tmp_path / "bin" / "watchkeeper"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\nexec {sys.executable} -c '{PROGRAM}' \"$@\"\n")
    program.chmod(0o755)
    yield {**os.environ, "HOME": str(tmp_path), "PATH": f"{program.parent}:{os.environ['PATH']}"}
    end_processes(tmp_path)


def test_the_first_run_of_the_readme_gives_what_it_shows(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    folder = tmp_path / "first-run"
    watching: list[subprocess.Popen[bytes]] = []

    def shell(command: str) -> str:
        done = subprocess.run(
            ["sh", "-c", command],
            cwd=ROOT,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=LIMIT.total_seconds(),
            check=False,
        )
        return done.stdout

    def wait_for(what: str, held: str, text: str) -> str:
        """Repeat a command until a text is in its output."""
        answers: list[str] = []

        def holds() -> bool:
            answers.append(shell(what))
            return text in answers[-1]

        backoff = clock.ExponentialBackoff(initial=timedelta(milliseconds=500))
        assert backoff.wait_until(holds, LIMIT), f"{held}: {answers[-1]}"
        return answers[-1]

    try:
        for command, expected in blocks():
            if command.startswith("watchkeeper watch"):
                with (tmp_path / "watch.log").open("wb") as log:
                    watching.append(
                        subprocess.Popen(
                            ["sh", "-c", f"exec {command}"], cwd=ROOT, env=environ, stdout=log,
                            stderr=subprocess.STDOUT,
                        )
                    )  # fmt: skip
                printed = wait_for("cat ~/watch.log", "the first check", "newest step-")
            elif command.startswith("watchkeeper launch"):
                # A terminal of its own, as the question is asked nowhere else.
                printed = shell(f"printf 'y\\n' | script --quiet --command '{command}' /dev/null")
            elif command.startswith("pkill"):
                printed = shell(command.replace("first-run", f"first-run --output-root {folder}"))
            elif command.startswith("watchkeeper why"):
                printed = wait_for(command, "the relaunch", "Relaunched after i1")
                assert "(temporary)" not in (tmp_path / "watch.log").read_text()
            elif command.startswith("watchkeeper run seal"):
                wait_for("watchkeeper status first-run", "the end", "finished")
                printed = shell(command)
            else:
                printed = shell(command)
            if command.startswith("python3"):
                contract = folder / "first-run.yaml"
                quick = contract.read_text().replace('"400"', '"400", --step-seconds, "0.05"')
                contract.write_text(quick)
            for line in expected:
                # The answer was sent before the question, so the terminal echoes it elsewhere.
                line = line.replace("[y/N]: y", "[y/N]:")
                assert normal(line, tmp_path) in normal(printed, tmp_path), (command, printed)
        wait_for("git -C ~/first-run/code.git tag", "the seal's tag", "run/first-run/final")
    finally:
        for process in watching:
            process.terminate()
            process.wait(timeout=LIMIT.total_seconds())


def test_the_contract_in_the_readme_is_the_one_of_the_first_run() -> None:
    example = (ROOT / "examples" / "first_run" / "first-run.yaml").read_text()
    for word, value in (("FOLDER", "/home/alice/first-run"), ("OWNER", "alice")):
        example = example.replace(word, value)
    shown = re.search(r"^```yaml\n(.*?)^```$", (ROOT / "README.md").read_text(), re.M | re.S)
    assert shown
    assert re.sub(r"\b[0-9a-f]{40}\b", "COMMIT", shown[1]) == example
