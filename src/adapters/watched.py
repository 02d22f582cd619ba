"""Whether a watch process runs in a home on this host, asked without reading any event."""

import fcntl
import os
from pathlib import Path

WATCH_LOCK = "watch.lock"
"""The file in the home."""


def is_watched(home: Path) -> bool:
    """Say whether a watch runs in the home; a command that acts for a moment is none."""
    try:
        file = os.open(home / WATCH_LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        if not held_by(file).startswith("watch "):
            return False
        # Only a watch that was killed leaves its name without the lock, so it is seldom taken.
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(file)
    return False


def held_by(file: int) -> str:
    """Return what an open watch lock says of who holds it; `unknown` while that just begins."""
    return os.pread(file, 64, 0).decode(errors="replace").strip() or "unknown"
