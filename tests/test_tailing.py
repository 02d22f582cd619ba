"""The tailer's thread outlives every fault of the ledger and of the views."""

import sqlite3
import threading
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.postgres import PostgresServer
from tests.test_views import ME, add, live, wait_for
from watchkeeper import clock
from watchkeeper.adapters import views_file
from watchkeeper.adapters.store.feed import Feed
from watchkeeper.adapters.store.postgres import open_postgres
from watchkeeper.adapters.store.postgres_address import parse_address
from watchkeeper.adapters.store.sqlite import open_store
from watchkeeper.adapters.views_file import ViewsFile
from watchkeeper.ports.event_store import StoreFailure
from watchkeeper.ports.views import ViewsFailure
from watchkeeper.projections.views.sizes import SIZES
from watchkeeper.services.views import worker
from watchkeeper.services.views.rebuild import catch_up

A_WHILE = 4
"""Failures in a row: more than one back-off, and little enough to wait for."""


def tailers() -> list[threading.Thread]:
    return [t for t in threading.enumerate() if t.name == "ledger-tail"]


class Broken:
    """Fails a method some times, then lets it through: a fake fault, at one exact place."""

    def __init__(self, whole: Any, error: Exception, times: int) -> None:
        self.whole, self.error, self.left = whole, error, times

    def __call__(self, *args: Any, **named: Any) -> Any:
        if self.left:
            self.left -= 1
            raise self.error
        return self.whole(*args, **named)


@pytest.mark.parametrize("times", [1, A_WHILE])
@pytest.mark.parametrize(
    ("whose", "method"),
    [("store", "newest"), ("store", "wait"), ("views", "beat"), ("views", "builds")],
)
def test_a_tailer_outlives_each_call_that_fails_once_or_for_a_while(
    store: Any,
    views: ViewsFile,
    monkeypatch: pytest.MonkeyPatch,
    whose: str,
    method: str,
    times: int,
) -> None:
    monkeypatch.setattr(worker, "BEAT_EVERY", timedelta(0))
    monkeypatch.setattr(worker, "RETRY_FIRST", timedelta(milliseconds=20))
    add(store, "run/a", "1")
    known = [SIZES] if method != "newest" else []  # Without a build, `newest` says where to rest.
    with worker.tailing(store, views, known, ME):
        wait_for(lambda: [beat for beat in views.beats() if not beat.error])
        of = {"store": store, "views": views}[whose]
        error = StoreFailure("away") if whose == "store" else ViewsFailure("locked")
        broken = Broken(getattr(of, method), error, times)
        monkeypatch.setattr(of, method, broken)
        add(store, "run/a", "2")
        wait_for(lambda: not broken.left)
        add(store, "run/a", "3")
        wait_for(lambda: not known or live(views).position == 3)
        wait_for(lambda: not [beat for beat in views.beats() if beat.error])
        assert tailers()
    assert not tailers()


def test_a_tailer_goes_on_after_another_process_held_its_views(
    store: Any, views: ViewsFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(views_file, "BUSY_S", 0.2)
    monkeypatch.setattr(worker, "BEAT_EVERY", timedelta(milliseconds=100))
    with ViewsFile(tmp_path / "views.db") as hasty, worker.tailing(store, hasty, [SIZES], ME):
        add(store, "run/a", "1")
        wait_for(lambda: [b for b in views.builds() if b.position == 1])
        with closing(sqlite3.connect(tmp_path / "views.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            clock.sleep(timedelta(seconds=2))
            other.execute("ROLLBACK")
        add(store, "run/a", "2")
        wait_for(lambda: live(views).position == 2)
        wait_for(lambda: not [beat for beat in views.beats() if beat.error])


def test_who_waits_in_vain_looks_once() -> None:
    looks: list[int] = []

    def look() -> bool:
        looks.append(1)
        return False

    assert not Feed(lambda _: None).wait(look, timedelta(milliseconds=100))
    assert looks == [1]


def test_the_longest_wait_for_another_try_is_half_a_minute() -> None:
    assert timedelta(seconds=30) >= worker.RETRY_LONGEST * (1 + worker.RETRY_JITTER)


@pytest.mark.postgres
def test_a_tailer_goes_on_after_its_server_was_away(
    postgres_to_stop: PostgresServer, views: ViewsFile
) -> None:
    address = parse_address(f"{postgres_to_stop.url}#away")
    with (
        open_postgres(address, create=True) as store,
        worker.tailing(store, views, [SIZES], ME),
    ):
        add(store, "run/a", "1")
        wait_for(lambda: [b for b in views.builds() if b.position == 1])
        postgres_to_stop.stop()
        wait_for(lambda: [beat for beat in views.beats() if beat.error], limit_s=60)
        postgres_to_stop.start()
        add(store, "run/a", "2")
        wait_for(lambda: live(views).position == 2, limit_s=60)
        wait_for(lambda: not [beat for beat in views.beats() if beat.error])


def test_a_view_that_is_ahead_of_the_ledger_is_reported_once_in_the_log(
    store: Any,
    views: ViewsFile,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(worker, "POLL_EVERY", timedelta(milliseconds=100))
    add(store, "run/a", "1", "2", "3")
    catch_up(store, views, [SIZES])
    with open_store(tmp_path / "older.db") as older:
        add(older, "run/a", "1")
        with worker.tailing(older, views, [SIZES], ME):
            wait_for(lambda: "is stopped" in caplog.text)
            add(older, "run/a", "2")
            wait_for(lambda: [beat for beat in views.beats() if not beat.error])
    assert caplog.text.count("a view is stopped: sizes@") == 1
    assert "watchkeeper ledger rebuild sizes" in caplog.text
