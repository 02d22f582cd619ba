"""`--jsonl` of `progress`, `triage` and `judge`: which file it reads, and what it says of none."""

import sys
from contextlib import ExitStack
from io import BytesIO
from pathlib import Path

import pytest

from tests.command_line import in_this_process
from watchkeeper.adapters.cli.json_lines import opened

DOORS = ["progress", "triage", "judge"]


@pytest.fixture(autouse=True)
def no_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WATCHKEEPER_HOME", "/nonexistent")


def line_of(door: str) -> bytes:
    told = {
        "progress": '"line": "step=7"',
        "triage": '"text": "step=7"',
        "judge": '"observation": 1',
    }
    return f'{{"id": "one", {told[door]}}}\n'.encode()


@pytest.mark.parametrize("door", DOORS)
def test_without_a_value_it_means_standard_input(door: str, tmp_path: Path) -> None:
    file = tmp_path / "many.jsonl"
    file.write_bytes(line_of(door))
    ways = [("--jsonl",), ("--jsonl", "-"), ("--jsonl=-",)]
    told = [in_this_process("tools", door, *way, given=line_of(door)) for way in ways]
    told += [
        in_this_process("tools", door, *way)
        for way in (("--jsonl", str(file)), (f"--jsonl={file}",))
    ]
    first = told[0]
    assert b"one" in first.stdout or b"line 1" in first.stderr, "it has read the line"
    answers = {(done.returncode, done.stdout, done.stderr) for done in told}
    assert len(answers) == 1


def test_an_option_behind_it_is_no_file() -> None:
    done = in_this_process("tools", "triage", "--jsonl", "--json", given=line_of("triage"))
    assert (done.returncode, len(done.stdout.splitlines())) == (0, 1)


@pytest.mark.parametrize("door", ["progress", "triage"])
def test_a_file_before_it_is_one_log_and_both_are_too_many(door: str, tmp_path: Path) -> None:
    file = tmp_path / "many.jsonl"
    file.write_bytes(line_of(door))
    done = in_this_process("tools", door, str(file), "--jsonl")
    assert (done.returncode, done.stdout) == (4, b"")
    assert b"give either a log FILE, or for many " in done.stderr
    assert b"use --jsonl FILE" in done.stderr


def test_a_judge_without_it_is_told_what_is_missing() -> None:
    done = in_this_process("tools", "judge")
    assert (done.returncode, done.stdout) == (4, b"")
    assert b"Missing option '--jsonl'" in done.stderr


class Terminal:
    """Standard input where a person types."""

    def __init__(self, typed: bytes) -> None:
        self.buffer = BytesIO(typed)

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("name", ["-", "file"])
def test_a_terminal_is_told_that_lines_are_read_from_it(
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "file").write_bytes(b"step=7\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", Terminal(b"step=7\n"))
    with ExitStack() as stack:
        assert opened(Path(name), stack, "watchkeeper tools progress --jsonl").read() == b"step=7\n"
    told = "watchkeeper tools progress --jsonl reads lines from this terminal; finish with Ctrl-D\n"
    assert capsys.readouterr().err == (told if name == "-" else "")
