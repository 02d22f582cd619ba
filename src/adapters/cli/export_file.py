"""Export files: written atomically for their owner, read by line or by run."""

import gzip
import os
import sqlite3
import zlib
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO

from watchkeeper.adapters.cli.leaving import Leave
from watchkeeper.services.ledger.import_ import Line
from watchkeeper.services.ledger.replay import History

_SQLITE, _DUMP, _GZIP = b"SQLite format 3\0", b"PGDMP", b"\x1f\x8b"
"""Magic bytes of other kinds of files."""


@contextmanager
def writing(path: Path) -> Generator[IO[bytes], None, None]:
    """Write a file completely or not at all. A file name that ends in .gz means compression.

    Only its owner can read the file, as with a backup, because it holds all recorded data.
    """
    if not path.parent.is_dir():
        raise Leave(f"{path.parent} is not a folder: create it, or choose another file", 4)
    new = path.with_name(f"{path.name}.new")
    try:
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600), "wb") as raw:
            # A file that a killed export left would otherwise keep its mode.
            os.fchmod(raw.fileno(), 0o600)
            raw.truncate()
            if path.suffix == ".gz":
                # No name and no time in the header, so that the same ledger gives the same bytes.
                with gzip.GzipFile("", "wb", 6, raw, mtime=0) as packed:
                    yield packed  # type: ignore[misc]  # It writes bytes, which is all that is used.
            else:
                yield raw
            raw.flush()
            os.fsync(raw.fileno())
        new.replace(path)
    except OSError as error:
        new.unlink(missing_ok=True)
        raise Leave(f"{path} could not be written: {error}", 2) from error
    except BaseException:
        new.unlink(missing_ok=True)
        raise


@contextmanager
def reading(path: Path) -> Generator[Iterator[bytes], None, None]:
    """Yield the lines of an export. A file name that ends in .gz means compression.

    Raises:
        Leave: The file cannot be read, is damaged, or is of another kind.
    """
    packed = path.suffix == ".gz"
    try:
        with path.open("rb") as file:
            _refuse_others(path, file.read(len(_SQLITE)), packed)
        with gzip.open(path, "rb") if packed else path.open("rb") as file:
            yield iter(file)
    except (gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise Leave(
            f"{path} is damaged and cannot be unpacked: {error}: use another copy, or write "
            "the file again with `watchkeeper ledger export`",
            4,
        ) from error
    except OSError as error:
        raise Leave(f"{path} cannot be read: {error}", 4) from error


def _refuse_others(path: Path, begins: bytes, packed: bool) -> None:
    """Refuse a file whose first bytes show that it is not an export.

    Raises:
        Leave: The file is of another kind. The message says what to do with it.
    """
    if begins.startswith((_SQLITE, _DUMP)):
        where = "in a file" if begins.startswith(_SQLITE) else "on PostgreSQL"
        raise Leave(
            f"{path}: this is a backup of a ledger {where}, not an export: restore it into a "
            f"new home with `watchkeeper ledger restore {path} --home HOME`, then continue "
            "there: `watchkeeper ledger replay --all --home HOME` or `watchkeeper ledger "
            "export --home HOME`",
            4,
        )
    if packed and begins and not begins.startswith(_GZIP):
        raise Leave(f"{path}: the file is not compressed: remove .gz from its name", 4)
    if not packed and begins.startswith(_GZIP):
        raise Leave(f"{path}: the file is compressed: add .gz to its name", 4)


class Spare:
    """A temporary database with the events of an export, to read them run by run.

    The database has no name. SQLite keeps it in a temporary file that no other process can open
    and that disappears with the process, however it ends.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        """Create the empty table."""
        self._sql = connection
        self._sql.execute("PRAGMA journal_mode = OFF")
        self._sql.execute(
            "CREATE TABLE events (stream TEXT, version INTEGER, topic TEXT, state BLOB, hash BLOB,"
            " PRIMARY KEY (stream, version)) STRICT"
        )

    def put(self, lines: Iterable[Line]) -> None:
        """Store the events of some lines."""
        rows = ((one.stream, one.version, one.topic, one.state, one.hash) for one in lines)
        self._sql.execute("BEGIN")
        self._sql.executemany("INSERT INTO events VALUES (?, ?, ?, ?, ?)", rows)
        self._sql.execute("COMMIT")

    def slugs(self) -> list[str]:
        """Return the names of all runs, sorted."""
        asked = "SELECT DISTINCT stream FROM events WHERE stream >= 'run/' AND stream < 'run0'"
        return sorted(stream.removeprefix("run/") for (stream,) in self._sql.execute(asked))

    def histories(self, slugs: Iterable[str]) -> Iterator[History]:
        """Yield the histories of some runs, with one in memory at a time."""
        for slug in slugs:
            yield History(slug, self._of(f"run/{slug}"), self._of(f"effects/{slug}"))

    def _of(self, stream: str) -> list[Line]:
        asked = "SELECT * FROM events WHERE stream = ? ORDER BY version"
        return [Line(*row) for row in self._sql.execute(asked, (stream,))]


@contextmanager
def spare() -> Generator[Spare, None, None]:
    """Yield a temporary database for events, and remove it after the block.

    Raises:
        Leave: The disk has no room for the events.
    """
    try:
        with closing(sqlite3.connect("", isolation_level=None)) as connection:
            yield Spare(connection)
    except sqlite3.Error as error:
        raise Leave(
            f"the export could not be unpacked to a temporary file: {error}: set "
            "SQLITE_TMPDIR to a folder with enough space",
            2,
        ) from error
