"""An S3 server of the test run's own: moto's, on a free port."""

import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import fsspec
import pytest

from tests.missing import had
from tests.server_process import Server, start_server

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


def start_s3(folder: Path, *, objects: int = 0) -> Server:
    """Start a server that logs to a folder; return it once it answers.

    Args:
        objects: Objects that lie in its bucket `large` from the start, below `run/`.
    """
    return start_server(LAUNCHER, "0", str(objects), log=folder / "s3.log", env=ENVIRONMENT)


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


@pytest.fixture(scope="session")
def s3_server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """The address of a server of this test run."""
    with had(request.config, "s3"):
        server = start_s3(tmp_path_factory.mktemp("s3"))
    try:
        yield server.address
    finally:
        server.stop()


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
    server = start_s3(tmp_path)
    point_to(monkeypatch, server.address)
    try:
        yield make_s3_bucket(), server.stop
    finally:
        server.stop()
