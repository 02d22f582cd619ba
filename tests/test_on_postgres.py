"""The leg of CI on PostgreSQL: it is run, its files exist, and one that is on SQLite is red."""

from pathlib import Path

import pytest

from tests.on_postgres import LIST
from tests.test_workers import run_suite

pytestmark = pytest.mark.postgres

ROOT = Path(__file__).parents[1]

HOOKS = """
from tests.on_postgres import pytest_addoption, pytest_configure
from tests.postgres import chosen_store, postgres_server, postgres_url, store_of_this_run
from tests.stores import place
"""
KEEPS = """
from tests.stores import place_of_run

def test_keeps(tmp_path):
    with place_of_run(tmp_path).open():
        pass

def test_keeps_nothing():
    pass
"""
IN_A_FILE = """
from tests.stores import place_of_run
from watchkeeper.adapters.ledger_choice import VARIABLE

def test_keeps(tmp_path, monkeypatch):
    monkeypatch.delenv(VARIABLE)
    with place_of_run(tmp_path).open():
        pass
"""
CHOOSES = """
from tests.stores import ON_BOTH, ON_FILE

@ON_BOTH
def test_on_both(chosen_store):
    pass

@ON_FILE
def test_on_a_file():
    pass

def test_of_a_place(place):
    with place.open():
        pass
"""


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = postgres\n")
    (tmp_path / "conftest.py").write_text(HOOKS)
    for name, text in {"keeps": KEEPS, "in_a_file": IN_A_FILE, "chooses": CHOOSES}.items():
        (tmp_path / f"test_{name}.py").write_text(text)
    return tmp_path


def test_a_file_of_the_leg_that_kept_no_ledger_on_the_server_is_red(suite: Path) -> None:
    files = ("test_keeps.py", "test_in_a_file.py", "test_chooses.py")
    # One worker, since each has a server of its own.
    code, said = run_suite(suite, "--on-postgres", "-n", "1", *files)
    assert (code, "3 passed" in said, "test_keeps.py kept" in said) == (1, True, False), said
    assert "NOT ON POSTGRESQL: test_in_a_file.py kept no ledger there" in said
    # Its tests choose their store, and were left out: nothing was run.
    assert "NOT ON POSTGRESQL: test_chooses.py kept no ledger there" in said


def test_ci_runs_the_leg_by_the_one_list_of_its_files() -> None:
    words = LIST.read_text().split()
    assert words[0] == "--on-postgres"
    files = [word for word in words if not word.startswith("-")]
    assert len(files) > 5
    assert [name for name in files if not (ROOT / name).is_file()] == []
    named = f"@{LIST.relative_to(ROOT)}"
    commands = [line for line in (ROOT / ".ci/run").read_text().splitlines() if named in line]
    assert len(commands) == 1
    assert commands[0].strip().startswith("uv run pytest ")
