"""Servers for the tests, and what a run says about those that it could not have.

A test that needs a server takes its fixture and carries its marker. Where the server cannot be
had, the test is skipped with the reason, and the reason is repeated at the end of the run. The
variable WATCHKEEPER_REQUIRE, such as `ray,gcs,s3,wandb,git`, names servers without which to fail.
"""

import importlib
import os
from collections.abc import Iterator
from typing import NoReturn

import freezegun
import pytest

from tests.gcs import gcs_bucket, gcs_bucket_to_stop, gcs_server
from tests.pubsub import (
    PubsubNotStarted,
    pubsub_project,
    pubsub_to_stop,
    start_pubsub,
    stop_pubsub,
)
from tests.s3 import S3NotStarted, s3_bucket, s3_bucket_to_stop, start_s3, stop_s3
from tests.wandb_stub import wandb_server

__all__ = [
    "gcs_bucket", "gcs_bucket_to_stop", "gcs_server", "pubsub_project", "pubsub_to_stop",
    "s3_bucket", "s3_bucket_to_stop", "wandb_server",
]  # fmt: skip

# Only the wall clock of our own code freezes. Frozen, these would wait for ever, or not at all.
freezegun.configure(
    extend_ignore_list=[
        "subprocess", "selectors", "asyncio", "concurrent", "grpc", "ray", "wandb", "google",
    ]
)  # fmt: skip

_MISSED = pytest.StashKey[dict[str, str]]()


def cannot_have(config: pytest.Config, server: str, reason: str) -> NoReturn:
    """Skip what needs a server, or fail where the server is required."""
    config.stash.setdefault(_MISSED, {})[server] = reason
    required = os.environ.get("WATCHKEEPER_REQUIRE", "").split(",")
    if server in [name.strip() for name in required]:
        pytest.fail(f"{server} is required by WATCHKEEPER_REQUIRE: {reason}", pytrace=False)
    pytest.skip(f"{server}: {reason}")


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    for server, reason in config.stash.setdefault(_MISSED, {}).items():
        terminalreporter.write_line(f"NOT TESTED against {server}: {reason}", yellow=True)


@pytest.fixture(scope="session")
def ray_head(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """The address of a Ray head of this test run."""
    # By name: importing Ray takes two seconds, which only tests that use it shall pay.
    cluster = importlib.import_module("watchkeeper.adapters.ray.cluster")
    try:
        head = cluster.start_head(tmp_path_factory.mktemp("ray"), 2)
    except cluster.HeadNotStarted as error:
        cannot_have(request.config, "ray", str(error))
    yield head.address
    head.stop()


@pytest.fixture(scope="session")
def s3_server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """The address of an S3 server of this test run."""
    try:
        address, process = start_s3(tmp_path_factory.mktemp("s3"))
    except (S3NotStarted, TimeoutError) as error:
        cannot_have(request.config, "s3", str(error))
    yield address
    stop_s3(process)


@pytest.fixture(scope="session")
def pubsub_server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """The `host:port` of a Pub/Sub emulator of this test run."""
    try:
        address, process = start_pubsub(tmp_path_factory.mktemp("pubsub"))
    except PubsubNotStarted as error:
        cannot_have(request.config, "pubsub", str(error))
    yield address
    stop_pubsub(process)
