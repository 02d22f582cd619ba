"""Temporary rows of views during a comparison, in an unnamed SQLite file."""

import sqlite3
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from typing import Self

from watchkeeper.ports.views import ViewsFailure


class ScratchFile:
    """See `watchkeeper.ports.views.Scratch` for the contract. Used by one thread.

    SQLite holds a few MB of it in memory, the rest in a file of the system's folder for temporary
    files (`SQLITE_TMPDIR`, `TMPDIR`), which is gone with the process, however that ends.
    """

    def __init__(self) -> None:
        """Begin with nothing; a file is made once there is too much for memory."""
        self._sql = sqlite3.connect("", isolation_level=None)
        # Its content after a crash is never needed.
        self._sql.execute("PRAGMA journal_mode = OFF")
        self._sql.execute("PRAGMA synchronous = OFF")
        self._sql.execute(
            "CREATE TABLE rows (view TEXT, key TEXT, row TEXT, PRIMARY KEY (view, key)) "
            "WITHOUT ROWID"
        )

    def __enter__(self) -> Self:
        """Use it for the length of a block."""
        return self

    def __exit__(self, *error: object) -> None:
        """Drop all of it."""
        self._sql.close()

    def put(self, view: str, rows: Mapping[str, str]) -> None:
        """Store rows of a view; each replaces an older one with its key."""
        with _named():
            self._sql.execute("BEGIN")
            self._sql.executemany(
                "INSERT OR REPLACE INTO rows VALUES (?, ?, ?)",
                ((view, key, row) for key, row in sorted(rows.items())),
            )
            self._sql.execute("COMMIT")

    def get(self, view: str, key: str) -> str | None:
        """Return a row of a view, if it is here."""
        with _named():
            found = self._sql.execute(
                "SELECT row FROM rows WHERE view = ? AND key = ?", (view, key)
            ).fetchone()
        return None if found is None else found[0]

    def rows(self, view: str) -> Iterator[tuple[str, str]]:
        """Yield all rows of a view in the order of the keys' bytes."""
        with _named():
            yield from self._sql.execute(
                "SELECT key, row FROM rows WHERE view = ? ORDER BY key", (view,)
            )


@contextmanager
def _named() -> Generator[None, None, None]:
    try:
        yield
    except sqlite3.Error as error:
        raise ViewsFailure(
            f"rows could not be written to a temporary file to compare views: {error}. Free "
            "space for temporary files, or set SQLITE_TMPDIR to another folder"
        ) from error
