"""A Cloud Storage server of the test run's own: gcp-storage-emulator, on a free port."""

import json
import os
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import fsspec
import pytest

from tests.missing import had
from tests.server_process import Server, start_server

LAUNCHER = Path(__file__).parent / "servers" / "gcs-emulator" / "run.py"


def start_emulator(folder: Path) -> Server:
    """Start an emulator that logs to a folder; return it once it answers."""
    options = ("--host", "127.0.0.1", "--port", "0", "-M", "-q")
    return start_server(LAUNCHER, "start", *options, log=folder / "gcs-emulator.log")


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
def gcs_server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """The address of an emulator of this test run."""
    with had(request.config, "gcs"):
        server = start_emulator(tmp_path_factory.mktemp("gcs"))
    try:
        yield server.address
    finally:
        server.stop()


@pytest.fixture
def gcs_bucket(gcs_server: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The `gs://` URL of an empty bucket, which the environment leads to."""
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", gcs_server)
    return make_bucket()


@pytest.fixture
def gcs_bucket_to_stop(
    gcs_server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[str, Callable[[], None]]]:
    """The `gs://` URL of an empty bucket on a server of its own, and what stops that server."""
    server = start_emulator(tmp_path)
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", server.address)
    try:
        yield make_bucket(), server.stop
    finally:
        server.stop()
