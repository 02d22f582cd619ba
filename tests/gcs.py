"""A Cloud Storage server of the test run's own: gcp-storage-emulator, on a free port."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import fsspec
import pytest

from watchkeeper import clock

LAUNCHER = Path(__file__).parent / "servers" / "gcs-emulator" / "run.py"
START_LIMIT = timedelta(seconds=30)


def start_emulator(folder: Path) -> tuple[str, subprocess.Popen[bytes]]:
    """Start an emulator that logs to a folder; return its address once it answers."""
    log = folder / "gcs-emulator.log"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    options = ("--host", "127.0.0.1", "--port", str(port), "-M", "-q")
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, str(LAUNCHER), "start", *options],
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def answers() -> bool:
        if process.poll() is not None:
            raise RuntimeError(f"{LAUNCHER} ended before it answered; {log} says why")
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return True
        return False

    backoff = clock.ExponentialBackoff(initial=timedelta(milliseconds=20))
    try:
        backoff.wait_until_or_raise(answers, START_LIMIT, f"waiting for {LAUNCHER}")
    except TimeoutError:
        stop_emulator(process)
        raise
    return f"http://127.0.0.1:{port}", process


def stop_emulator(process: subprocess.Popen[bytes]) -> None:
    """Stop an emulator with all that is in its process group."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGTERM)
    process.wait(timeout=START_LIMIT.total_seconds())


def make_bucket() -> str:
    """Make an empty bucket on the emulator that the environment names; return its URL."""
    url = f"gs://test-{uuid.uuid4().hex[:12]}"
    storage().mkdir(url, create_parents=True)
    return url


def place_bucket(url: str, location: str) -> None:
    """Say where a bucket is: the emulator puts each into `US`, whatever it is asked at first."""
    address = f"{os.environ['STORAGE_EMULATOR_HOST']}/storage/v1/b/{url.removeprefix('gs://')}"
    request = urllib.request.Request(
        address,
        data=json.dumps({"location": location}).encode(),
        method="PATCH",
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=10) as answer:
        assert json.load(answer)["location"] == location


def storage() -> Any:
    """Return a client of the emulator that the environment names."""
    # Its own registered `gs` would ask the emulator over gRPC first, which never answers.
    made = cast("Any", fsspec)
    made.register_implementation("test-gs", "gcsfs.core.GCSFileSystem", clobber=True)
    return made.filesystem("test-gs", token="anon", project="test", skip_instance_cache=True)


@pytest.fixture(scope="session")
def gcs_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of an emulator of this test run."""
    address, process = start_emulator(tmp_path_factory.mktemp("gcs"))
    try:
        yield address
    finally:
        stop_emulator(process)


@pytest.fixture
def gcs_bucket(gcs_server: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The `gs://` URL of an empty bucket, which the environment leads to."""
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", gcs_server)
    return make_bucket()


@pytest.fixture
def gcs_bucket_to_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[str, Callable[[], None]]]:
    """The `gs://` URL of an empty bucket on a server of its own, and what stops that server."""
    address, process = start_emulator(tmp_path)
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", address)
    try:
        yield make_bucket(), lambda: stop_emulator(process)
    finally:
        stop_emulator(process)
