"""The digest of the whole file while the store is at rest, in `<store>.rest`.

The hash chain covers every event, but an SQLite file also holds bytes that no query ever returns:
free space in pages, indexes, counters in the header. While no process uses the store, one SHA-256
covers them all. The last process to leave writes it. The first write after that removes it, durably
and before it commits. So an existing digest always describes the current bytes.
"""

import hashlib
import json
import logging
import os
from datetime import timedelta
from pathlib import Path

from watchkeeper.adapters.store.failures import SQLITE_ERRORS
from watchkeeper.adapters.store.schema import connect

REST_BYTES_MAX = 1 << 30
"""1 GiB. Larger files get no digest: reading them at each close would take too many seconds."""

_FORMAT = "watchkeeper/rest/v1"

_LOG = logging.getLogger(__name__)


def rest_path(path: Path) -> Path:
    """Return the digest file that belongs to a store."""
    return path.with_name(f"{path.name}.rest")


def sidecar(path: Path) -> tuple[Path, Path]:
    """Return SQLite's own files, whose content it may move into the store on opening."""
    return path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-journal")


def unsettled(path: Path) -> list[Path]:
    """Return SQLite's files next to a store that are not empty."""
    return [file for file in sidecar(path) if file.exists() and file.stat().st_size > 0]


def sync_folder(folder: Path) -> None:
    """Make created, renamed and removed names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_rest(path: Path) -> None:
    """Remove the digest durably, before the first write; no error if it is missing.

    Raises:
        OSError: It could not be removed, so nothing may be written.
    """
    if not rest_path(path).exists():
        return
    rest_path(path).unlink()
    sync_folder(path.parent)


def write_rest(path: Path) -> bool:
    """Write the digest of an unused store, atomically and durably.

    The caller owns the store alone and has no connection open: closing the file here would drop
    the locks that SQLite holds on it in this process.

    Returns:
        Whether it was written; not when the file is larger than `REST_BYTES_MAX`.

    Raises:
        OSError: It could not be written. Stored events stay stored.
    """
    if path.stat().st_size > REST_BYTES_MAX:
        return False
    temporary = rest_path(path).with_suffix(".rest.new")
    with temporary.open("wb") as file:
        file.write(_digest(path))
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(rest_path(path))
    sync_folder(path.parent)
    return True


def settle(path: Path, busy_limit: timedelta) -> None:
    """Move everything into the one file and write its digest; the caller owns the store alone.

    What is stored is safe already. So a failure here is logged and left: without a digest `verify`
    says that the store is not at rest.
    """
    if rest_path(path).exists():
        # Nothing was written since it was made.
        return
    try:
        connection = connect(path, busy_limit=busy_limit)
        try:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        finally:
            connection.close()
        if unsettled(path):
            _LOG.warning("%s: its log could not be emptied, so it has no whole-file digest", path)
            return
        if not write_rest(path):
            _LOG.info("%s: too large for a whole-file digest at close", path)
    except (*SQLITE_ERRORS, OSError) as error:
        _LOG.warning("%s: no whole-file digest was written at close: %s", path, error)


def rest_problem(path: Path) -> str | None:
    """Compare an unused store with its digest.

    Returns:
        The error, in a sentence; None if every byte is as it was left.
    """
    held = unsettled(path)
    if held:
        names = " and ".join(file.name for file in held)
        return f"{names} is not empty, although the store was closed cleanly: somebody added it."
    # Bytes are compared, so that a changed blank or letter case in the digest file shows too.
    if rest_path(path).read_bytes() == _digest(path):
        return None
    return (
        f"The file does not match {rest_path(path).name}, written when the store was last "
        "closed: another program changed a byte in one of them."
    )


def _digest(path: Path) -> bytes:
    with path.open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        size_bytes = file.tell()
    text = json.dumps({"format": _FORMAT, "size_bytes": size_bytes, "sha256": sha256})
    return f"{text}\n".encode()
