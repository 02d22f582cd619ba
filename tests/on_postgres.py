"""`--on-postgres`: a run whose homes are on a server, every file of it, or it fails.

CI runs the files of `tests/on_postgres.txt` so, a second time:

    uv run pytest @tests/on_postgres.txt

A test that chooses its store by itself is left out, since it is the same in every run. Of each
other file the server must have seen a ledger: a run that is on SQLite after all, or that runs
nothing, is red.
"""

import os
from pathlib import Path

import pytest

from tests.postgres import KEPT_ON_SERVER, TEST_STORE

LIST = Path(__file__).with_suffix(".txt")

_OWN_CHOICE = {"chosen_store", "place"}
"""Fixtures that a test is parametrised by where it chooses its store."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    says = "keep every home on a PostgreSQL server, and fail where a file keeps none there"
    parser.addoption("--on-postgres", action="store_true", help=says)


def pytest_configure(config: pytest.Config) -> None:
    """Choose the server for this run, and require it."""
    if not config.getoption("on_postgres"):
        return
    os.environ[TEST_STORE] = "postgresql"
    required = os.environ.get("WATCHKEEPER_REQUIRE", "")
    os.environ["WATCHKEEPER_REQUIRE"] = f"{required},postgres"
    config.pluginmanager.register(OnPostgres(), "watchkeeper-on-postgres")


class OnPostgres:
    """What a run with the option has seen so far; with workers, in the run that started them."""

    def __init__(self) -> None:
        """Nothing yet."""
        self._kept: set[Path] = set()
        self._missing: list[str] | None = None

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Leave out what chooses its store by itself."""
        left_out = [item for item in items if _chooses(item)]
        if left_out:
            items[:] = [item for item in items if not _chooses(item)]
            config.hook.pytest_deselected(items=left_out)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Remember a file whose test left a ledger on the server."""
        if KEPT_ON_SERVER in report.user_properties:
            self._kept.add(Path(report.location[0]))

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Fail for each file without one."""
        if hasattr(session.config, "workerinput") or session.config.option.collectonly:
            return
        self._missing = [name for name in _named(session.config) if Path(name) not in self._kept]
        if (self._missing or not self._kept) and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Name each of them."""
        if self._missing is None:
            return
        for name in self._missing:
            terminalreporter.write_line(f"NOT ON POSTGRESQL: {name} kept no ledger there", red=True)
        terminalreporter.write_line(f"on PostgreSQL: {len(self._kept)} files")


def _named(config: pytest.Config) -> list[str]:
    """Return the files that the command line names, from the root on."""
    paths = [Path(config.invocation_params.dir, text.partition("::")[0]) for text in config.args]
    return sorted({os.path.relpath(path, config.rootpath) for path in paths if path.is_file()})


def _chooses(item: pytest.Item) -> bool:
    if item.get_closest_marker("postgres"):
        return True
    chosen = getattr(item, "callspec", None)
    return chosen is not None and not _OWN_CHOICE.isdisjoint(chosen.params)
