"""The suite's own hooks, by a small suite that has them: with workers and without."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HOOKS = """
import pytest
from tests.missing import pytest_sessionfinish, pytest_terminal_summary, pytest_testnodedown
from tests.workers import pytest_collection_modifyitems, pytest_xdist_auto_num_workers

@pytest.fixture(scope="session")
def ray_head(pytestconfig, tmp_path_factory):
    with (pytestconfig.rootpath / "heads").open("a") as file:
        file.write("started\\n")
"""
TESTS = """
import pytest
from tests.missing import cannot_have

@pytest.mark.parametrize("number", range(4))
def test_without_a_server(number):
    pass

@pytest.mark.parametrize("number", range(4))
def test_with_a_head(number, ray_head):
    pass

@pytest.mark.parametrize("server", ["gcs", "s3", "gcs", "s3"])
def test_with_what_cannot_be_had(pytestconfig, server):
    cannot_have(pytestconfig, server, "no such thing here")
"""


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "conftest.py").write_text(HOOKS)
    (tmp_path / "test_small.py").write_text(TESTS)
    return tmp_path


def run_suite(suite: Path, *arguments: str, require: str = "") -> tuple[int, str]:
    options = ("-p", "xdist", "-p", "no:cacheprovider", "--dist", "loadgroup")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *arguments],
        env={
            **{name: text for name, text in os.environ.items() if "PYTEST" not in name},
            # Other plugins of this environment take most of a start, and each worker is one.
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "PYTHONPATH": str(Path(__file__).parents[1]),
            "WATCHKEEPER_REQUIRE": require,
        },
        cwd=suite,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("workers", ["0", "2"])
def test_what_cannot_be_had_is_told_once_at_the_end(suite: Path, workers: str) -> None:
    code, said = run_suite(suite, "-n", workers)
    assert code == 0, said
    assert "8 passed, 4 skipped" in said
    for server in ("gcs", "s3"):
        assert said.count(f"NOT TESTED against {server}: no such thing here") == 1


@pytest.mark.parametrize("workers", ["0", "2"])
def test_what_is_required_and_cannot_be_had_is_a_failure(suite: Path, workers: str) -> None:
    code, said = run_suite(suite, "-n", workers, require="ray, s3")
    assert code == 1
    assert "s3 is required by WATCHKEEPER_REQUIRE: no such thing here" in said
    assert "2 failed, 8 passed, 2 skipped" in said


def test_what_needs_a_head_is_run_by_one_worker(suite: Path) -> None:
    code, said = run_suite(suite, "-n", "4")
    assert (code, "4 workers" in said) == (0, True), said
    assert (suite / "heads").read_text() == "started\n"


@pytest.mark.parametrize(
    ("arguments", "spread"),
    [
        ((), True),
        ((".",), True),
        (("test_small.py",), False),
        (("test_small.py::test_with_a_head",), False),
    ],
)
def test_a_test_that_is_named_by_its_file_is_run_without_workers(
    suite: Path, arguments: tuple[str, ...], spread: bool
) -> None:
    code, said = run_suite(suite, "-n", "auto", *arguments)
    assert code == 0, said
    assert (" workers [" in said) is spread
