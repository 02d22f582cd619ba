"""`triage --jsonl` of a long file by several processes says what one process says."""

import json
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.command_line import in_this_process
from watchkeeper.adapters.bad_input import BadLine
from watchkeeper.adapters.cli.context_keys import KeysTold
from watchkeeper.adapters.cli.json_lines import answer_each
from watchkeeper.adapters.cli.json_pieces import Part, Reading, answered_pieces, pieces_of
from watchkeeper.adapters.text_input import text_of
from watchkeeper.clock import ExponentialBackoff

LINES_MAX = 40
LIMIT = timedelta(seconds=60)


def echoing(keys: KeysTold) -> Callable[[bytes], dict[str, Any]]:
    """Answer a line with itself; refuse one with `!`, tell of a key where one has `?`."""

    def answer(line: bytes) -> dict[str, Any]:
        text = line.decode("ascii")
        if "!" in text:
            raise BadLine("one", "two")
        if "?" in text:
            keys.once("key", f"warning: first at {text.strip()}")
        return {"line": text}

    return answer


MANY = b"".join(
    line + b"\n"
    for line in (
        b"a", b"", b"bad!", b"c?", b"nul\0nul", b"x" * (LINES_MAX - 1), b"x" * LINES_MAX,
        b"x" * (3 * LINES_MAX), b"y\0" * LINES_MAX, b"again?", b" ", b"bad!", b"z" * 30,
    )
)  # fmt: skip


@pytest.mark.parametrize("given", [MANY, MANY + b"no end", MANY.replace(b"\n", b"\r\n"), b"a\n"])
@pytest.mark.parametrize("piece_bytes", [1, 2, 3, 7, 39, 64, 1_000])
def test_whatever_the_pieces_are_each_line_is_answered_once_in_order(
    given: bytes, piece_bytes: int, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    file = tmp_path / "many.jsonl"
    file.write_bytes(given)
    with file.open("rb") as source:
        answer_each(text_of(source), LINES_MAX, echoing(KeysTold()), "shorter")
    expected = capfdbinary.readouterr()
    reading = Reading(file, echoing, LINES_MAX, "shorter")
    found = answered_pieces(reading, iter(pieces_of(len(given), piece_bytes)), lambda _more: None)
    rows, told, lines = b"", list[str](), 0
    for piece in found:
        rows += b"".join(piece.rows)
        for said in piece.said:
            told.append(said.text if said.key else f"line {lines + said.line}: {said.text}")
        lines += piece.lines
    assert rows == expected.out
    assert told == expected.err.decode().splitlines()


def test_a_line_longer_than_many_pieces_is_not_read_once_for_each(tmp_path: Path) -> None:
    file = tmp_path / "many.jsonl"
    file.write_bytes(b"x" * 100_000 + b"\nabc\n")
    reading = Reading(file, echoing, LINES_MAX, "shorter")
    with file.open("rb") as opened:
        part = Part(opened, 50_000, 50_100)
        assert part.readline(10) == b""
        assert opened.tell() == 50_100
    pieces = iter(pieces_of(100_005, 100))
    assert [piece.bad for piece in answered_pieces(reading, pieces, print)].count(1) == 1


@pytest.fixture
def long_file(tmp_path: Path) -> Path:
    """Texts of more than a MiB, with some that cannot be answered."""
    file = tmp_path / "many.jsonl"
    rows = [
        {"id": number, "text": f"{'x' * 900} {number}\nRuntimeError: CUDA error: uncorrectable ECC"}
        for number in range(1_300)
    ]
    lines = [json.dumps(row) + "\n" for row in rows]
    lines[700] = '{"id": 700}\n'
    lines[3] = lines[900] = '{"id": 3, "text": "x", "context": {"exitcode": 1}}\n'
    file.write_text("".join(lines))
    return file


def test_several_processes_say_what_one_says(long_file: Path) -> None:
    one, several = (
        in_this_process("triage", "--jsonl", str(long_file), "--jobs", jobs) for jobs in "13"
    )
    assert one.returncode == several.returncode == 4
    assert len(several.stdout.splitlines()) == 1_299
    assert several.stdout == one.stdout
    assert several.stderr == one.stderr
    assert b"line 701: text:" in one.stderr
    assert one.stderr.count(b"context.exitcode") == 1


def test_a_killed_process_is_told_and_its_texts_are_not_taken_for_answered(long_file: Path) -> None:
    words = (sys.executable, "-c", "from watchkeeper.adapters.cli import main; main()", "triage")
    command = subprocess.Popen(
        (*words, "--jobs", "2", "--jsonl", str(long_file)),
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip
    watched = psutil.Process(command.pid)

    def workers() -> list[psutil.Process]:
        return [one for one in watched.children() if "spawn_main" in " ".join(one.cmdline())]

    assert ExponentialBackoff().wait_until(lambda: len(workers()) == 2, LIMIT)
    workers()[0].kill()
    _, said = command.communicate(timeout=LIMIT.total_seconds())
    assert command.returncode == 1
    assert b"was ended by SIGKILL" in said
    assert b"Traceback" not in said
