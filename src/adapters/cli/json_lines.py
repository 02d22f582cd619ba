"""JSON lines in, one JSON line out for each: what the commands for programs share."""

import json
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from io import BufferedReader
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast

import click

from watchkeeper.adapters.bad_input import BadLine, visible
from watchkeeper.adapters.cli.leaving import Leave, leave_quietly
from watchkeeper.adapters.text_input import Arriving, NotText, text_of
from watchkeeper.domain.values.json_text import parse_json

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
"""Some editors begin a file with it; it says nothing."""

Command = TypeVar("Command", bound=Callable[..., Any])

_SHOWN_MAX = 120

SOURCE = click.Path(path_type=Path, dir_okay=False, allow_dash=True)
"""A file, or `-` for standard input."""

log_argument = click.argument("log", metavar="[FILE]", required=False, type=SOURCE)
"""Adds FILE: one log, for people."""


def lines_option(told: str, *, required: bool = False) -> Callable[[Command], Command]:
    """Add `--jsonl`: many to answer, one on each line; without a value, of standard input.

    Args:
        told: What stands on each line.
        required: Nothing else can be answered.
    """
    return click.option(
        "--jsonl",
        "lines",
        required=required,
        metavar="[FILE|-]",
        type=SOURCE,
        is_flag=False,
        flag_value="-",
        help=f"{told} Without FILE, or with -, standard input.",
    )


def opened(path: Path, stack: ExitStack, door: str) -> BufferedReader:
    """Open a `SOURCE` for as long as a stack is open; see `text_of`.

    Args:
        path: The file, or `-`.
        stack: Closes it.
        door: The command that reads it, up to the file, such as `watchkeeper triage`.

    Raises:
        Leave: It cannot be read, or it is no text.
    """
    if str(path) == "-" and sys.stdin.isatty():
        # Whoever forgot a file would see a command that stands still.
        click.echo(f"{door} reads lines from this terminal; end them with Ctrl-D", err=True)
    try:
        arriving = sys.stdin.buffer if str(path) == "-" else stack.enter_context(path.open("rb"))
    except OSError as error:
        raise Leave(f"{path}: {error.strerror}; give a file that can be read, or - ", 4) from error
    try:
        return text_of(cast("Arriving", arriving))
    except NotText as error:
        raise Leave(error.told(str(path), door), 4) from error


def tell_of_lines(path: Path, source: BufferedReader, keys: Sequence[str], door: str) -> None:
    """Tell on standard error where what is read as one log looks like many, one on each line.

    Args:
        path: The file, or `-`.
        source: As it was opened; nothing is taken from it.
        keys: Fields of which one of many has one, such as `text`.
        door: The command, such as `watchkeeper triage`.
    """
    if path.suffix != ".jsonl" and not _has_one(source.peek(1), keys):
        return
    expected = " or ".join(f'{{"id", "{key}"}}' for key in keys)
    click.echo(
        f"{path}: read as one log; where each line is one of many, {expected}, give "
        f"`{door} --jsonl {shlex.quote(str(path))}`",
        err=True,
    )


def _has_one(head: bytes, keys: Sequence[str]) -> bool:
    first, end, _ = head.removeprefix(BYTE_ORDER_MARK).lstrip().partition(b"\n")
    if not first.startswith(b"{"):
        return False
    try:
        found: dict[str, Any] = parse_json(first)
    except ValueError:
        # No JSON, or the first line is longer than what was read: then its keys tell.
        cut = not end
        return cut and any(f'"{key}":'.encode() in first for key in keys)
    # What begins like an object and is JSON is one.
    return any(isinstance(found.get(key), str) for key in keys)


class Lines(Protocol):
    """What lines are read from, such as an open file."""

    def readline(self, size: int, /) -> bytes:
        """Return the next line, or so many bytes of it; none at the end."""
        ...


def numbered(source: Lines, bytes_max: int) -> Iterator[tuple[int, bytes | None]]:
    """Yield each line that is not empty with its number; none for one that is too long.

    A byte order mark before the first line is left out.
    """
    number = 0
    while line := source.readline(bytes_max):
        number += 1
        whole = line
        while len(whole) == bytes_max and not whole.endswith(b"\n"):
            whole = source.readline(bytes_max)
            line = b""
        if not line:
            yield number, None
            continue
        if number == 1:
            line = line.removeprefix(BYTE_ORDER_MARK)
        if line.strip():
            yield number, line


def answer_each(
    source: Lines, bytes_max: int, answer: Callable[[bytes], dict[str, Any]], instead: str
) -> int:
    """Answer line by line; tell of those that cannot be answered on standard error.

    Args:
        source: The lines.
        bytes_max: A longer line is not read, so that memory stays constant.
        answer: Returns a line's answer; raises `BadLine` where it has none.
        instead: What is told of a line that is too long: what to give instead.

    Returns:
        How many lines have no answer.
    """
    bad = 0
    for number, row in answers(source, bytes_max, answer, instead):
        if isinstance(row, BadLine):
            bad += 1
            for problem in row.problems:
                click.echo(f"line {number}: {problem}", err=True)
        else:
            write_row(row)
    return bad


def answers(
    source: Lines, bytes_max: int, answer: Callable[[bytes], dict[str, Any]], instead: str
) -> Iterator[tuple[int, dict[str, Any] | BadLine]]:
    """Yield the number of each line, from 1, and its answer or why it has none.

    Args:
        source: The lines.
        bytes_max: A longer line is not read.
        answer: Returns a line's answer; raises `BadLine` where it has none.
        instead: What is told of a line that is too long: what to give instead.
    """
    for number, line in numbered(source, bytes_max):
        if line is None:
            yield number, BadLine(f"longer than {bytes_max} bytes; {instead}")
            continue
        try:
            row = _answered(answer, line)
        except BadLine as error:
            yield number, error
        else:
            yield number, row


def _answered(answer: Callable[[bytes], dict[str, Any]], line: bytes) -> dict[str, Any]:
    """Answer a line; a number or a time that nothing can be reckoned with is this line's own."""
    try:
        return answer(line)
    except ArithmeticError as error:
        told = visible(str(error))[:_SHOWN_MAX]
        raise BadLine(
            f"a value is out of range ({told}); expected whole numbers below 2^53 and times from "
            "2000 to 2200"
        ) from error


def leave_if(bad: int) -> None:
    """End with the exit code of bad input where lines have no answer."""
    if bad:
        click.echo(f"{bad} {'line' if bad == 1 else 'lines'} not answered", err=True)
        leave_quietly(4)


def write_row(row: dict[str, Any]) -> None:
    """Write an answer at once: whoever asks line by line waits for it."""
    sys.stdout.buffer.write(written(row))
    sys.stdout.buffer.flush()


def written(row: dict[str, Any]) -> bytes:
    """Return an answer as it is written."""
    text = json.dumps(row, ensure_ascii=False) + "\n"
    # Half a character in an id stays what it was: an escape.
    return text.encode("utf-8", "backslashreplace")
