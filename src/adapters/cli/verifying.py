"""Verifies the ledger while a watch runs: soon after its start, and daily."""

import logging
import os
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from datetime import timedelta

from watchkeeper.adapters.cli.common import Session
from watchkeeper.adapters.cli.reader import store_of
from watchkeeper.adapters.ledger_choice import VARIABLE
from watchkeeper.adapters.verified import read_verified

_FIRST = timedelta(seconds=20)
"""The first checks of a watch come before its first verification."""

_EVERY = timedelta(days=1)

_LOOK_EVERY = timedelta(milliseconds=200)

_COMMAND = "import sys; from watchkeeper.adapters.cli import main; main(sys.argv[1:])"

_LOG = logging.getLogger(__name__)


@contextmanager
def verified_daily(session: Session, first: timedelta = _FIRST) -> Generator[None, None, None]:
    """Verify the ledger during a block, in a process of its own; `status` shows the result.

    Args:
        session: The open home.
        first: The wait before the first verification.
    """
    stop = threading.Event()
    worker = threading.Thread(target=_verify_daily, args=(session, stop, first), name="verify")
    worker.start()
    try:
        yield
    finally:
        stop.set()
        worker.join()


def _verify_daily(session: Session, stop: threading.Event, wait: timedelta) -> None:
    while not stop.wait(wait.total_seconds()):
        wait = _EVERY
        _verify(session, stop)


def _verify(session: Session, stop: threading.Event) -> None:
    chosen = store_of(session.home)
    environment = {**os.environ, **({VARIABLE: chosen} if chosen else {})}
    command = [sys.executable, "-c", _COMMAND, "verify", "--offline", "--jobs", "1"]
    try:
        # SQLite's locks forbid that this process opens the file a second time.
        process = subprocess.Popen(
            [*command, "--home", str(session.home.path)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment,
        )
    except OSError as error:
        _LOG.error("the ledger is not verified: %s", error)
        return
    while process.poll() is None:
        if stop.wait(_LOOK_EVERY.total_seconds()):
            process.kill()
            process.wait()
            return
    found = read_verified(session.home.path)
    if process.returncode and found is not None and found.is_broken:
        _LOG.error("the ledger failed its verification: %s", found.problem)
    elif process.returncode:
        _LOG.warning("the ledger could not be verified: watchkeeper verify")
