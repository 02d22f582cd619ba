"""A watch whose PostgreSQL server is away waits for it, does nothing false, and goes on."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import IO

import pytest

from tests.postgres import PostgresServer
from tests.session import LIMIT, data_of, end_processes, requested
from tests.test_views import wait_for
from tests.training import Site, tiny_contract
from watchkeeper import clock
from watchkeeper.adapters.cli.common import open_session
from watchkeeper.adapters.home import create_home
from watchkeeper.adapters.ledger_choice import VARIABLE
from watchkeeper.adapters.store.postgres import open_postgres
from watchkeeper.adapters.store.postgres_address import parse_address
from watchkeeper.domain.run.watch import CheckRecorded
from watchkeeper.ports.event_store import EventStore, StoreFailure, StoreUnavailable
from watchkeeper.services.ledger import store_outage

pytestmark = [pytest.mark.git, pytest.mark.postgres, pytest.mark.timeout(200)]

WATCHKEEPER = Path(sys.executable).with_name("watchkeeper")


class Gone:
    """A store that fails in a given order: a fake, for the order alone."""

    def __init__(self, *errors: StoreFailure) -> None:
        self.errors = list(errors)

    def newest(self) -> int:
        if self.errors:
            raise self.errors.pop(0)
        return 1

    def append(self, writes: object) -> None:
        assert writes == []


def gone(*errors: StoreFailure) -> EventStore:
    return Gone(*errors)  # type: ignore[return-value]  # pyright: ignore[reportReturnType]


def test_the_longest_wait_for_another_try_is_half_a_minute() -> None:
    assert store_outage.RETRY_LONGEST * (1 + store_outage.RETRY_JITTER) <= timedelta(seconds=30)  # noqa: SIM300


def test_it_is_told_at_once_and_then_now_and_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(store_outage, "RETRY_FIRST", timedelta(milliseconds=1))
    monkeypatch.setattr(store_outage, "REPORT_EVERY", timedelta(0))
    refused = StoreUnavailable("refused.")
    assert store_outage.wait_until_back(gone(refused, refused), threading.Event(), refused)
    said = [record.getMessage().partition(",")[0] for record in caplog.records]
    assert said[:3] == ["the ledger is away", *["the ledger is still away"] * 2]
    assert said[3].startswith("the ledger is back after")


def test_what_waiting_does_not_mend_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_outage, "RETRY_FIRST", timedelta(milliseconds=1))
    damaged = StoreFailure("damaged")
    with pytest.raises(StoreFailure, match="damaged"):
        store_outage.wait_until_back(gone(damaged), threading.Event(), StoreUnavailable("refused"))


def test_the_process_may_end_while_the_ledger_is_away() -> None:
    stop = threading.Event()
    stop.set()
    timer = clock.Timer()
    assert not store_outage.wait_until_back(gone(), stop, StoreUnavailable("refused"))
    assert timer.elapsed() < timedelta(seconds=10)


@contextmanager
def watching(home: Path, errors: IO[bytes]) -> Generator[Callable[[timedelta], int | None]]:
    """Run `watchkeeper watch`; give what sends Ctrl-C and returns its exit code."""
    process = subprocess.Popen(
        [str(WATCHKEEPER), "watch", "--home", str(home)],
        stdout=subprocess.DEVNULL,
        stderr=errors,
        env=dict(os.environ),
    )

    def end(limit: timedelta) -> int | None:
        process.send_signal(signal.SIGINT)
        return process.wait(timeout=limit.total_seconds())

    try:
        yield end
    finally:
        process.kill()
        process.wait()
        # The job goes on without its watch.
        end_processes(home.parent)


def test_a_watch_waits_for_its_server_and_goes_on(
    tmp_path: Path, site: Site, postgres_to_stop: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"{postgres_to_stop.url}#away"
    monkeypatch.setenv(VARIABLE, url)
    open_postgres(parse_address(url), create=True).close()
    home, told = tmp_path / "home", tmp_path / "told"
    create_home(home)
    with open_session(home, create=True) as session:
        requested(session, tiny_contract(site, "patient", steps=100_000))
    with told.open("wb") as errors, watching(home, errors) as end:

        def checks() -> int:
            with open_session(home, create=True) as session:
                return len(data_of(session, "patient", CheckRecorded))

        wait_for(lambda: checks() > 0, LIMIT.total_seconds())
        postgres_to_stop.stop()
        wait_for(lambda: "the ledger is away" in told.read_text(), 60)
        clock.sleep(timedelta(seconds=12))
        postgres_to_stop.start()
        before = checks()
        wait_for(lambda: "the ledger is back" in told.read_text(), 60)
        wait_for(lambda: checks() > before, LIMIT.total_seconds())
        postgres_to_stop.stop()
        wait_for(lambda: told.read_text().count("the ledger is away") == 2, 60)
        clock.sleep(timedelta(seconds=16))  # The other threads have given up by then, too.
        timer = clock.Timer()
        assert end(timedelta(seconds=60)) == 0, told.read_text()
        assert timer.elapsed() < timedelta(seconds=8)
    assert "Traceback" not in told.read_text()
