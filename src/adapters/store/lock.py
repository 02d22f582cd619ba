"""The file lock of a store: shared by its users, or exclusive.

SQLite's own locks show who writes at this moment. This lock shows whether any process has the store
open. If no process has, the file is at rest, and a digest can cover the whole file.
"""

import fcntl
import os
from datetime import timedelta
from pathlib import Path

from watchkeeper.clock import ExponentialBackoff
from watchkeeper.ports.event_store import StoreFailure

USE_LIMIT = timedelta(seconds=60)
"""How long to wait for an exclusive owner, which reads at most 1 GiB once."""


def lock_path(path: Path) -> Path:
    """Return the lock file that belongs to a store."""
    return path.with_name(f"{path.name}.lock")


class UseLock:
    """A store's lock file, for `flock`. Locks of one process exclude each other too."""

    def __init__(self, path: Path, *, create: bool) -> None:
        """Open the lock file of a store, without taking the lock.

        Raises:
            OSError: It is missing and must not be created, or may not be opened.
        """
        self._path = lock_path(path)
        # The file is never written, and an auditor may have no permission to write.
        flags = os.O_RDWR | os.O_CREAT if create else os.O_RDONLY
        self._descriptor: int | None = os.open(self._path, flags | os.O_CLOEXEC, 0o600)

    def share(self, limit: timedelta = USE_LIMIT) -> None:
        """Take the lock shared, also as a downgrade from exclusive.

        Raises:
            StoreFailure: Another process held it exclusively for longer than the limit.
        """
        if not ExponentialBackoff().wait_until(lambda: self._take(fcntl.LOCK_SH), limit):
            raise StoreFailure(
                f"{self._path}: another process has owned the store for more than "
                f"{limit.total_seconds():g} s. Nothing was stored. Find it with `fuser "
                f"{self._path}`, wait for it or stop it, then try again."
            )

    def own(self) -> bool:
        """Take the lock exclusively, if no other process holds it at this moment.

        If this fails, an earlier shared lock may be lost: `flock` does not convert locks
        atomically.
        """
        return self._take(fcntl.LOCK_EX)

    def close(self) -> None:
        """Release the lock; safe to call twice."""
        if self._descriptor is None:
            return
        os.close(self._descriptor)
        self._descriptor = None

    def _take(self, kind: int) -> bool:
        assert self._descriptor is not None, "a closed lock is never taken again"
        try:
            fcntl.flock(self._descriptor, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
