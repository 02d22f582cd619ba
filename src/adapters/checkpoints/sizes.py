"""Measures the size of checkpoints for operators; no check uses it.

A store does not record the size of a folder, so every object must be listed. A checkpoint of 5 TB
in shards of 64 MB has 80,000 objects, which S3 lists in 80 pages. The listing is therefore bounded,
and the result says when it was cut off.
"""

import contextlib
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

from watchkeeper import clock
from watchkeeper.adapters.checkpoints.fsspec_files import Filesystems, for_each
from watchkeeper.adapters.checkpoints.object_pages import pages
from watchkeeper.ports.sources import Unavailable
from watchkeeper.services import time_limit

SIZES_LIMIT = timedelta(seconds=20)
"""Time limit for all sizes of one `checkpoints` command."""

GRACE = timedelta(seconds=2)
"""Extra time for the page in progress at the limit, so that its count is not lost."""

OBJECTS_MAX = 200_000
"""The most objects that are counted for one checkpoint."""


@dataclass(frozen=True, slots=True)
class Size:
    """The counts of one checkpoint.

    Attributes:
        size_bytes: Sum over the objects counted.
        objects: How many were counted.
        cut: Why both numbers are incomplete; empty if all objects were counted.
    """

    size_bytes: int = 0
    objects: int = 0
    cut: str = ""


_NOT_COUNTED = "not computed within the time limit"
_PARTLY_COUNTED = "not fully computed within the time limit"


@dataclass(slots=True)
class _Counts:
    """The counts so far, by path; several threads write, and the caller does not wait."""

    by_path: dict[str, Size] = field(default_factory=dict[str, Size])
    lock: threading.Lock = field(default_factory=threading.Lock)

    def put(self, path: str, size: Size) -> None:
        with self.lock:
            self.by_path[path] = size


def measure(
    paths: Sequence[str], *, limit: timedelta = SIZES_LIMIT, objects_max: int = OBJECTS_MAX
) -> list[Size]:
    """Return the sizes of checkpoints in the order of `paths`; some may be incomplete.

    Errors and delays of a store raise nothing: the size is then incomplete, with the reason.

    Args:
        paths: Folders of checkpoints.
        limit: How long all may take together.
        objects_max: How many objects of each are counted.
    """
    counts = _Counts({path: Size(cut=_NOT_COUNTED) for path in paths})
    filesystems = Filesystems(limit)
    deadline = clock.Deadline.after(limit)

    def count(path: str) -> None:
        counts.put(path, _count_objects(filesystems, path, deadline, objects_max, counts))

    # If a store hangs, its checkpoints keep the size that says so.
    with contextlib.suppress(Unavailable):
        time_limit.call("sizes of checkpoints", limit + GRACE, for_each, count, paths)
    with counts.lock:
        return [counts.by_path[path] for path in paths]


def _count_objects(
    filesystems: Filesystems,
    path: str,
    deadline: clock.Deadline,
    objects_max: int,
    counts: _Counts,
) -> Size:
    total = Size()
    if deadline.expired():
        return Size(cut=_NOT_COUNTED)
    try:
        # The search for credentials may block. Each request to the store has its own limit.
        filesystem = filesystems.of(path)
        for page in pages(f"size of {path}", filesystem, path, deep=True):
            total = Size(
                total.size_bytes + sum(entry.size_bytes for entry in page),
                total.objects + len(page),
                _PARTLY_COUNTED,
            )
            if total.objects > objects_max:
                return replace(total, cut=f"more than {objects_max:,} objects")
            if deadline.expired():
                return replace(total, cut=_PARTLY_COUNTED)
            counts.put(path, total)
    except FileNotFoundError:
        # Retention may delete a checkpoint while it is counted.
        return replace(total, cut="it is gone")
    except (NotADirectoryError, Unavailable) as error:
        reason = error.reason if isinstance(error, Unavailable) else str(error)
        return replace(total, cut=reason)
    return replace(total, cut="")
