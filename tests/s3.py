"""An S3 server of the test run's own: moto's, on a free port."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import fsspec
import pytest

from watchkeeper import clock

START_LIMIT = timedelta(seconds=60)

LAUNCHER = Path(__file__).parent / "servers" / "s3.py"

ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_DEFAULT_REGION": "us-east-1",
    # Whoever runs the tests may have an account of their own.
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "AWS_EC2_METADATA_DISABLED": "true",
}


class S3NotStarted(Exception):
    """The server cannot be had here; the message says why."""


def start_s3(folder: Path, *, objects: int = 0) -> tuple[str, subprocess.Popen[bytes]]:
    """Start a server that logs to a folder; return its address once it answers.

    Args:
        objects: Objects that lie in its bucket `large` from the start, below `run/`.
    """
    log = folder / "s3.log"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, str(LAUNCHER), str(port), str(objects)],
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, **ENVIRONMENT},
        )

    def answers() -> bool:
        if process.poll() is not None:
            why = log.read_text(errors="replace").strip().rpartition("\n")[2]
            raise S3NotStarted(f"{LAUNCHER.name} ended before it answered: {why}")
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return True
        return False

    backoff = clock.ExponentialBackoff(initial=timedelta(milliseconds=20))
    try:
        backoff.wait_until_or_raise(answers, START_LIMIT, f"waiting for {LAUNCHER}")
    except TimeoutError:
        stop_s3(process)
        raise
    return f"http://127.0.0.1:{port}", process


def stop_s3(process: subprocess.Popen[bytes]) -> None:
    """Stop a server with all that is in its process group."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGTERM)
    process.wait(timeout=START_LIMIT.total_seconds())


def point_to(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    """Lead every S3 client of this process to a server."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in {**ENVIRONMENT, "AWS_ENDPOINT_URL": address}.items():
        monkeypatch.setenv(name, value)


def make_s3_bucket() -> str:
    """Make an empty bucket on the server that the environment names; return its URL."""
    url = f"s3://test-{uuid.uuid4().hex[:12]}"
    client = cast("Any", fsspec).filesystem("s3", skip_instance_cache=True)
    client.mkdir(url, create_parents=True)
    return url


def place_s3_bucket(beside: str, region: str) -> str:
    """Make a bucket in a region, named after another one; return its URL."""
    url = f"{beside}-there"
    client = cast("Any", fsspec).filesystem("s3", skip_instance_cache=True)
    where = {"LocationConstraint": region}
    name = url.removeprefix("s3://")
    client.call_s3("create_bucket", Bucket=name, CreateBucketConfiguration=where)
    return url


@pytest.fixture
def s3_bucket(s3_server: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The `s3://` URL of an empty bucket, which the environment leads to."""
    point_to(monkeypatch, s3_server)
    return make_s3_bucket()


@pytest.fixture
def s3_bucket_to_stop(
    s3_server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[str, Callable[[], None]]]:
    """The `s3://` URL of an empty bucket on a server of its own, and what stops that server."""
    address, process = start_s3(tmp_path)
    point_to(monkeypatch, address)
    try:
        yield make_s3_bucket(), lambda: stop_s3(process)
    finally:
        stop_s3(process)
