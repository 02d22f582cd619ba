"""Explains SQLite's errors: what failed, that nothing was stored, what to do."""

import os
import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from watchkeeper.ports.event_store import StoreFailure, StoreUnavailable

_PRIMARY = 0xFF
"""SQLite's extended result codes hold the primary one in their lowest byte."""

_NOT_WRITABLE = (
    "Check that this user may write the file and its folder, and that the disk is mounted writable."
)
_DAMAGED = (
    "The file is damaged or not a watchkeeper store: stop everything that writes to it, run "
    "`watchkeeper verify`, and restore it from a backup."
)
_DISK = "Check the disk, its quota and the limit on file sizes, then try again."
_OTHERWISE = "Try again; if it fails again, run `watchkeeper verify`."

_HELD = "Another process holds it: wait for it or stop it, then try again."

_LOCKED = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
"""Nothing is wrong with the file: a caller that can wait continues once it is free."""

_ADVICE = {
    sqlite3.SQLITE_FULL: "Free space on its disk, then try again.",
    sqlite3.SQLITE_BUSY: _HELD,
    sqlite3.SQLITE_LOCKED: _HELD,
    sqlite3.SQLITE_CORRUPT: _DAMAGED,
    sqlite3.SQLITE_NOTADB: _DAMAGED,
    sqlite3.SQLITE_READONLY: _NOT_WRITABLE,
    sqlite3.SQLITE_PERM: _NOT_WRITABLE,
    sqlite3.SQLITE_CANTOPEN: _NOT_WRITABLE,
    sqlite3.SQLITE_IOERR: _DISK,
}


_WRITES = {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_CANTOPEN}

SqliteError = sqlite3.Error | UnicodeDecodeError
"""Errors of a statement; the second occurs if SQLite's own message quotes damaged bytes."""

SQLITE_ERRORS = (sqlite3.Error, UnicodeDecodeError)
"""The same, to catch."""


def extended_code(error: SqliteError) -> int:
    """Return SQLite's extended result code; 0 when Python raised the error and means misuse."""
    # Python sets the attribute only on errors that SQLite reported. Its own ones of these two
    # types say that stored text is no UTF-8.
    damaged = isinstance(error, UnicodeDecodeError | sqlite3.OperationalError)
    code: int = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT if damaged else 0)
    return code


def primary_code(error: SqliteError) -> int:
    """Return SQLite's primary result code; 0 when Python raised the error and means misuse."""
    return extended_code(error) & _PRIMARY


def failure(error: SqliteError, path: Path, doing: str) -> StoreFailure:
    """Put an error of SQLite into a sentence.

    Args:
        error: What SQLite raised.
        path: The store.
        doing: What was under way, such as `append`.
    """
    code = primary_code(error)
    advice = (code in _WRITES and not_writable(path)) or _ADVICE.get(code, _OTHERWISE)
    kind = StoreUnavailable if is_locked(error) else StoreFailure
    return kind(f"{path}: {doing} failed: {error}. Nothing was stored. {advice}")


def not_writable(path: Path) -> str:
    """Return a sentence if a store cannot be written; empty if it can, or is missing.

    SQLite needs to write files next to a store even to read it.
    """
    writable = os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)
    if writable or not os.access(path, os.R_OK):
        return ""
    what = "The file" if os.access(path.parent, os.W_OK) else "This folder"
    return (
        f"{what} can't be written to; the ledger may be intact. Check that this user may "
        "write the file and its folder and that the disk is mounted writable; or copy the "
        "whole folder to a writable place, and use the copy with --home."
    )


def is_locked(error: SqliteError) -> bool:
    """Return whether another process held a file for longer than the time limit."""
    return primary_code(error) in _LOCKED


@contextmanager
def failures_named(path: Path, doing: str) -> Generator[None, None, None]:
    """Turn every error of SQLite inside the block into a `StoreFailure`."""
    try:
        yield
    except SQLITE_ERRORS as error:
        raise failure(error, path, doing) from error
