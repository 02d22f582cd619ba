"""The fixtures and hooks of all tests, each from the module that says what it is."""

import importlib
from collections.abc import Iterator

import freezegun
import pytest
from hypothesis import HealthCheck, settings

from tests.command_line import cli, cli_without_home, home, site
from tests.gcs import gcs_bucket, gcs_bucket_to_stop, gcs_server
from tests.missing import (
    cannot_have,
    pytest_sessionfinish,
    pytest_terminal_summary,
    pytest_testnodedown,
)  # fmt: skip
from tests.on_postgres import pytest_addoption, pytest_configure
from tests.postgres import (
    chosen_store,
    postgres_server,
    postgres_to_stop,
    postgres_url,
    store_of_this_run,
)
from tests.pubsub import pubsub_project, pubsub_server, pubsub_to_stop
from tests.s3 import s3_bucket, s3_bucket_to_stop, s3_server
from tests.session import session
from tests.stores import place, store, views
from tests.wandb_stub import wandb_server
from tests.workers import (
    pytest_collection,
    pytest_collection_finish,
    pytest_collection_modifyitems,
    pytest_xdist_auto_num_workers,
)  # fmt: skip

__all__ = [
    "chosen_store",
    "cli",
    "cli_without_home",
    "gcs_bucket",
    "gcs_bucket_to_stop",
    "gcs_server",
    "home",
    "place",
    "postgres_server",
    "postgres_to_stop",
    "postgres_url",
    "pubsub_project",
    "pubsub_server",
    "pubsub_to_stop",
    "pytest_addoption",
    "pytest_collection",
    "pytest_collection_finish",
    "pytest_collection_modifyitems",
    "pytest_configure",
    "pytest_sessionfinish",
    "pytest_terminal_summary",
    "pytest_testnodedown",
    "pytest_xdist_auto_num_workers",
    "s3_bucket",
    "s3_bucket_to_stop",
    "s3_server",
    "session",
    "site",
    "store",
    "store_of_this_run",
    "views",
    "wandb_server",
]  # fmt: skip

# Only the wall clock of our own code freezes. Frozen, these would wait for ever, or not at all.
freezegun.configure(
    extend_ignore_list=[
        "subprocess", "selectors", "asyncio", "concurrent", "grpc", "ray", "wandb", "google",
        "psycopg",
    ]
)  # fmt: skip

# How long an example takes says how busy the machine is. A test that means it says `deadline`.
settings.register_profile(
    "busy", deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("busy")


CHIPS = {"TPU": 4, "accelerator_type:TPU-V4": 1}
"""What the head says that it has. No test computes on a chip."""


@pytest.fixture(scope="session")
def ray_head(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """The address of a Ray head of this test run."""
    # By name: importing Ray takes two seconds, which only tests that use it shall pay.
    cluster = importlib.import_module("watchkeeper.adapters.ray.cluster")
    try:
        head = cluster.start_head(tmp_path_factory.mktemp("ray"), 2, resources=CHIPS)
    except cluster.HeadNotStarted as error:
        cannot_have(request.config, "ray", str(error))
    yield head.address
    head.stop()
