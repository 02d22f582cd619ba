"""Reads SQLite's write-ahead log on disk, to distinguish a torn end from damage.

SQLite silently drops everything from the first frame whose checksum is wrong. This is right for a
write that was cut off. It is a silent loss if a byte changed in something that was committed. This
module distinguishes the two before SQLite opens the file.

What was committed is known from two sources. The index next to the log (`-shm`) survives a kill of
every process but not a power loss. The log itself never has a frame after one that was cut off, so
a whole frame of the same generation after a wrong one means damage.

Formats: https://www.sqlite.org/fileformat2.html#walformat and https://www.sqlite.org/walformat.html.
"""

import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from watchkeeper.adapters.store.rest import sidecar

_MAGIC = (0x377F0682, 0x377F0683)
"""Magic numbers of a log with little-endian and with big-endian checksums."""

_VERSION = 3007000
_LOG_HEADER = struct.Struct(">6I2I")
_FRAME_HEADER = struct.Struct(">2I8s2I")
_INDEX_HEADER = struct.Struct("=IIIBBHII2I8s2I")

_MOVED = struct.Struct("=I")

_Sums = tuple[int, int]


@dataclass(frozen=True, slots=True)
class _Log:
    """The header of a log.

    Attributes:
        frame_bytes: Size of a frame: a page and its header.
        salts: Salts of this generation; every frame of it repeats them.
        order: How checksums read words: `<` or `>`.
        sums: Checksum of the header, which seeds the checksum of the first frame.
    """

    frame_bytes: int
    salts: bytes
    order: str
    sums: _Sums


@dataclass(frozen=True, slots=True)
class _Index:
    """The content of the index next to a log, for the generation with these salts.

    Attributes:
        frames: The number of committed frames.
        salts: Salts of the generation.
        sums: Checksum of the last frame that was committed.
        moved: How many of them are in the store's own file already.
    """

    frames: int
    salts: bytes
    sums: _Sums
    moved: int


def log_problem(path: Path) -> str | None:
    """Return what is damaged in the log of a store that no process has open.

    Returns:
        A sentence; None if all that was committed is there, or there is no log.

    Raises:
        OSError: A file could not be read.
    """
    log_path, _ = sidecar(path)
    index = _read_index(path.with_name(f"{path.name}-shm"))
    if not log_path.exists() or log_path.stat().st_size == 0:
        gone = index is not None and index.moved < index.frames
        return _sentence(log_path, "it is gone") if gone else None
    with log_path.open("rb") as file:
        log = _read_header(file)
        if log is None:
            # It is written before the first frame of its generation, and never again.
            kept = index.frames > 0 if index is not None else bool(file.read(1))
            what = "its header was changed" if kept else None
        elif index is not None and index.salts == log.salts:
            what = _loss_by_index(file, log, index)
        else:
            # The index is of another generation, as a power loss may leave it.
            what = _loss_by_order(file, log)
    return None if what is None else _sentence(log_path, what)


def _sentence(log_path: Path, what: str) -> str:
    return (
        f"{log_path.name}: {what}, by another program. SQLite would ignore all commits after "
        "that point."
    )


def _loss_by_index(file: BinaryIO, log: _Log, index: _Index) -> str | None:
    number = 0
    for number, sums in enumerate(_whole_frames(file, log), start=1):
        if number == index.frames and sums != index.sums:
            return f"frame {number} is not the one that was committed"
    if number < index.frames:
        return f"frame {number + 1} of {index.frames} that were committed was changed or is gone"
    return None


def _loss_by_order(file: BinaryIO, log: _Log) -> str | None:
    """Find a frame of the same generation after the first one that is not whole."""
    number = sum(1 for _ in _whole_frames(file, log))
    file.seek(_LOG_HEADER.size + (number + 1) * log.frame_bytes)
    while len(frame := file.read(log.frame_bytes)) == log.frame_bytes:
        if frame[8:16] == log.salts:
            return f"frame {number + 1} was changed: others of the same generation follow it"
    return None


def _whole_frames(file: BinaryIO, log: _Log) -> Iterator[_Sums]:
    """Yield the checksum of each frame up to the first that is not whole, as SQLite does."""
    sums = log.sums
    while len(frame := file.read(log.frame_bytes)) == log.frame_bytes:
        _, _, salts, first, second = _FRAME_HEADER.unpack_from(frame)
        sums = _checksum(frame[:8] + frame[_FRAME_HEADER.size :], sums, log.order)
        if salts != log.salts or sums != (first, second):
            return
        yield sums


def _read_header(file: BinaryIO) -> _Log | None:
    """Return a log's header; None if it is not the one that SQLite wrote."""
    data = file.read(_LOG_HEADER.size)
    if len(data) < _LOG_HEADER.size:
        return None
    magic, version, page_bytes, _, _, _, first, second = _LOG_HEADER.unpack(data)
    if magic not in _MAGIC or version != _VERSION:
        return None
    order = ">" if magic & 1 else "<"
    sums = _checksum(data[:24], (0, 0), order)
    if sums != (first, second):
        return None
    return _Log(_FRAME_HEADER.size + page_bytes, data[16:24], order, sums)


def _read_index(index_path: Path) -> _Index | None:
    """Return the index's content; None if it is missing, or was being written."""
    if not index_path.exists():
        return None
    with index_path.open("rb") as file:
        first, second = (file.read(_INDEX_HEADER.size) for _ in range(2))
        moved = file.read(_MOVED.size)
    # It is written twice, so that a reader sees when a writer was cut off.
    if len(moved) < _MOVED.size or first != second:
        return None
    version, _, _, ready, _, _, frames, _, sum0, sum1, salts, check0, check1 = _INDEX_HEADER.unpack(
        first
    )
    native = "<" if sys.byteorder == "little" else ">"
    whole = _checksum(first[:40], (0, 0), native) == (check0, check1)
    if version != _VERSION or not ready or not whole:
        return None
    return _Index(frames, salts, (sum0, sum1), _MOVED.unpack(moved)[0])


def _checksum(data: bytes, sums: _Sums, order: str) -> _Sums:
    """Continue SQLite's checksum over data whose length is a multiple of 8."""
    first, second = sums
    for one, two in struct.iter_unpack(f"{order}2I", data):
        first = (first + one + second) & 0xFFFFFFFF
        second = (second + two + first) & 0xFFFFFFFF
    return first, second
