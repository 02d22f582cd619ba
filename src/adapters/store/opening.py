"""Opens a store with shared use; creates or prepares it first if needed."""

import os
import sqlite3
from datetime import timedelta
from pathlib import Path

from watchkeeper.adapters.store.database import Database
from watchkeeper.adapters.store.failures import failures_named, not_writable
from watchkeeper.adapters.store.lock import USE_LIMIT, UseLock
from watchkeeper.adapters.store.log import log_problem
from watchkeeper.adapters.store.rest import (
    remove_rest,
    rest_path,
    rest_problem,
    sync_folder,
    unsettled,
)
from watchkeeper.adapters.store.schema import SQLITE_MIN, is_ready, prepare
from watchkeeper.clock import Deadline, ExponentialBackoff, sleep
from watchkeeper.ports.event_store import StoreFailure

CHECKED_BYTES_MAX = 256 * 1024 * 1024
"""Larger stores are not read whole at each opening, which takes some 0.2 s for this size."""


def open_database(path: Path, *, busy_limit: timedelta) -> Database:
    """Open a store; create it if it is missing.

    Raises:
        StoreFailure: It could not be opened; the message says what to do.
    """
    if sqlite3.sqlite_version_info < SQLITE_MIN:
        raise StoreFailure(
            f"{path}: SQLite {sqlite3.sqlite_version} is too old, "
            f"{'.'.join(map(str, SQLITE_MIN))} or newer is required. Nothing was stored. Use "
            "a Python with a newer SQLite."
        )
    if not path.parent.is_dir():
        raise StoreFailure(
            f"{path}: its folder does not exist. Nothing was stored. Create {path.parent} or "
            "choose another file."
        )
    if path.exists() and not os.access(path, os.W_OK):
        # SQLite would open it for reading and refuse at the first write.
        raise StoreFailure(
            f"{path}: it is not writable. Nothing was stored. "
            + (not_writable(path) or "Check that this user may read and write the file.")
        )
    try:
        lock = UseLock(path, create=True)
    except OSError as error:
        raise _not_opened(path, error) from error
    try:
        _enter(path, lock, busy_limit)
        return Database(path, lock, busy_limit)
    except OSError as error:
        lock.close()
        raise _not_opened(path, error) from error
    except BaseException:
        lock.close()
        raise


def database_at_rest(path: Path, *, busy_limit: timedelta) -> Database | None:
    """Open a store read-only that is at rest on a mount that cannot be written.

    A folder may be mounted so that this process cannot write and another can. So the lock is owned
    while it is open, which keeps writers out. Every byte must also match the digest: only then does
    SQLite, without its files next to the store, read what is stored.

    Returns:
        The open store; None if a condition fails, and it must be opened like any other store.

    Raises:
        StoreFailure: This code does not know its format.
    """
    try:
        if not os.statvfs(path.parent).f_flag & os.ST_RDONLY:
            return None
        lock = UseLock(path, create=False)
    except OSError:
        # Missing, or without a lock file: the usual way reports what is wrong.
        return None
    try:
        if lock.own() and rest_path(path).is_file() and rest_problem(path) is None:
            return Database(path, lock, busy_limit, at_rest=True)
    except OSError:
        # For example, a network file system may give this lock only to writers.
        pass
    except BaseException:
        lock.close()
        raise
    lock.close()
    return None


def _not_opened(path: Path, error: OSError) -> StoreFailure:
    advice = not_writable(path) or (
        "Check that this user may write in its folder and that the disk is mounted writable, then "
        "try again."
    )
    return StoreFailure(f"{path}: open failed: {error}. Nothing was stored. {advice}")


def _enter(path: Path, lock: UseLock, busy_limit: timedelta) -> None:
    """Share the lock of a prepared store; prepare it if no other process is about to."""
    deadline, backoff = Deadline.after(USE_LIMIT), ExponentialBackoff()
    with failures_named(path, "open"):
        while True:
            if lock.own():
                _refuse_if_log_damaged(path)
            lock.share(deadline.remaining())
            if is_ready(path, busy_limit=busy_limit):
                _refuse_if_changed(path, lock)
                lock.share(deadline.remaining())
                return
            if lock.own():
                _prepare(path, busy_limit)
                continue
            # Others came at the same moment; one of them owns it, or will at its next attempt.
            if deadline.expired():
                raise StoreFailure(
                    f"{path}: other processes blocked its preparation. Nothing was stored. "
                    f"Find them with `fuser {path}`, stop them, then try again."
                )
            sleep(backoff.next_wait())


def _refuse_if_log_damaged(path: Path) -> None:
    """Refuse before SQLite drops committed data; the caller owns the store alone."""
    problem = log_problem(path)
    if problem is not None:
        raise StoreFailure(
            f"{path}: {problem} Nothing was stored. First copy every file whose name begins "
            f"with {path.name}. Then restore a backup, or accept the loss with `sqlite3 "
            f"{path} 'PRAGMA wal_checkpoint'`, and compare with the heads in the pushed "
            "logbooks."
        )


def _refuse_if_changed(path: Path, lock: UseLock) -> None:
    """Refuse a store that was changed while it was at rest, before a write hides the change."""
    if not rest_path(path).is_file():
        return
    if path.stat().st_size > CHECKED_BYTES_MAX or not lock.own() or not rest_path(path).is_file():
        return
    problem = rest_problem(path)
    if problem is not None:
        raise StoreFailure(
            f"{path}: {problem} Nothing was stored. Run `watchkeeper verify`, restore a backup if "
            f"it says broken; removing {rest_path(path).name} accepts the file as it is."
        )


def _prepare(path: Path, busy_limit: timedelta) -> None:
    _refuse_if_lost(path)
    remove_rest(path)
    prepare(path, busy_limit=busy_limit)
    # SQLite makes the content durable, but not the file's name.
    sync_folder(path.parent)


def _refuse_if_lost(path: Path) -> None:
    """Refuse to create a store where one was lost."""
    if path.exists() and path.stat().st_size > 0:
        return
    left = [rest_path(path)] if rest_path(path).exists() else []
    # An empty file with a journal is a store whose creation was interrupted.
    left += [] if path.exists() else unsettled(path)
    if not left:
        return
    names = " and ".join(file.name for file in left)
    raise StoreFailure(
        f"{path}: the store is missing or empty, but {names} still exists. Nothing was "
        f"stored. Restore the store from a backup, or remove {names} to start with an empty "
        "one."
    )
