"""Copies of an SQLite store: made while it is in use, restored while it is not."""

import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from watchkeeper.adapters.store.failures import SQLITE_ERRORS, failure
from watchkeeper.adapters.store.lock import UseLock
from watchkeeper.adapters.store.rest import (
    remove_rest,
    rest_path,
    sidecar,
    sync_folder,
    unsettled,
    write_rest,
)
from watchkeeper.adapters.store.schema import connect
from watchkeeper.adapters.store.verify import verify_store
from watchkeeper.ports.event_store import StoreFailure

PAGES = 2_000
"""Pages of SQLite copied at a time, some 8 MB: between them others may write."""


class BackupProblem(Exception):
    """A copy could not be made or restored. The message says why and what to do."""


class LedgerBroken(BackupProblem):
    """The ledger itself is broken, so no copy of it is kept."""


class LedgerInUse(BackupProblem):
    """Others use the ledger that a copy should replace."""


def back_up(
    path: Path, to: Path, reported: Callable[[int, int], None] = lambda _a, _b: None
) -> int:
    """Copy a store that may be in use into a separate file, whole or not at all.

    The copy is at rest: the digest of its bytes is next to it. Positions are kept.

    Args:
        path: The store.
        to: The copy; must not exist.
        reported: Called with the number of copied pages, and of all pages.

    Returns:
        The number of events in it, after it was verified.

    Raises:
        BackupProblem: The file exists, or the copy is not whole.
        StoreFailure: The store could not be read, or the copy not written.
    """
    if to.exists():
        raise BackupProblem(f"{to} exists: choose a new name, or move the old file")
    if not to.parent.is_dir():
        raise BackupProblem(f"{to.parent} is not a folder: create it, or choose another file")
    if not path.is_file():
        raise StoreFailure(f"{path}: no store to copy.")
    new = to.with_name(f"{to.name}.new")
    new.unlink(missing_ok=True)
    try:
        # Everything that was ever recorded: for its owner, wherever it is put.
        os.close(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        with (
            closing(connect(path, parameters="mode=ro")) as source,
            closing(sqlite3.connect(new)) as target,
        ):
            source.backup(
                target, pages=PAGES, progress=lambda _, left, whole: reported(whole - left, whole)
            )
            # One file: a copy in WAL mode would need two more files to be read.
            target.execute("PRAGMA journal_mode = DELETE").fetchall()
        with new.open("rb") as file:
            os.fsync(file.fileno())
    except SQLITE_ERRORS as error:
        new.unlink(missing_ok=True)
        raise failure(error, path, "back up") from error
    except OSError as error:
        new.unlink(missing_ok=True)
        raise StoreFailure(f"{to}: the copy could not be written: {error}") from error
    report = verify_store(new)
    if report.problems:
        new.unlink(missing_ok=True)
        first = report.problems[0].message
        raise LedgerBroken(f"{path} is broken, so no copy was kept: {first}")
    new.replace(to)
    write_rest(to)
    return report.events


def restore(copy: Path, path: Path, stamp: str) -> tuple[int, Path | None]:
    """Replace a store with a copy while no process uses it; the old file is kept next to it.

    Args:
        copy: Made by `back_up`.
        path: The store's file.
        stamp: Part of the name under which the old one is kept, such as a time.

    Returns:
        The number of events in the copy, and the old file, or None if there was no old file.

    Raises:
        BackupProblem: The copy is broken, or the store is in use.
        StoreFailure: The copy cannot be read, or the store cannot be replaced.
    """
    report = verify_store(copy)
    if report.problems:
        raise BackupProblem(f"{copy} is broken, nothing was changed: {report.problems[0].message}")
    try:
        lock = UseLock(path, create=True)
    except OSError as error:
        raise StoreFailure(f"{path}: {error}: nothing was changed") from error
    try:
        if not lock.own():
            raise LedgerInUse(
                f"{path} is in use: stop the watch and all other commands of its home, then "
                "try again. Nothing was changed"
            )
        return report.events, _put(copy, path, stamp)
    except OSError as error:
        raise StoreFailure(f"{path} could not be replaced: {error}") from error
    finally:
        lock.close()


def _put(copy: Path, path: Path, stamp: str) -> Path | None:
    """Replace the file in one step; a crash before it leaves a store that refuses to be opened."""
    new = path.with_name(f"{path.name}.restored")
    shutil.copyfile(copy, new)
    with new.open("rb") as copied:
        os.fsync(copied.fileno())
    old: Path | None = None
    if path.exists():
        old = _unused(path.with_name(f"{path.name}.before-{stamp}"))
        os.link(path, old)
    # The copy's digest, next to a store without it: until the store has it, no process opens it.
    if write_rest(new):
        rest_path(new).replace(rest_path(path))
    else:
        remove_rest(path)
    for left in unsettled(path):
        # Its log belongs to the old file: SQLite must never find it next to the new one.
        if old is not None:
            left.replace(path.with_name(left.name.replace(path.name, old.name, 1)))
    for left in (*sidecar(path), path.with_name(f"{path.name}-shm")):
        left.unlink(missing_ok=True)
    new.replace(path)
    sync_folder(path.parent)
    return old


def _unused(path: Path) -> Path:
    """Return a name that no file has; a second try in one second needs one, too."""
    number, free = 1, path
    while free.exists():
        number += 1
        free = path.with_name(f"{path.name}-{number}")
    return free
