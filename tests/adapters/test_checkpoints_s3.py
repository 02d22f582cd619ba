"""What is special about S3; what holds for every store is in `test_checkpoints.py`."""

import socket
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, timedelta
from pathlib import Path

import pytest

from tests.adapters.test_checkpoints import SOON, put, put_checkpoint, steps
from tests.adapters.test_checkpoints_faults import server
from tests.s3 import point_to, start_s3
from watchkeeper import clock
from watchkeeper.adapters.checkpoints import fsspec_files
from watchkeeper.adapters.checkpoints.fsspec_files import Filesystems
from watchkeeper.adapters.checkpoints.listing import FsspecCheckpoints
from watchkeeper.adapters.checkpoints.sizes import Size, measure
from watchkeeper.ports.sources import Unavailable

MEMORY_GROWTH_MAX_KB = 40_000
"""Measured: 16 MB, and 27 MB with 10,000 objects: threads and buffers. Keeping all objects, planted
as a bug, takes 80 MB."""

EMPTY = b"""<?xml version="1.0"?><ListBucketResult><Name>bucket</Name><Prefix>demo/</Prefix>
<KeyCount>0</KeyCount><MaxKeys>1000</MaxKeys><IsTruncated>false</IsTruncated></ListBucketResult>"""

ONE = b"""<?xml version="1.0"?><ListBucketResult><Name>bucket</Name><Prefix>demo/</Prefix>
<KeyCount>1</KeyCount><MaxKeys>1000</MaxKeys><IsTruncated>false</IsTruncated>
<CommonPrefixes><Prefix>demo/step-900/</Prefix></CommonPrefixes></ListBucketResult>"""


def error(code: str, words: str) -> bytes:
    inner = f"<Code>{code}</Code><Message>{words}</Message>"
    return f"<?xml version='1.0'?><Error>{inner}</Error>".encode()


def is_listing(path: str) -> bool:
    return "list-type=2" in path


@pytest.mark.s3
def test_a_missing_bucket_is_unavailable_and_not_empty(s3_bucket: str) -> None:
    with pytest.raises(Unavailable, match=r"HTTP 404 .*bucket does not exist"):
        FsspecCheckpoints().list_checkpoints(f"{s3_bucket}-gone/demo/checkpoints")


@pytest.mark.s3
def test_times_of_s3_are_in_utc(s3_bucket: str) -> None:
    put_checkpoint(s3_bucket, 900)
    (found,) = FsspecCheckpoints().list_checkpoints(s3_bucket).checkpoints
    assert found.written_at is not None
    assert found.written_at.tzinfo is UTC


@pytest.mark.s3
def test_s3a_is_the_same_store(s3_bucket: str) -> None:
    put_checkpoint(f"{s3_bucket}/demo", 900)
    root = f"{s3_bucket}/demo".replace("s3://", "s3a://")
    assert steps(FsspecCheckpoints().list_checkpoints(root)) == [900]


@pytest.mark.s3
def test_a_stopped_server_is_unavailable_and_says_so_at_once(
    s3_bucket_to_stop: tuple[str, Callable[[], None]],
) -> None:
    bucket, stop = s3_bucket_to_stop
    store = FsspecCheckpoints()
    put_checkpoint(bucket, 900)
    assert steps(store.list_checkpoints(bucket)) == [900]
    stop()
    timer = clock.Timer()
    with pytest.raises(Unavailable, match=f"^checkpoints {bucket}: .*[Cc]o(nnect|uld not connect)"):
        store.list_checkpoints(bucket)
    assert timer.elapsed() < SOON


@pytest.mark.parametrize(
    ("status", "content", "reason"),
    [
        (401, error("Unauthorized", "who are you"), "HTTP 401 Unauthorized.*who are you"),
        (403, error("AccessDenied", "Access Denied"), "HTTP 403 AccessDenied.*Access Denied"),
        (403, error("InvalidAccessKeyId", "no such key"), "HTTP 403 InvalidAccessKeyId"),
        (403, b"<html>Forbidden</html>", "HTTP 403"),
        (429, error("TooManyRequests", "slow down"), "HTTP 429"),
        (404, error("NoSuchBucket", "no such bucket"), "HTTP 404"),
        (404, b"Not Found", "HTTP 404"),
        (500, error("InternalError", "Oops"), "HTTP 500 InternalError.*Oops"),
        (500, b"<html>\n<h1>Oops</h1></html>", "."),
        (503, error("SlowDown", "Reduce your request rate"), "HTTP 503 SlowDown"),
        (200, b"<html>Please log in</html>", "is not a listing"),
        (200, b"Please log in", "."),
        (200, b"", "is not a listing"),
        (200, EMPTY.replace(b"<Name>bucket</Name>", b""), "is not a listing"),
        (200, EMPTY[:60], "."),
        (200, EMPTY.replace(b"false", b"true"), "is truncated without a next page"),
    ],
)
def test_a_server_that_refuses_or_talks_nonsense_is_unavailable(
    monkeypatch: pytest.MonkeyPatch, status: int, content: bytes, reason: str
) -> None:
    monkeypatch.setattr(fsspec_files, "RETRY_WAITS_S", ())
    with server(lambda _path: (status, content)) as address:
        point_to(monkeypatch, address)
        timer = clock.Timer()
        with pytest.raises(Unavailable, match=f"^checkpoints s3://bucket/demo: .*{reason}"):
            FsspecCheckpoints().list_checkpoints("s3://bucket/demo")
        assert timer.elapsed() < timedelta(seconds=20)


def test_a_listing_whose_pages_repeat_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    token = b"<IsTruncated>true</IsTruncated><NextContinuationToken>t</NextContinuationToken>"
    page = EMPTY.replace(b"<IsTruncated>false</IsTruncated>", token)
    with server(lambda _path: (200, page)) as address:
        point_to(monkeypatch, address)
        with pytest.raises(Unavailable, match="is truncated without a next page"):
            FsspecCheckpoints().list_checkpoints("s3://bucket/demo")


@pytest.mark.parametrize("status", [401, 403, 500])
def test_a_refusal_of_one_file_is_unavailable_and_never_missing(
    monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    with server(lambda path: (200, ONE) if is_listing(path) else (status, b"")) as address:
        point_to(monkeypatch, address)
        with pytest.raises(Unavailable, match=f"HTTP {status}"):
            FsspecCheckpoints().list_checkpoints("s3://bucket/demo")


def test_metadata_that_breaks_off_is_unavailable_and_never_incomplete(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The head promises more than the body holds, and then the connection closes.
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 400\r\nConnection: close\r\n\r\n"
    with server(lambda path: (200, ONE) if is_listing(path) else (-1, head)) as address:
        point_to(monkeypatch, address)
        with pytest.raises(Unavailable, match="checkpoints s3://bucket/demo: "):
            FsspecCheckpoints().list_checkpoints("s3://bucket/demo")


def test_a_server_that_is_busy_for_a_moment_is_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    busy = [503, 500]

    def answers(path: str) -> tuple[int, bytes]:
        if busy:
            return busy.pop(), error("SlowDown", "slow down")
        return (200, EMPTY) if is_listing(path) else (404, b"")

    with server(answers) as address:
        point_to(monkeypatch, address)
        assert FsspecCheckpoints().list_checkpoints("s3://bucket/demo").checkpoints == ()
    assert busy == []


def test_a_silent_server_is_given_up_at_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        point_to(monkeypatch, f"http://127.0.0.1:{silent.getsockname()[1]}")
        # The first use of s3fs imports it, which is not what is measured here.
        Filesystems(SOON).of("s3://bucket")
        timer = clock.Timer()
        with pytest.raises(Unavailable, match=r"no answer within 0\.5 s"):
            FsspecCheckpoints(timedelta(seconds=0.5)).list_checkpoints("s3://bucket/silent")
        assert timedelta(seconds=0.4) < timer.elapsed() < timedelta(seconds=20)


def test_without_credentials_the_reason_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    with server(lambda _path: (200, EMPTY)) as address:
        point_to(monkeypatch, address)
        monkeypatch.delenv("AWS_ACCESS_KEY_ID")
        monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
        with pytest.raises(Unavailable, match="Unable to locate credentials"):
            FsspecCheckpoints().list_checkpoints("s3://bucket/demo")


def test_without_the_client_the_reason_says_how_to_install_it() -> None:
    line = (
        "import sys; sys.modules['s3fs'] = None;"
        "from watchkeeper.adapters.checkpoints.listing import FsspecCheckpoints;"
        "FsspecCheckpoints().list_checkpoints('s3://bucket/demo')"
    )
    done = subprocess.run(
        [sys.executable, "-c", line], capture_output=True, text=True, timeout=60, check=False
    )
    assert "s3:// needs s3fs: pip install 'watchkeeper[s3]'" in done.stderr.splitlines()[-1]


PROBE = """
import resource, sys
from datetime import timedelta
from watchkeeper.adapters.checkpoints.sizes import measure
from watchkeeper.adapters.checkpoints.listing import FsspecCheckpoints
root = "s3://large/run/checkpoints"
store = FsspecCheckpoints(timedelta(seconds=100))
measure([root], objects_max=2_000)
before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
listing = store.list_checkpoints(root)
(size,) = measure([root], limit=timedelta(seconds=200))
after_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(len(listing.checkpoints), size.objects, size.size_bytes, repr(size.cut), after_kb - before_kb)
"""


@pytest.mark.s3
@pytest.mark.parametrize("number", [10_000, pytest.param(100_000, marks=pytest.mark.long)])
@pytest.mark.servers
def test_any_number_of_objects_is_listed_in_bounded_memory(
    s3_server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    server = start_s3(tmp_path, objects=number)
    try:
        point_to(monkeypatch, server.address)
        done = subprocess.run(
            [sys.executable, "-c", PROBE], capture_output=True, text=True, timeout=250, check=True
        )
    finally:
        server.stop()
    checkpoints, objects, size, cut, grown_kb = done.stdout.split()
    assert (int(checkpoints), int(objects), cut) == (9, number, "''")
    assert int(size) > 8 * (number - 9)
    assert int(grown_kb) < MEMORY_GROWTH_MAX_KB


@pytest.mark.s3
def test_a_size_is_the_sum_of_all_objects_and_says_when_it_was_cut(s3_bucket: str) -> None:
    root = f"{s3_bucket}/demo"
    put_checkpoint(root, 900)
    put(f"{root}/step-900/optimizer/shard-0.npy", b"x" * 1000)
    put_checkpoint(root, 1000)
    metadata = len(b'{"step": 900, "is_temporary": true}')
    paths = [f"{root}/step-900", f"{root}/step-1000", f"{s3_bucket}-gone/step-1"]
    whole, small, gone = measure(paths)
    assert whole == Size(metadata + len(b"weights") + 1000, 3)
    assert small.objects == 2
    assert (gone.objects, gone.size_bytes) == (0, 0)
    assert "HTTP 404" in gone.cut
    (cut,) = measure(paths[:1], objects_max=2)
    assert cut.cut == "more than 2 objects"
    (late,) = measure(paths[:1], limit=timedelta(0))
    assert late == Size(cut="not computed within the time limit")


def test_the_size_of_what_a_silent_server_holds_is_cut_and_holds_nobody_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        point_to(monkeypatch, f"http://127.0.0.1:{silent.getsockname()[1]}")
        timer = clock.Timer()
        found = measure(["s3://bucket/a", "s3://bucket/b"], limit=timedelta(seconds=0.5))
        assert timer.elapsed() < SOON
    assert [one.objects for one in found] == [0, 0]
    assert all(one.cut for one in found)
