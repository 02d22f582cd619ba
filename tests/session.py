"""A whole service over real parts for tests: home, ledger, adapters, watch."""

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest

from watchkeeper import clock
from watchkeeper.adapters.cli.common import Session, holder_of, open_session
from watchkeeper.adapters.home import create_home
from watchkeeper.domain.rules.launch.commands import ApproveLaunch, DraftRun
from watchkeeper.domain.rules.shared.refusals import Refused
from watchkeeper.domain.run.run import Run
from watchkeeper.domain.values.contract.contract import Contract
from watchkeeper.domain.values.people import Actor
from watchkeeper.services.ledger.ledger import Handled
from watchkeeper.services.services import Services
from watchkeeper.services.watch.launches import request_launch
from watchkeeper.services.watch.loop import Watcher

DRI = Actor(principal="dri", kind="human")
LIMIT = timedelta(seconds=60)


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    """An open home; whatever was started below the test's folder ends with the test."""
    create_home(tmp_path / "home")
    with open_session(tmp_path / "home", create=True) as opened:
        yield opened
    end_processes(tmp_path)


def ask_for_launch(session: Session, contract: Contract) -> Handled | Refused:
    """Ask for a launch once, as `watchkeeper launch` does."""
    return request_launch(session.services, contract, DRI)


def approved(session: Session, contract: Contract) -> Run:
    """Draft a run and approve its plan, without asking for its launch."""
    draft = DraftRun(now=clock.now(), actor=DRI, contract=contract)
    taken(session.ledger.handle(contract.run, draft))
    run = taken(ask_for_launch(session, contract)).run
    assert run.launch.preflight is not None
    approval = ApproveLaunch(
        now=clock.now(), actor=DRI, digest=run.launch.preflight.digest, note="test"
    )
    return taken(session.ledger.handle(contract.run, approval)).run


def requested(session: Session, contract: Contract) -> Run:
    """Draft, approve and request a launch; nothing is submitted yet."""
    approved(session, contract)
    run = taken(ask_for_launch(session, contract)).run
    assert type(run.phase).__name__ == "Launching", run.launch.preflight
    return run


def taken(outcome: Handled | Refused) -> Handled:
    """Return what a command recorded, when it was taken."""
    assert isinstance(outcome, Handled), outcome
    return outcome


def watch_until(
    session: Session,
    condition: Callable[[dict[str, Run]], bool],
    *,
    services: Services | None = None,
    limit: timedelta = LIMIT,
    every: timedelta = timedelta(0),
) -> None:
    """Run the watch until a condition over all runs holds, asked at every turn.

    Args:
        session: The home.
        condition: Over all runs.
        services: What the watch works with; the office's own by default.
        limit: How long to wait.
        every: The least time between two commits of a branch; none by default, since tests whose
            jobs live for seconds have no minute.

    Raises:
        TimeoutError: It did not hold within the limit.
    """
    stop = threading.Event()
    holder = holder_of(session.home, "watchkeeper")
    watcher = Watcher(services or session.services, holder, session.home, every=every)
    failure: list[BaseException] = []
    thread = threading.Thread(target=_run, args=(watcher, stop, failure), daemon=True)
    thread.start()
    backoff = clock.ExponentialBackoff(maximum=timedelta(milliseconds=100))
    held = backoff.wait_until(lambda: bool(failure) or condition(runs_of(session)), limit)
    stop.set()
    thread.join(timeout=40)
    if failure:
        raise failure[0]
    if not held:
        phases = {slug: run.phase for slug, run in runs_of(session).items()}
        raise TimeoutError(f"the condition did not hold within {limit}: {phases}")


def _run(watcher: Watcher, stop: threading.Event, failure: list[BaseException]) -> None:
    try:
        watcher.run(stop)
    except BaseException as error:  # noqa: BLE001 - Handed to the test's own thread.
        failure.append(error)


def runs_of(session: Session) -> dict[str, Run]:
    """Return all readable runs as recorded by now."""
    found = {slug: session.ledger.run(slug) for slug in session.ledger.slugs()}
    return {slug: run for slug, run in found.items() if isinstance(run, Run)}


def phase_of(session: Session, slug: str) -> str:
    """Return a run's phase as people write it."""
    return type(session.ledger.run(slug).phase).__name__.lower()  # type: ignore[union-attr]


def topics(session: Session, slug: str) -> list[str]:
    """Return the topics of a run's history, in order."""
    return [event.data.topic for event in session.ledger.history(slug)]


def data_of(session: Session, slug: str, kind: type[Any]) -> list[Any]:
    """Return the data of a run's events of one kind, in order."""
    return [e.data for e in session.ledger.history(slug) if isinstance(e.data, kind)]


def text_of(path: Path) -> str:
    """Return a file's text, or nothing where there is no file."""
    return path.read_text() if path.exists() else ""


def end_processes(folder: Path) -> None:
    """End every process that a test started below a folder, by pid."""
    for process in processes_of(folder):
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()


def processes_of(folder: Path) -> list[psutil.Process]:
    """Return the processes whose command line names a folder, this one aside."""
    found: list[psutil.Process] = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            if process.pid != os.getpid() and str(folder) in " ".join(process.cmdline()):
                found.append(process)
    return found
