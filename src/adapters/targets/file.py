"""A JSON-lines file as a target: one CloudEvent in structured mode on each line."""

import errno
import fcntl
import json
import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from watchkeeper.domain.values.cloud_event import CloudEvent
from watchkeeper.ports.sources import Unavailable
from watchkeeper.projections.published.cloud_event import structured

BATCH_MAX = 500
"""Events in one write: a page of the ledger."""

_BEGINS = b'{"specversion":"1.0",'
"""The start of every line of ours."""

_BLOCK = 65_536


class FileTarget:
    """Appends events to one file.

    The file is opened again for each batch, so that it may be rotated by renaming. A last line that
    a crash left torn is cut off, and events that the file already holds are not written again. Both
    are checked in the file itself, under a lock.

    Args:
        path: The file; its folder exists.
        key: See `EventTarget`.
    """

    batch_max = BATCH_MAX

    def __init__(self, path: Path, key: str) -> None:
        """Touch nothing until the first batch."""
        self._path = path
        self.name = f"file://{path}"
        self.key = key

    def send(self, events: Sequence[CloudEvent]) -> None:
        """Append events that the file lacks, durably; see the port."""
        try:
            with _locked(self._path) as file:
                self._append(file, events)
        except BlockingIOError as error:
            raise Unavailable(self.name, "another process writes to it") from error
        except OSError as error:
            raise Unavailable(self.name, f"{error.strerror or error}") from error

    def close(self) -> None:
        """Hold nothing, so nothing is let go of; see the port."""

    def _append(self, file: int, events: Sequence[CloudEvent]) -> None:
        size = os.fstat(file).st_size
        if size and not _BEGINS.startswith(os.pread(file, len(_BEGINS), 0)[: len(_BEGINS)]):
            # Cutting a torn line off someone's notes, or a ledger, would destroy them.
            raise Unavailable(self.name, "it holds something other than events: use a new file")
        whole, last = _last_line(file, size)
        if whole < size:
            os.ftruncate(file, whole)
        held = [place for place, event in enumerate(events) if event.id == last]
        new = events[held[-1] + 1 :] if held else events
        try:
            _write_all(file, b"".join(structured(event) + b"\n" for event in new), whole)
            os.fsync(file)
        except OSError:
            # Of a full disk: a part of the batch is no use to a reader.
            os.ftruncate(file, whole)
            raise
        if not whole:
            _sync_folder(self._path.parent)


@contextmanager
def _locked(path: Path) -> Generator[int, None, None]:
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield file
    finally:
        os.close(file)


def _last_line(file: int, size: int) -> tuple[int, str]:
    """Return where the last whole line ends, and the id of its event."""
    tail = b""
    start = size
    while start and tail.count(b"\n") < 2:
        start = max(0, start - _BLOCK)
        tail = os.pread(file, size - start, start)
    ends = tail.rfind(b"\n") + 1
    line = tail[:ends].rstrip(b"\n").rpartition(b"\n")[2]
    try:
        found = str(json.loads(line)["id"])
    except (ValueError, KeyError, TypeError):
        found = ""
    return start + ends, found


def _write_all(file: int, content: bytes, at: int) -> None:
    rest = memoryview(content)
    while rest:
        written = os.pwrite(file, rest, at)
        if not written:
            raise OSError(errno.EIO, "nothing could be written")
        rest, at = rest[written:], at + written


def _sync_folder(folder: Path) -> None:
    file = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)
