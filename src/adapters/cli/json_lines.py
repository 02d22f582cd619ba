"""JSON lines in, one JSON line out for each: shared by program commands."""

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
"""The UTF-8 byte order mark, which some editors write at the start of a file."""

Command = TypeVar("Command", bound=Callable[..., Any])

_SHOWN_MAX = 120

SOURCE = click.Path(path_type=Path, dir_okay=False, allow_dash=True)
"""Option type: a file, or `-` for standard input."""

log_argument = click.argument("log", metavar="[FILE]", required=False, type=SOURCE)
"""Adds FILE: one log, for people."""


def lines_option(each_line: str, *, required: bool = False) -> Callable[[Command], Command]:
    """Add `--jsonl`: many inputs, one on each line. Without a value it reads standard input.

    Args:
        each_line: Help sentence on the content of each line.
        required: Whether the command has no other input.
    """
    return click.option(
        "--jsonl",
        "lines",
        required=required,
        metavar="[FILE|-]",
        type=SOURCE,
        is_flag=False,
        flag_value="-",
        help=f"{each_line} Without FILE, or with -, read standard input.",
    )


def opened(path: Path, stack: ExitStack, door: str) -> BufferedReader:
    """Open a `SOURCE` and register its close on a stack. See `text_of`.

    Args:
        path: The file, or `-`.
        stack: Closes the file.
        door: The command line before the file name, such as `watchkeeper tools triage`.

    Raises:
        Leave: The file cannot be read, or it is not text.
    """
    if str(path) == "-" and sys.stdin.isatty():
        # A user who forgot the file would see a command that hangs.
        click.echo(f"{door} reads lines from this terminal; finish with Ctrl-D", err=True)
    try:
        arriving = sys.stdin.buffer if str(path) == "-" else stack.enter_context(path.open("rb"))
    except OSError as error:
        raise Leave(f"{path}: {error.strerror}; give a readable file, or - ", 4) from error
    try:
        return text_of(cast("Arriving", arriving))
    except NotText as error:
        raise Leave(error.reported(str(path), door), 4) from error


def report_lines(path: Path, source: BufferedReader, keys: Sequence[str], door: str) -> None:
    """Warn on standard error if one log looks like JSON lines.

    Args:
        path: The file, or `-`.
        source: The open file. Its position does not change.
        keys: Fields that mark a JSON line, such as `text`.
        door: The command, such as `watchkeeper tools triage`.
    """
    if path.suffix != ".jsonl" and not _has_one(source.peek(1), keys):
        return
    expected = " or ".join(f'{{"id", "{key}"}}' for key in keys)
    click.echo(
        f"{path}: this file is read as one log; if each line is a separate item, {expected}, "
        f"use `{door} --jsonl {shlex.quote(str(path))}`",
        err=True,
    )


def _has_one(head: bytes, keys: Sequence[str]) -> bool:
    first, end, _ = head.removeprefix(BYTE_ORDER_MARK).lstrip().partition(b"\n")
    if not first.startswith(b"{"):
        return False
    try:
        found: dict[str, Any] = parse_json(first)
    except ValueError:
        # Not JSON, or a first line longer than the part that was read: look for its keys.
        cut = not end
        return cut and any(f'"{key}":'.encode() in first for key in keys)
    # JSON that begins with a brace is an object.
    return any(isinstance(found.get(key), str) for key in keys)


class Lines(Protocol):
    """A source of lines, such as an open file."""

    def readline(self, size: int, /) -> bytes:
        """Return the next line, or its first `size` bytes. It is empty at the end."""
        ...


def numbered(source: Lines, bytes_max: int) -> Iterator[tuple[int, bytes | None]]:
    """Yield the number and bytes of each nonempty line, or `None` for a line that is too long.

    A byte order mark before the first line is skipped.
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
    """Answer line by line, and report lines without an answer on standard error.

    Args:
        source: The lines.
        bytes_max: Longer lines are not read, so that memory stays constant.
        answer: Returns a line's answer, or raises `BadLine`.
        instead: Advice on what to use instead of a line that is too long.

    Returns:
        Number of lines without an answer.
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
    """Yield the number of each line, from 1, with its answer or its error.

    Args:
        source: The lines.
        bytes_max: Longer lines are not read.
        answer: Returns a line's answer, or raises `BadLine`.
        instead: Advice on what to use instead of a line that is too long.
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
    """Answer a line. An arithmetic error becomes a `BadLine` of this line only."""
    try:
        return answer(line)
    except ArithmeticError as error:
        reason = visible(str(error))[:_SHOWN_MAX]
        raise BadLine(
            f"a value is out of range ({reason}); expected whole numbers below 2^53 and times from "
            "2000 to 2200"
        ) from error


def leave_if(bad: int) -> None:
    """Exit with the code for bad input if any line has no answer."""
    if bad:
        click.echo(f"{bad} {'line' if bad == 1 else 'lines'} not answered", err=True)
        leave_quietly(4)


def write_row(row: dict[str, Any]) -> None:
    """Write and flush an answer, because a program that sends single lines waits for it."""
    sys.stdout.buffer.write(written(row))
    sys.stdout.buffer.flush()


def written(row: dict[str, Any]) -> bytes:
    """Return an answer as one JSON line."""
    text = json.dumps(row, ensure_ascii=False) + "\n"
    # A lone surrogate in an id stays an escape, as in the input.
    return text.encode("utf-8", "backslashreplace")
