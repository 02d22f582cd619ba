"""How the tests are spread over the workers of pytest-xdist, and which need a server."""

import gc
import os
from pathlib import Path

import pytest

WORKERS_MORE = 3
"""Workers more than processors, since most tests wait for a process that they started: of the time
of all default tests less than half is a processor's."""

ONE_WORKER = ("ray_head", "station", "rolled_back")
"""Fixtures that only one worker makes. A Ray head is ten processes and half a GiB, and so is the
station of `test_ray_bridge`. A run that is rolled back and sealed takes ten seconds. A Cloud
Storage or S3 server takes a second and 60 MB, so each worker may have one."""

SERVERS = frozenset({"postgres", "pubsub"})
"""Tests with these markers are run by `-m servers`: no other servers are as slow to install."""

WITHOUT_SERVERS = "not long and not servers"
"""Which tests run by default; as in pyproject.toml."""

CAMPAIGNS = frozenset(
    {
        "test_fault.py", "test_first_run.py", "test_kill_bridge.py", "test_kill_ledger.py",
        "test_kill_watch.py", "test_launch_races.py", "test_ledger_bench.py", "test_workers.py",
    }
)  # fmt: skip
"""Files that kill processes again and again, or run or measure the whole; `-m servers` runs them.
"""

SLOWEST = (
    "test_tour.py", "test_lost_ray_job.py", "test_demo.py", "test_first_run.py",
    "test_demo_trackers.py", "test_kill_watch.py",
    "test_launch_races.py", "test_serve.py", "test_tracker_wandb.py",
    "test_tracker_wandb_offline.py",
)  # fmt: skip
"""Started first, so that no worker still runs one of them when the others are done."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """No worker where test files are named: what a person runs again and again starts at once."""
    if os.environ.get("PYTEST_XDIST_AUTO_NUM_WORKERS"):
        return None
    if _names_files(config):
        return 0
    return len(os.sched_getaffinity(0)) + WORKERS_MORE


def pytest_collection() -> None:
    """Turn the garbage collector off, which takes a fifth of the time and finds nothing to free."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Turn it on again, without what has been collected."""
    gc.enable()
    gc.freeze()


def _names_files(config: pytest.Config) -> bool:
    named = config.args_source is pytest.Config.ArgsSource.ARGS
    return named and all(_is_file(config, argument) for argument in config.args)


def _is_file(config: pytest.Config, argument: str) -> bool:
    return Path(config.invocation_params.dir, argument.partition("::")[0]).is_file()


# First, as pytest-xdist writes the group into the test's id.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what needs a server, group what shares one, and begin with what takes longest."""
    if config.option.markexpr == WITHOUT_SERVERS and _names_files(config):
        # A person who names a file wants its tests.
        config.option.markexpr = "not long"
    for item in items:
        if item.path.name in CAMPAIGNS or any(mark.name in SERVERS for mark in item.iter_markers()):
            item.add_marker(pytest.mark.servers)
        for fixture in _one_worker_fixtures(item):
            item.add_marker(pytest.mark.xdist_group(fixture))
    items.sort(key=lambda item: (not _one_worker_fixtures(item), item.path.name not in SLOWEST))


def _one_worker_fixtures(item: pytest.Item) -> list[str]:
    used = getattr(item, "fixturenames", ())
    marked = [str(mark.args[0]) for mark in item.iter_markers("xdist_group")]
    return [fixture for fixture in ONE_WORKER if fixture in used or fixture in marked]
