"""The place in the ledger: every event once, in order, and a failure in the store's words."""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.stores import Place
from watchkeeper import clock
from watchkeeper.adapters.store.postgres_recorder import PostgresRecorder
from watchkeeper.adapters.store.recorder import SqliteRecorder
from watchkeeper.adapters.store.sqlite import open_store
from watchkeeper.ports.event_store import StoreFailure, Write
from watchkeeper.services.ledger.ledger_feed import PAGE, Tailer


@pytest.fixture
def path(place: Place) -> Place:
    """Where the ledger is: each test is made on a file and on a server."""
    return place


@pytest.fixture
def store(path: Place) -> Iterator[Any]:
    with path.open() as store:
        yield store


def tailer(store: Any, after: int = 0) -> Tailer:
    recorder = SqliteRecorder if store.kind == "sqlite" else PostgresRecorder
    return Tailer(recorder(store), store, after)


def add(store: Any, stream: str, number: int) -> None:
    expected = store.head(stream)[0]
    events = tuple(("t", f"{stream} {n}".encode()) for n in range(number))
    store.append([Write(stream, expected, events)])


def test_pages_move_over_all_events_in_order_and_then_only_over_new_ones(
    store: Any,
) -> None:
    add(store, "run/a", PAGE)
    add(store, "run/b", 3)
    place = tailer(store)
    pages = list(place.pages())
    assert [len(page) for page in pages] == [PAGE, 3]
    ids = [event.id for page in pages for event in page]
    assert ids == [event.position for event in store.read_all(limit=PAGE * 2)]
    assert place.position == ids[-1]
    assert list(place.pages()) == []
    add(store, "run/a", 1)
    [[event]] = place.pages()
    assert (event.originator_id, place.position) == ("run/a", event.id)


def test_a_page_that_is_not_full_is_the_last_and_nobody_asks_twice(
    store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(store, "run/a", PAGE + 3)
    recorder = (SqliteRecorder if store.kind == "sqlite" else PostgresRecorder)(store)
    whole, asked = recorder.select_notifications, list[int]()

    def counted(start: int, limit: int, **rest: Any) -> Any:
        asked.append(start)
        if len(asked) == 2:
            add(store, "run/late", 1)  # What comes while the last page is read ...
        return whole(start, limit, **rest)

    monkeypatch.setattr(recorder, "select_notifications", counted)
    place = Tailer(recorder, store)
    assert [len(page) for page in place.pages()] == [PAGE, 4]
    assert asked == [0, PAGE]
    add(store, "run/later", 1)
    assert place.wait(timedelta(seconds=20))  # ... or after it is found by the next wait.
    assert [len(page) for page in place.pages()] == [1]


def test_it_begins_behind_the_position_it_is_given(store: Any) -> None:
    add(store, "run/a", 5)
    second = store.read_all()[1].position
    [page] = tailer(store, second).pages()
    assert [event.originator_version for event in page] == [3, 4, 5]


def test_a_wait_ends_when_another_store_object_appends(store: Any, path: Place) -> None:
    add(store, "run/a", 1)
    place = tailer(store)
    list(place.pages())
    assert not place.wait(timedelta(milliseconds=10))
    with path.open() as other:
        timer = clock.Timer()
        appending = threading.Timer(0.2, add, args=(other, "run/a", 1))
        appending.start()
        assert place.wait(timedelta(seconds=20))
        assert timer.elapsed() < timedelta(seconds=10)
        appending.join()


def test_a_corrupted_store_is_a_failure_of_the_store(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    with open_store(path) as store:
        add(store, "run/a", PAGE)
    with open_store(path) as store:
        # Below the open store: opening would find it, too, and say so in its own way.
        content = path.read_bytes()
        size = int.from_bytes(content[16:18], "big")
        page = content.index(b"run/a 250") // size
        path.write_bytes(content[: page * size] + b"\xff" * size + content[(page + 1) * size :])
        with pytest.raises(StoreFailure, match=path.name):
            list(tailer(store).pages())


def damage_events(path: Path) -> None:
    """Overwrite the first page of the events, so that SQLite finds no tree in it."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        [size] = connection.execute("PRAGMA page_size").fetchone()
        [root] = connection.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = 'events'"
        ).fetchone()
    with path.open("r+b") as file:
        file.seek((root - 1) * size)
        file.write(b"\xff" * size)
