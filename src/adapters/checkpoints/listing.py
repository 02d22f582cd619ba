"""Lists checkpoints in a folder or bucket through fsspec."""

import re
import threading
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, cast
from urllib.parse import urlsplit

from watchkeeper.adapters.checkpoints.fsspec_files import (
    Filesystems,
    ask,
    for_each,
    version_of,
    written_at,
)
from watchkeeper.adapters.checkpoints.object_pages import pages
from watchkeeper.domain.values.basic import CheckpointFacts, CheckpointKind, CheckpointListing
from watchkeeper.domain.values.json_text import parse_json
from watchkeeper.domain.values.places import bucket_of
from watchkeeper.ports.sources import Unavailable
from watchkeeper.services import time_limit

US_EAST_1 = "us-east-1"
"""Region of S3's oldest buckets, for which S3 returns no region."""


EU_WEST_1 = "eu-west-1"
"""Region that S3 calls `EU` for buckets from the time of its only European region."""


def gcs_region(filesystem: Any, bucket: str) -> str:
    """Return where Cloud Storage says that a bucket lies, such as `US-CENTRAL2` or `EU`."""
    info: dict[str, Any] = filesystem.info(bucket)
    return str(info.get("location") or "")


def s3_region(filesystem: Any, bucket: str) -> str:
    """Return where S3 says that a bucket lies, such as `eu-central-1`.

    Raises:
        Exception: Any error of s3fs for a refusal; `FileNotFoundError` for a missing bucket.
    """
    name = bucket.removeprefix("s3://")
    answer = cast("dict[str, Any]", filesystem.call_s3("get_bucket_location", Bucket=name))
    endpoint = str(filesystem.s3.meta.endpoint_url)
    return region_said(str(answer.get("LocationConstraint") or ""), endpoint)


def region_said(constraint: str, endpoint: str) -> str:
    """Return the region of a location constraint of S3; empty if it is unknown.

    Other stores than Amazon's use the S3 protocol too. Their empty constraint does not mean US
    East.

    >>> region_said("", "https://s3.amazonaws.com"), region_said("", "http://minio:9000")
    ('us-east-1', '')
    >>> region_said("EU", "https://s3.amazonaws.com"), region_said("US-EAST-02A", "https://cw.ai")
    ('eu-west-1', 'US-EAST-02A')
    """
    host = urlsplit(endpoint).hostname or ""
    if not constraint:
        return US_EAST_1 if host.endswith(".amazonaws.com") else ""
    return EU_WEST_1 if constraint == "EU" else constraint


METADATA = "metadata.json"
"""Written last by Levanter: without it a checkpoint is not complete."""

METADATA_BYTES_MAX = 1_000_000
"""Levanter's file has about 100 bytes. A larger file is something else, and is not read."""

ROOTS_REMEMBERED_MAX = 1_000
"""Roots whose metadata is kept in memory; about 1 kB for each checkpoint."""

FOLDERS_MAX = 16
"""Folders searched for the newest file; folders of older steps are finished."""

_STEP_FOLDER = re.compile(r"step-(?P<step>0|[1-9][0-9]{0,17})")
"""Only the canonical form, so that no two folders have the same step."""


@dataclass(frozen=True, slots=True)
class _Known:
    """A complete checkpoint as it was read, and the version of its metadata that was read."""

    version: tuple[object, ...]
    facts: CheckpointFacts


@dataclass(slots=True)
class FsspecCheckpoints:
    """Checkpoints under paths, `file://`, `gs://` and other URLs that fsspec knows.

    If `STORAGE_EMULATOR_HOST` is set, requests for `gs://` go there, without credentials.

    Args:
        limit: How long one listing may take, with all of its metadata.
    """

    limit: timedelta = timedelta(seconds=30)
    _filesystems: Filesystems = field(init=False)
    _known: dict[str, dict[int, _Known]] = field(
        init=False, default_factory=dict[str, dict[int, _Known]]
    )
    _lock: threading.Lock = field(init=False, default_factory=threading.Lock)

    def __post_init__(self) -> None:
        """Nothing is opened before the first listing."""
        self._filesystems = Filesystems(self.limit)

    def list_checkpoints(self, root: str) -> CheckpointListing:
        """Return the `step-N` folders directly below a root, in numeric order.

        Raises:
            Unavailable: The store is down, slow or refuses, the bucket is missing, one of the
                files can't be read, or the root is a file.
        """
        return time_limit.call(f"checkpoints {root}", self.limit, self._list, root)

    def region_of(self, url: str) -> str:
        """Return the region of a bucket if its store reports it; otherwise an empty string.

        Raises:
            Unavailable: The store is down, slow or refuses.
        """
        return time_limit.call(f"region of {url}", self.limit, self._region, url)

    def newest_write(self, root: str) -> tuple[str, datetime] | None:
        """Return the newest file below a root; see the port.

        Raises:
            Unavailable: The store is down, slow or refuses.
        """
        return time_limit.call(f"writes below {root}", self.limit, self._newest_write, root)

    def _newest_write(self, root: str) -> tuple[str, datetime] | None:
        source = f"writes below {root}"
        filesystem = ask(source, self._filesystems.of, root)
        waiting, newest = [root], None
        for _ in range(FOLDERS_MAX):
            if not waiting:
                break
            folder = waiting.pop(0)
            try:
                found: list[dict[str, Any]] = ask(source, filesystem.ls, folder, detail=True)
            except (FileNotFoundError, NotADirectoryError):
                continue  # The store answered; the folder does not exist.
            folders = [str(one["name"]) for one in found if one["type"] == "directory"]
            waiting += sorted(folders, key=_step_in, reverse=True)
            for one in found:
                at = written_at(one) if one["type"] == "file" else None
                if at is not None and (newest is None or at > newest[1]):
                    newest = (str(one["name"]), at)
        return newest

    def _region(self, url: str) -> str:
        bucket = bucket_of(url)
        if not bucket.startswith(("gs://", "s3://")):
            return ""  # A folder has no region, and other stores do not report it.
        source = f"region of {bucket}"
        filesystem = ask(source, self._filesystems.of, bucket)
        read = s3_region if bucket.startswith("s3://") else gcs_region
        try:
            return ask(source, read, filesystem, bucket).lower()
        except (FileNotFoundError, NotADirectoryError) as error:
            raise Unavailable(source, "the bucket does not exist") from error

    def _list(self, root: str) -> CheckpointListing:
        source = f"checkpoints {root}"
        filesystem = ask(source, self._filesystems.of, root)
        steps = _steps(source, filesystem, root)
        with self._lock:
            known = self._known.get(root, {})

        def read(step: int) -> _Known:
            return _read(source, filesystem, f"{root.rstrip('/')}/step-{step}", step, known)

        found = for_each(read, steps)
        with self._lock:
            # Moved to the end, so that the least recently used root is dropped first.
            self._known.pop(root, None)
            self._known[root] = {one.facts.step: one for one in found if one.facts.complete}
            while len(self._known) > ROOTS_REMEMBERED_MAX:
                del self._known[next(iter(self._known))]
        return CheckpointListing(root=root, checkpoints=tuple(one.facts for one in found))


def _steps(source: str, filesystem: Any, root: str) -> list[int]:
    steps: set[int] = set()
    anything = False
    try:
        for page in pages(source, filesystem, root):
            anything = anything or bool(page)
            matches = [_STEP_FOLDER.fullmatch(entry.name) for entry in page if entry.is_folder]
            steps.update(int(match["step"]) for match in matches if match)
    except FileNotFoundError:
        # The store was reached: training has not made the folder yet.
        return []
    except NotADirectoryError as error:
        # Either the root or a folder in its path is a file.
        if _is_file(source, filesystem, root):
            raise Unavailable(source, f"{root} is a file, expected a folder") from error
        raise Unavailable(source, f"{root} lies below a file, expected a folder") from error
    # Object stores find nothing below a file.
    if not anything and _is_file(source, filesystem, root):
        raise Unavailable(source, f"{root} is a file, expected a folder")
    return sorted(steps)


def _step_in(folder: str) -> int:
    """Return the step of a checkpoint's folder; -1 for any other folder."""
    match = _STEP_FOLDER.fullmatch(folder.rstrip("/").rpartition("/")[2])
    return int(match["step"]) if match else -1


def _is_file(source: str, filesystem: Any, path: str) -> bool:
    try:
        info: dict[str, Any] = ask(source, filesystem.info, path.rstrip("/"))
    except (FileNotFoundError, NotADirectoryError):
        return False
    return bool(info["type"] == "file")


def _read(source: str, filesystem: Any, path: str, step: int, known: dict[int, _Known]) -> _Known:
    try:
        info: dict[str, Any] = ask(source, filesystem.info, f"{path}/{METADATA}")
        version = version_of(info)
        before = known.get(step)
        if before is not None and before.version == version:
            return before
        size = info.get("size")
        if info["type"] == "directory":
            return _Known(version, _incomplete(path, step, f"{METADATA} is a folder"))
        if isinstance(size, int) and size > METADATA_BYTES_MAX:
            reason = f"{METADATA} has {size} bytes, expected at most {METADATA_BYTES_MAX}"
            return _Known(version, _incomplete(path, step, reason))
        content: bytes = ask(source, filesystem.cat_file, f"{path}/{METADATA}")
    except FileNotFoundError:
        return _Known((), _incomplete(path, step, f"no {METADATA}"))
    except NotADirectoryError:
        return _Known((), _incomplete(path, step, f"{path} is not a folder"))
    facts = parse_metadata(content, path, step)
    return _Known(version, facts.model_copy(update={"written_at": written_at(info)}))


def parse_metadata(content: bytes, path: str, step: int) -> CheckpointFacts:
    """Parse and check a checkpoint's metadata.

    Args:
        content: The bytes of `metadata.json`.
        path: The checkpoint's folder.
        step: The number in the folder's name. The metadata's own number is kept, too. The rules
            check whether they agree.
    """
    try:
        loaded: Any = parse_json(content)
    except ValueError as error:
        reason = f"{METADATA} ({len(content)} bytes) can't be read: {error}"
        return _incomplete(path, step, reason)
    if not isinstance(loaded, dict):
        return _incomplete(
            path, step, (f"{METADATA} does not hold an object, but {str(loaded)[:40]!r}")
        )
    found = cast("dict[str, Any]", loaded)
    stated_step = found.get("step")
    # Python counts true and false as integers; JSON does not.
    usable = (
        isinstance(stated_step, int)
        and not isinstance(stated_step, bool)
        and 0 <= stated_step < 10**18
    )
    kinds = {True: CheckpointKind.TEMPORARY, False: CheckpointKind.PERMANENT}
    temporary = found.get("is_temporary")
    kind = kinds[temporary] if isinstance(temporary, bool) else CheckpointKind.UNKNOWN
    return CheckpointFacts(
        step=step,
        path=path,
        complete=True,
        kind=kind,
        metadata_step=stated_step if usable else None,
    )


def _incomplete(path: str, step: int, reason: str) -> CheckpointFacts:
    return CheckpointFacts(step=step, path=path, complete=False, reason=reason)
