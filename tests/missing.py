"""What a run says about the servers and tools that it could not have.

A test whose server cannot be had is skipped with the reason, and the reason is repeated at the end
of the run, whichever worker met it. The variable WATCHKEEPER_REQUIRE, such as
`ray,gcs,s3,wandb,git`, names servers without which to fail.
"""

import contextlib
import os
from collections.abc import Generator
from typing import Any, NoReturn

import pytest

from tests.server_process import ServerNotStarted

_MISSED = pytest.StashKey[dict[str, str]]()
_SENT = "watchkeeper_missed"


def cannot_have(config: pytest.Config, server: str, reason: str) -> NoReturn:
    """Skip what needs a server, or fail where the server is required."""
    config.stash.setdefault(_MISSED, {})[server] = reason
    required = os.environ.get("WATCHKEEPER_REQUIRE", "").split(",")
    if server in [name.strip() for name in required]:
        pytest.fail(f"{server} is required by WATCHKEEPER_REQUIRE: {reason}", pytrace=False)
    pytest.skip(f"{server}: {reason}")


@contextlib.contextmanager
def had(config: pytest.Config, server: str) -> Generator[None, None, None]:
    """Start a server inside: where it does not start, the test is skipped, or fails."""
    try:
        yield
    except ServerNotStarted as error:
        cannot_have(config, server, str(error))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """In a worker of pytest-xdist: send what it missed to the run that started it."""
    sent: dict[str, Any] | None = getattr(session.config, "workeroutput", None)
    if sent is not None:
        sent[_SENT] = session.config.stash.setdefault(_MISSED, {})


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """In the run that started the workers: one has ended, and this is what it missed."""
    missed: dict[str, str] = getattr(node, "workeroutput", {}).get(_SENT, {})
    node.config.stash.setdefault(_MISSED, {}).update(missed)


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Name each of them once."""
    for server, reason in config.stash.setdefault(_MISSED, {}).items():
        terminalreporter.write_line(f"NOT TESTED against {server}: {reason}", yellow=True)
