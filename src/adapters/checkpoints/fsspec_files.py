"""Opens files through fsspec and never reports a failure as a missing file.

This module raises `FileNotFoundError` or `NotADirectoryError` only when the store was reached and
gave that definite answer. It raises `Unavailable` for everything else.
"""

import asyncio
import errno
import os
import queue
import re
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar, cast

import fsspec

from watchkeeper.adapters.extras import install_line
from watchkeeper.domain.values.json_text import parse_json
from watchkeeper.ports.sources import Unavailable

READERS_MAX = 16
"""Files read at once. One read of an object store takes about 50 ms, so that a hundred small files
take a third of a second, and no store refuses so few connections."""

RETRY_WAITS_S = (0.2, 0.5)
"""Waits before asking a busy store again. gcsfs itself goes on for 31 s, longer than our limit, so
that the reason would never be seen."""

REASON_LENGTH_MAX = 200
"""Characters of a store's own words that are repeated."""

_RETRIABLE = frozenset({408, 429, 500, 502, 503, 504})
"""The statuses after which Cloud Storage asks its clients to try again."""

_GS = "watchkeeper-gs"
"""Our own name for gcsfs's plain JSON client. The class that it registers as `gs` asks for the
bucket's type over gRPC first, which an emulator does not answer for 45 s and a reader of small
files does not need. `GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT` says the same, but only when it is set
before the first import in the process, and every job that we start would inherit it."""

_fsspec = cast("Any", fsspec)
"""fsspec publishes no types."""

_fsspec.register_implementation(_GS, "gcsfs.core.GCSFileSystem")

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


@dataclass(slots=True)
class Filesystems:
    """File systems by protocol, each opened once and kept with its connections.

    fsspec keeps instances by thread. Every call from outside runs on a thread of its own, so that
    its own store of instances would grow for ever.

    Args:
        limit: How long one request to an object store may take.
    """

    limit: timedelta
    _opened: dict[str, Any] = field(default_factory=dict[str, Any])
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def of(self, url: str) -> Any:
        """Return the file system of a path or URL; its methods take the whole URL.

        May block, such as on finding credentials: call it within a time limit.

        Raises:
            ValueError: fsspec knows no such protocol.
            ImportError: The protocol's client is not installed; the message names it.
        """
        protocol = url.split("://", 1)[0] if "://" in url else "file"
        with self._lock:
            opened = self._opened.get(protocol)
        if opened is not None:
            return opened
        # Not under the lock: without credentials, the search for them takes 15 s, and other
        # stores must not wait for it.
        opened = _open(protocol, self.limit)
        with self._lock:
            return self._opened.setdefault(protocol, opened)


def ask(source: str, function: Callable[..., _Result], *args: object, **options: object) -> _Result:
    """Call a file system, and give every failure its meaning.

    Args:
        source: Who is asked, for the message.
        function: A method of a file system.
        args: Its arguments.
        options: Its keyword arguments.

    Raises:
        FileNotFoundError: The store says that there is no such file.
        NotADirectoryError: A part of the path is a file.
        Unavailable: Any other failure: stores raise all kinds of exceptions.
    """
    try:
        return function(*args, **options)
    except (FileNotFoundError, NotADirectoryError):
        raise
    except Unavailable as error:
        raise Unavailable(source, error.reason) from error
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise NotADirectoryError(str(error)) from error  # A link that leads to itself.
        raise Unavailable(source, _in_words(error)) from error
    except Exception as error:
        raise Unavailable(source, _in_words(error)) from error


def for_each(function: Callable[[_Item], _Result], items: Sequence[_Item]) -> list[_Result]:
    """Call a function for many items on a few threads, and return the results in their order.

    The threads are daemons: one read that hangs does not keep the process from ending, as the
    threads of a `ThreadPoolExecutor` would. The first failure is raised; what has not begun by
    then is left out.
    """
    waiting: queue.SimpleQueue[tuple[Future[_Result], _Item]] = queue.SimpleQueue()
    answers: list[Future[_Result]] = []
    for item in items:
        answers.append(Future())
        waiting.put((answers[-1], item))
    for _ in range(min(READERS_MAX, len(items))):
        threading.Thread(target=_work, args=(function, waiting), daemon=True).start()
    try:
        return [answer.result() for answer in answers]
    finally:
        for answer in answers:
            answer.cancel()


def written_at(info: Mapping[str, Any]) -> datetime | None:
    """Return a file's write time, by its store's clock, from fsspec's file info."""
    # The names differ: local and Cloud Storage, S3, others.
    for name in ("mtime", "LastModified", "last_modified", "updated"):
        found = info.get(name)
        if isinstance(found, datetime):
            return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
        if isinstance(found, int | float):
            return datetime.fromtimestamp(found, UTC)
    return None


def version_of(info: Mapping[str, Any]) -> tuple[object, ...]:
    """Return a value that changes with every write of a file, from fsspec's file info."""
    names = ("size", "mtime", "ino", "LastModified", "generation", "etag", "ETag", "md5Hash")
    return tuple(info.get(name) for name in names)


def _open(protocol: str, limit: timedelta) -> Any:
    # What another process writes must be seen, so nothing is remembered between two questions.
    options: dict[str, Any] = {"use_listings_cache": False, "skip_instance_cache": True}
    if protocol in ("file", "local"):
        return _fsspec.filesystem("file", **options)
    if protocol in ("s3", "s3a"):
        return _open_s3(limit, options)
    if protocol not in ("gs", "gcs"):
        return _fsspec.filesystem(protocol, **options)
    if os.environ.get("STORAGE_EMULATOR_HOST"):
        options["token"] = "anon"
    options["session_kwargs"] = {"middlewares": (_answered_within(limit),)}
    try:
        return _fsspec.filesystem(_GS, **options)
    except ImportError as error:
        raise _without_client("gs", "gcsfs", error) from error


def _without_client(protocol: str, package: str, error: ImportError) -> Unavailable:
    words = f"{protocol}:// needs {package}: {install_line(package)} ({error})"
    return Unavailable(protocol, words[:REASON_LENGTH_MAX])


def _open_s3(limit: timedelta, options: dict[str, Any]) -> Any:
    """Open S3 as the environment says: `AWS_ENDPOINT_URL`, `AWS_PROFILE`, keys, region."""
    attempts = len(RETRY_WAITS_S) + 1
    config = {
        # Without these a silent server holds a request for a minute, five times.
        "connect_timeout": limit.total_seconds(),
        "read_timeout": limit.total_seconds(),
        "retries": {"total_max_attempts": attempts, "mode": "standard"},
        "max_pool_connections": READERS_MAX,
    }
    try:
        # One connection for one file: more would ask for its size first.
        opened = _fsspec.filesystem("s3", config_kwargs=config, max_concurrency=1, **options)
    except ImportError as error:
        raise _without_client("s3", "s3fs", error) from error
    # s3fs repeats what botocore has repeated already; this is for bodies that broke off.
    opened.retries = 2
    return opened


def _answered_within(limit: timedelta) -> Callable[[Any, Any], Awaitable[Any]]:
    """Return a middleware for gcsfs's HTTP client that reports errors at once."""

    async def answered(request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        host = request.url.host
        try:
            # Without it a silent server holds the request for five minutes.
            async with asyncio.timeout(limit.total_seconds()):
                return await _definite(request, handler, host)
        except TimeoutError as error:
            words = f"no answer within {limit.total_seconds():g} s"
            raise Unavailable(host, words) from error

    return answered


async def _definite(request: Any, handler: Callable[[Any], Awaitable[Any]], host: str) -> Any:
    failure = ""
    for wait_s in (0.0, *RETRY_WAITS_S):
        await asyncio.sleep(wait_s)
        try:
            response = await handler(request)
        except TimeoutError:
            raise
        except OSError as error:
            failure = f"not reached: {_in_words(error)}"
            continue
        if response.status in _RETRIABLE:
            failure = await _refusal(response)
            continue
        # A listing is never 404 for want of objects: it is the bucket that is missing.
        listing = re.fullmatch(r".*/b/[^/]+/o/?", request.url.raw_path)
        if response.status in (401, 403) or (response.status == 404 and listing):
            failure = await _refusal(response)
            break
        return response
    raise Unavailable(host, failure)


async def _refusal(response: Any) -> str:
    """Return a refusal in the server's own words, which also frees its connection."""
    text = await response.text(errors="replace")
    try:
        text = str(parse_json(text)["error"]["message"])
    except (ValueError, LookupError, TypeError):
        # Not in Cloud Storage's form, such as a page of a proxy: its text as it is.
        text = " ".join(text.split())
    return f"HTTP {response.status} {response.reason}: {text}"[:REASON_LENGTH_MAX].rstrip(": ")


def _in_words(error: BaseException) -> str:
    text = " ".join(str(error).split())
    # s3fs makes `OSError` and the like of an answer, and keeps the answer as their cause.
    response: Any = getattr(error.__cause__, "response", None)
    if isinstance(response, dict):
        answer = cast("dict[str, Any]", response)
        status = answer.get("ResponseMetadata", {}).get("HTTPStatusCode", "without a status")
        code = str(answer.get("Error", {}).get("Code", ""))
        text = f"HTTP {status} {code if code != str(status) else ''}: {text}".replace(" :", ":")
        return text[:REASON_LENGTH_MAX].rstrip(": ")
    return f"{type(error).__name__}: {text}"[:REASON_LENGTH_MAX].rstrip(": ")


def _work(
    function: Callable[[_Item], _Result],
    waiting: queue.SimpleQueue[tuple[Future[_Result], _Item]],
) -> None:
    while True:
        try:
            answer, item = waiting.get_nowait()
        except queue.Empty:
            return
        if not answer.set_running_or_notify_cancel():
            continue
        try:
            result = function(item)
        except BaseException as error:  # noqa: BLE001 - Raised again in the thread of the caller.
            answer.set_exception(error)
        else:
            answer.set_result(result)
