"""Lists a folder or a prefix page by page, in constant memory.

fsspec's own `ls` and `find` hold about 1 kB for each object: 100,000 of them are 100 MB.
"""

import itertools
import os
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from watchkeeper.adapters.checkpoints.fsspec_files import ask
from watchkeeper.ports.sources import Unavailable

PAGE_OBJECTS = 1_000
"""Objects asked for at once: the most that S3 gives in one answer."""

PAGES_MAX = 100_000
"""Pages followed before a store is taken to go round in circles: 100 million objects."""

GS_FIELDS = "kind,nextPageToken,prefixes,items(name,size)"
"""The fields requested from Cloud Storage, which otherwise sends twenty of each object."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One object or folder.

    Attributes:
        name: Below what was listed, without a trailing slash.
        is_folder: Only in a listing that is not deep.
        size_bytes: Of an object; 0 of a folder.
    """

    name: str
    is_folder: bool
    size_bytes: int


def pages(
    source: str, filesystem: Any, url: str, *, deep: bool = False
) -> Generator[list[Entry], None, None]:
    """Yield the content of a folder, a page at a time, in the store's order.

    A missing prefix of an object store gives no page or an empty one: such a store knows no
    folders, and has answered.

    Args:
        source: Who is asked, for messages.
        filesystem: Of fsspec.
        url: The folder.
        deep: Every object at every depth; otherwise only what lies directly below, with folders.

    Raises:
        FileNotFoundError: The file system says that there is no such folder.
        NotADirectoryError: The folder, or a part of its path, is a file.
        Unavailable: Any other failure, and an answer that is no listing.
    """
    protocols = filesystem.protocol
    protocol = protocols if isinstance(protocols, str) else protocols[0]
    if protocol == "s3":
        yield from _object_store(source, filesystem, url, deep, _s3_page)
    elif protocol in ("gs", "gcs"):
        yield from _object_store(source, filesystem, url, deep, _gs_page)
    elif protocol in ("file", "local"):
        yield from _local(source, str(filesystem._strip_protocol(url)), deep)
    elif deep:
        yield from _walked(source, filesystem, url)
    else:
        found: list[dict[str, Any]] = ask(source, filesystem.ls, url, detail=True)
        yield [_entry_of(one, str(one["name"]).rstrip("/").rsplit("/", 1)[-1]) for one in found]


_Page = tuple[list[Entry], str]
"""Entries, and the token of the next page; empty after the last one."""


def _object_store(
    source: str,
    filesystem: Any,
    url: str,
    deep: bool,
    page_of: Callable[[str, Any, str, str, bool, str], _Page],
) -> Generator[list[Entry], None, None]:
    bucket, key, *_ = filesystem.split_path(url)
    prefix = f"{key.strip('/')}/" if key.strip("/") else ""
    token = ""
    for _ in range(PAGES_MAX):
        entries, token = page_of(source, filesystem, bucket, prefix, deep, token)
        yield entries
        if not token:
            return
    raise Unavailable(source, f"the listing of {url} did not end after {PAGES_MAX} pages")


def _s3_page(
    source: str, filesystem: Any, bucket: str, prefix: str, deep: bool, token: str
) -> _Page:
    options: dict[str, object] = {"Bucket": bucket, "Prefix": prefix, "MaxKeys": PAGE_OBJECTS}
    if not deep:
        options["Delimiter"] = "/"
    if token:
        options["ContinuationToken"] = token
    try:
        answer: Any = ask(source, filesystem.call_s3, "list_objects_v2", **options)
    except FileNotFoundError as error:
        # A listing is never 404 for want of objects: it is the bucket that is missing.
        words = f"HTTP 404 when listing s3://{bucket}/{prefix}: {error}"
        raise Unavailable(source, words[:200]) from error
    # botocore reads any XML, or no XML, as an empty listing. Only a real listing has these two.
    truncated = answer.get("IsTruncated")
    if not isinstance(truncated, bool) or "Name" not in answer:
        raise Unavailable(source, f"the answer is not a listing of s3://{bucket}/{prefix}")
    following = str(answer.get("NextContinuationToken") or "") if truncated else ""
    if truncated and (not following or following == token):
        raise Unavailable(
            source, f"the listing of s3://{bucket}/{prefix} is truncated without a next page"
        )
    entries = [
        *_folders((str(one["Prefix"]) for one in answer.get("CommonPrefixes", [])), prefix),
        *_objects(((str(one["Key"]), one["Size"]) for one in answer.get("Contents", [])), prefix),
    ]
    return entries, following


def _gs_page(
    source: str, filesystem: Any, bucket: str, prefix: str, deep: bool, token: str
) -> _Page:
    options: dict[str, object] = {"prefix": prefix} if prefix else {}
    options |= {"maxResults": PAGE_OBJECTS, "fields": GS_FIELDS}
    if not deep:
        options["delimiter"] = "/"
    if token:
        options["pageToken"] = token
    try:
        answer: object = ask(
            source, filesystem.call, "GET", "b/{}/o", bucket, json_out=True, **options
        )
    except FileNotFoundError as error:
        raise Unavailable(source, f"HTTP 404 when listing gs://{bucket}: {error}"[:200]) from error
    page = cast("Mapping[str, Any]", answer if isinstance(answer, dict) else {})
    if page.get("kind") != "storage#objects":
        raise Unavailable(source, f"the answer is not a listing of gs://{bucket}/{prefix}")
    following = str(page.get("nextPageToken") or "")
    if following and following == token:
        raise Unavailable(source, f"the listing of gs://{bucket}/{prefix} repeats a page")
    entries = [
        *_folders((str(one) for one in page.get("prefixes", [])), prefix),
        *_objects(
            ((str(one["name"]), one.get("size", 0)) for one in page.get("items", [])), prefix
        ),
    ]
    return entries, following


def _folders(names: Iterator[str], prefix: str) -> list[Entry]:
    return [Entry(name.removeprefix(prefix).rstrip("/"), True, 0) for name in names]


def _objects(found: Iterator[tuple[str, Any]], prefix: str) -> list[Entry]:
    # Some tools write an empty object under the folder's own name.
    return [
        Entry(name.removeprefix(prefix), False, int(size)) for name, size in found if name != prefix
    ]


def _local(source: str, folder: str, deep: bool) -> Generator[list[Entry], None, None]:
    # Only the folders that are still to be read are remembered.
    waiting = [folder]
    while waiting:
        below = waiting.pop()
        with ask(source, os.scandir, below) as found:
            while page := ask(source, _local_page, found, folder, deep):
                entries, folders = page
                yield entries
                if deep:
                    waiting += folders


def _local_page(
    found: Iterator[os.DirEntry[str]], folder: str, deep: bool
) -> tuple[list[Entry], list[str]] | None:
    """Return the next entries and folders of a folder; empty at its end.

    A deep listing does not follow links, which may lead round in circles.
    """
    entries: list[Entry] = []
    folders: list[str] = []
    read = 0
    for one in itertools.islice(found, PAGE_OBJECTS):
        read += 1
        if not deep:
            # Whatever is no file, such as a link that leads nowhere, is shown as a folder.
            entries.append(Entry(one.name, not _is_file(one), 0))
        elif one.is_dir(follow_symlinks=False):
            folders.append(one.path)
        else:
            size = one.stat(follow_symlinks=False).st_size
            entries.append(Entry(os.path.relpath(one.path, folder), False, size))
    return (entries, folders) if read else None


def _walked(source: str, filesystem: Any, url: str) -> Generator[list[Entry], None, None]:
    walk = ask(source, filesystem.walk, url, detail=True, on_error="raise")
    while True:
        level = ask(source, _next, walk)
        if level is None:
            return
        files: Mapping[str, Mapping[str, Any]] = level[2]
        yield [_entry_of(info, name) for name, info in files.items()]


def _next(walk: Iterator[Any]) -> Any:
    return next(walk, None)


def _entry_of(info: Mapping[str, Any], name: str) -> Entry:
    size = info.get("size")
    return Entry(name, info["type"] != "file", size if isinstance(size, int) else 0)


def _is_file(one: os.DirEntry[str]) -> bool:
    try:
        return one.is_file()
    except OSError:
        return False  # A link that leads to itself: reading it says so, for it alone.
