"""Checks whether a watch runs in a home on this host, without reading events."""

import fcntl
import os
from pathlib import Path

WATCH_LOCK = "watch.lock"
"""The file in the home."""


def is_watched(home: Path) -> bool:
    """Return whether a watch runs in the home; a short command does not count."""
    return watch_pid(home) is not None


def watch_pid(home: Path) -> int | None:
    """Return the process id of the watch that runs in the home; None if no watch runs."""
    try:
        file = os.open(home / WATCH_LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        role, _, pid = held_by(file).partition(" ")
        if role != "watch":
            return None
        try:
            # Only a watch that was killed leaves its name without the lock, so it is seldom taken.
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return int(pid)
    finally:
        os.close(file)
    return None


def held_by(file: int) -> str:
    """Return the holder named in an open watch lock; `unknown` while the holder starts."""
    return os.pread(file, 64, 0).decode(errors="replace").strip() or "unknown"
