"""Many lines of one file, answered by several processes, in the order of the lines.

A piece is the lines that begin within a range of bytes, so that nobody has to read the file before
it is given out. Each process answers pieces by the same code as one that answers all.
"""

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from io import BufferedReader
from itertools import pairwise
from pathlib import Path
from typing import Any

import click

from watchkeeper.adapters.bad_input import BadLine
from watchkeeper.adapters.cli.context_keys import KeysTold
from watchkeeper.adapters.cli.json_lines import answers, written
from watchkeeper.adapters.cli.leaving import Leave
from watchkeeper.adapters.processes import ProcessLost, Tell, cores, in_processes

PIECE_BYTES = 256 * 1024
"""Of one piece: a second of work where texts are long, and what one process is ahead of another."""

_SKIPPED_BYTES = 1024 * 1024

Door = Callable[[KeysTold], Callable[[bytes], dict[str, Any]]]
"""Makes what answers a line, from what tells of keys; a function of an imported module."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What each process is given.

    Attributes:
        path: A file that can be read from any place.
        door: Makes what answers a line.
        bytes_max: A longer line is not read.
        instead: What is told of a line that is too long.
    """

    path: Path
    door: Door
    bytes_max: int
    instead: str


@dataclass(frozen=True, slots=True)
class _Said:
    """A sentence for standard error.

    Attributes:
        line: Which of the piece's lines it is about, from 1.
        text: What is wrong with it, or the whole sentence where `key` is given.
        key: The key that is told of, once.
    """

    line: int
    text: str
    key: str = ""


@dataclass(slots=True)
class _Answered:
    """What a piece gave: its answers as they are written, its sentences, and its lines."""

    rows: list[bytes] = field(default_factory=list[bytes])
    said: list[_Said] = field(default_factory=list[_Said])
    lines: int = 0
    bad: int = 0


Piece = tuple[int, int | None]
"""Where it begins and ends, in bytes; the last one ends with the file, however far it grew."""


def pieces_of(size: int, piece_bytes: int) -> list[Piece]:
    """Return the pieces of a file of so many bytes.

    >>> pieces_of(5, piece_bytes=2)
    [(0, 2), (2, 4), (4, None)]
    """
    begins = list(range(0, max(size, 1), piece_bytes))
    return [*pairwise(begins), (begins[-1], None)]


def answer_pieces(reading: Reading, jobs: int | None, piece_bytes: int = PIECE_BYTES) -> int:
    """Answer a file's lines by several processes, in the order of the lines.

    Args:
        reading: What is read, and how.
        jobs: Processes, at most; none given: the cores at hand.
        piece_bytes: Of one piece.

    Returns:
        How many lines have no answer.

    Raises:
        Leave: A process was lost.
    """
    lines, bad, keys = 0, 0, KeysTold()
    # `/dev/stdin` is another file in another process.
    reading = replace(reading, path=reading.path.resolve())
    pieces = pieces_of(reading.path.stat().st_size, piece_bytes)
    try:
        for piece in _in_order(reading, pieces, jobs or cores()):
            sys.stdout.buffer.write(b"".join(piece.rows))
            sys.stdout.buffer.flush()
            for said in piece.said:
                if said.key:
                    keys.once(said.key, said.text)
                else:
                    click.echo(f"line {lines + said.line}: {said.text}", err=True)
            lines += piece.lines
            bad += piece.bad
    except ProcessLost as error:
        raise Leave(str(error), 1) from error
    return bad


def _in_order(reading: Reading, pieces: Sequence[Piece], jobs: int) -> Iterator[_Answered]:
    waiting: dict[int, _Answered] = {}
    following = 0
    with closing(in_processes(answered_pieces, reading, pieces, jobs)) as done:
        for place, piece in done:
            waiting[place] = piece
            while following in waiting:
                yield waiting.pop(following)
                following += 1


def answered_pieces(reading: Reading, pieces: Iterator[Piece], _tell: Tell) -> Iterator[_Answered]:
    """Answer each piece; what one of several processes does."""
    found = _Answered()
    answer = reading.door(KeysTold(lambda key, text: found.said.append(_Said(0, text, key))))
    with reading.path.open("rb") as file:
        for begin, end in pieces:
            found, part = _Answered(), Part(file, begin, end)
            for number, row in answers(part, reading.bytes_max, answer, reading.instead):
                if isinstance(row, BadLine):
                    found.bad += 1
                    found.said += [_Said(number, problem) for problem in row.problems]
                else:
                    found.rows.append(written(row))
            found.lines = part.lines
            yield found


class Part:
    """The lines of a file that begin within a range of bytes, without NULs.

    Attributes:
        lines: How many of them were read or begun.
    """

    def __init__(self, file: BufferedReader, begin: int, end: int | None) -> None:
        """Go to the first line that begins from `begin` on, and before `end` where there is one."""
        self.lines = 0
        self._file = file
        self._end = end
        self._within = False
        file.seek(0)
        if begin:
            self._skip(begin - 1)

    def _skip(self, place: int) -> None:
        """Leave out the line that holds a byte, of an earlier piece, as far as this piece goes."""
        self._file.seek(place)
        while (left := self._left()) > 0:
            skipped = self._file.readline(int(min(left, _SKIPPED_BYTES)))
            if not skipped or skipped.endswith(b"\n"):
                return

    def _left(self) -> float:
        """Return how many bytes are left in which a line may begin."""
        return math.inf if self._end is None else self._end - self._file.tell()

    def readline(self, size: int, /) -> bytes:
        """Return the next line, or so many bytes of it; none at the end."""
        line = b""
        while len(line) < size and not line.endswith(b"\n"):
            begins = not self._within
            if begins and self._left() <= 0:
                break
            read = self._file.readline(size - len(line))
            if not read:
                break
            self.lines += begins
            self._within = not read.endswith(b"\n")
            line += read.replace(b"\0", b"")
        return line
