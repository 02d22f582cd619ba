import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from tests.adapters.test_checkpoints import SOON, put_checkpoint, steps
from watchkeeper import clock
from watchkeeper.adapters.checkpoints import fsspec_files
from watchkeeper.adapters.checkpoints.fsspec_files import Filesystems
from watchkeeper.adapters.checkpoints.listing import FsspecCheckpoints
from watchkeeper.ports.sources import Unavailable


@contextmanager
def nobody() -> Generator[None]:
    """Give up root's right to read everything, for as long as the block lasts."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.parametrize("locked", ["step-1000/metadata.json", "step-1000", "."])
def test_what_may_not_be_read_is_unavailable_and_never_missing(
    tmp_path_factory: pytest.TempPathFactory, locked: str
) -> None:
    root = tmp_path_factory.mktemp("locked")
    for parent in (root, *root.parents[:2]):
        parent.chmod(0o755)
    put_checkpoint(str(root), 900)
    put_checkpoint(str(root), 1000)
    # All modules are imported before the right to read them is given up.
    FsspecCheckpoints().list_checkpoints(str(root))
    (root / locked).chmod(0)
    try:
        with nobody(), pytest.raises(Unavailable, match="PermissionError"):
            FsspecCheckpoints().list_checkpoints(str(root))
    finally:
        (root / locked).chmod(0o755)


def test_a_read_that_hangs_is_given_up_at_the_limit(tmp_path: Path) -> None:
    put_checkpoint(str(tmp_path), 900)
    (tmp_path / "step-1000").mkdir()
    # Opening a pipe that nobody writes to blocks, as a file on a dead mount does.
    os.mkfifo(tmp_path / "step-1000" / "metadata.json")
    timer = clock.Timer()
    with pytest.raises(Unavailable, match=r"no answer within 0\.5 s"):
        FsspecCheckpoints(timedelta(seconds=0.5)).list_checkpoints(str(tmp_path))
    assert timedelta(seconds=0.4) < timer.elapsed() < timedelta(seconds=20)
    # Lets the threads that still hang end.
    with (tmp_path / "step-1000" / "metadata.json").open("wb"):
        pass


def test_a_read_that_hangs_does_not_keep_the_process_alive(tmp_path: Path) -> None:
    (tmp_path / "step-1000").mkdir()
    os.mkfifo(tmp_path / "step-1000" / "metadata.json")
    line = (
        "import sys; from datetime import timedelta;"
        "from watchkeeper.adapters.checkpoints.listing import FsspecCheckpoints;"
        "FsspecCheckpoints(timedelta(seconds=0.2)).list_checkpoints(sys.argv[1])"
    )
    done = subprocess.run(
        [sys.executable, "-c", line, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 1
    assert "no answer within 0.2 s" in done.stderr


@pytest.mark.gcs
def test_a_stopped_server_is_unavailable_and_says_so_at_once(
    gcs_bucket_to_stop: tuple[str, Callable[[], None]],
) -> None:
    bucket, stop = gcs_bucket_to_stop
    store = FsspecCheckpoints()
    put_checkpoint(bucket, 900)
    assert steps(store.list_checkpoints(bucket)) == [900]
    stop()
    timer = clock.Timer()
    with pytest.raises(Unavailable, match=f"^checkpoints {bucket}: not reached"):
        store.list_checkpoints(bucket)
    assert timer.elapsed() < SOON


@pytest.mark.gcs
def test_a_missing_bucket_is_unavailable_and_not_empty(gcs_bucket: str) -> None:
    with pytest.raises(Unavailable, match="HTTP 404"):
        FsspecCheckpoints().list_checkpoints(f"{gcs_bucket}-gone/demo/checkpoints")


Answers = Callable[[str], tuple[int, bytes]]


@contextmanager
def server(answers: Answers) -> Generator[str]:
    """A fake store, only for faults that the emulator can't show: it answers as it is told."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            status, content = answers(self.path)
            if status < 0:
                # A whole answer, head and all, after which the connection closes.
                self.close_connection = True
                self.wfile.write(content)
                return
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

        do_HEAD = do_GET  # noqa: N815 - The base class calls it so.

        # The base class calls it so.
        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Stay quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        http.daemon_threads = True
        http.block_on_close = False
        Thread(target=http.serve_forever, args=(0.02,), daemon=True).start()
        try:
            yield f"http://127.0.0.1:{http.server_address[1]}"
        finally:
            http.shutdown()


def is_listing(path: str) -> bool:
    return path.split("?")[0].endswith("/o")


ONE_CHECKPOINT = json.dumps({"kind": "storage#objects", "prefixes": ["demo/step-900/"]}).encode()


@pytest.mark.parametrize(
    ("status", "content", "reason"),
    [
        (401, b'{"error": {"message": "Invalid Credentials"}}', "HTTP 401 .*Invalid Credentials"),
        (403, b'{"error": {"message": "no storage.objects.list"}}', "HTTP 403 .*no storage"),
        (429, b'{"error": {"message": "rateLimitExceeded"}}', "HTTP 429"),
        (500, b"<html>\n<h1>Oops</h1></html>", "HTTP 500 .*<html> <h1>Oops"),
        (503, b"", "HTTP 503"),
        (404, b"Not Found", "HTTP 404"),
        (400, b'{"error": {"message": "invalid argument"}}', "invalid argument"),
        (200, b"<html>Please log in</html>", "JSONDecodeError"),
        (200, b"", "JSONDecodeError"),
        (200, b"[]", "."),
        (200, b"{}", "."),
    ],
)
def test_a_server_that_refuses_or_talks_nonsense_is_unavailable(
    monkeypatch: pytest.MonkeyPatch, status: int, content: bytes, reason: str
) -> None:
    monkeypatch.setattr(fsspec_files, "RETRY_WAITS_S", ())
    with server(lambda _path: (status, content)) as address:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", address)
        timer = clock.Timer()
        with pytest.raises(Unavailable, match=f"^checkpoints gs://bucket/demo: .*{reason}"):
            FsspecCheckpoints().list_checkpoints("gs://bucket/demo")
        assert timer.elapsed() < SOON


@pytest.mark.parametrize("status", [401, 403, 500])
def test_a_refusal_of_one_file_is_unavailable_and_never_missing(
    monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    def answers(path: str) -> tuple[int, bytes]:
        if is_listing(path):
            return 200, ONE_CHECKPOINT if "prefix=demo/&" in path else b"{}"
        return status, b""

    with server(answers) as address:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", address)
        with pytest.raises(Unavailable, match=f"HTTP {status}"):
            FsspecCheckpoints().list_checkpoints("gs://bucket/demo")


def test_a_server_that_is_busy_for_a_moment_is_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    busy = [503, 429]

    def answers(path: str) -> tuple[int, bytes]:
        if busy:
            return busy.pop(), b""
        return (200, b'{"kind": "storage#objects"}') if is_listing(path) else (404, b"")

    with server(answers) as address:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", address)
        assert FsspecCheckpoints().list_checkpoints("gs://bucket/demo").checkpoints == ()
    assert busy == []


def test_a_silent_server_is_given_up_at_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", f"http://127.0.0.1:{silent.getsockname()[1]}")
        # The first use of gcsfs imports it, which is not what is measured here.
        Filesystems(SOON).of("gs://bucket")
        timer = clock.Timer()
        with pytest.raises(Unavailable, match=r"no answer within 0\.5 s"):
            FsspecCheckpoints(timedelta(seconds=0.5)).list_checkpoints("gs://bucket/silent")
        assert timedelta(seconds=0.4) < timer.elapsed() < timedelta(seconds=20)


def test_every_page_of_a_listing_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    # The emulator answers with one page, however long.
    asked: list[str] = []

    def answers(path: str) -> tuple[int, bytes]:
        if not is_listing(path):
            return 404, b""
        asked.append(path)
        page: dict[str, object] = {"kind": "storage#objects", "prefixes": ["demo/step-1000/"]}
        if "pageToken=second" not in path:
            page |= {"prefixes": ["demo/step-900/"], "nextPageToken": "second"}
        return 200, json.dumps(page).encode()

    with server(answers) as address:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", address)
        found = FsspecCheckpoints().list_checkpoints("gs://bucket/demo")
    assert steps(found) == [900, 1000]
    assert len([path for path in asked if "pageToken=second" in path]) == 1


def test_a_listing_whose_pages_repeat_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    page = json.dumps({"kind": "storage#objects", "nextPageToken": "again"}).encode()
    with server(lambda _path: (200, page)) as address:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", address)
        with pytest.raises(Unavailable, match="repeats a page"):
            FsspecCheckpoints().list_checkpoints("gs://bucket/demo")


def test_a_step_that_links_to_itself_is_unreadable_alone(tmp_path: Path) -> None:
    (tmp_path / "step-10").mkdir()
    (tmp_path / "step-10" / "metadata.json").write_text('{"step": 10, "is_temporary": false}')
    (tmp_path / "step-15").symlink_to("step-15")
    good, bad = FsspecCheckpoints().list_checkpoints(str(tmp_path)).checkpoints
    assert (good.step, good.complete) == (10, True)
    assert (bad.step, bad.complete, "not a folder" in bad.reason) == (15, False, True)
