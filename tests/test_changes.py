"""Which runs a watch looks at: all of them, whoever needs it first, and whatever grew."""

import json
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.stores import Place, place_of_run
from watchkeeper.ports.event_store import StatusRow, Write
from watchkeeper.services.ledger import run_feed
from watchkeeper.services.ledger.run_feed import Changes, in_order


@pytest.fixture
def where(tmp_path: Path) -> Place:
    return place_of_run(tmp_path)


@pytest.fixture
def store(where: Place) -> Iterator[Any]:
    """A ledger where this run keeps them."""
    with where.open() as store:
        yield store


def add(store: Any, stream: str, number: int = 1) -> None:
    expected = store.head(stream)[0]
    store.append([Write(stream, expected, (("t", b"{}"),) * number)])


def row(slug: str, *, due: str | None = None, stopping: bool = False) -> StatusRow:
    return StatusRow(slug, "run", json.dumps({"due": due, "stopping": stopping, "version": 1}))


def test_at_the_start_every_run_is_named_once(where: Place, store: Any) -> None:
    for stream in ("run/a", "run/b", "effects/a", "effects/c", "roots", "signals", "people"):
        add(store, stream, 600)
    some = Changes(where.recorder(store), store)
    before = some.whole
    assert sorted(some.turn()) == ["a", "b", "c"]
    assert (before, some.whole) == (False, True)
    assert list(some.turn()) == []


def test_no_event_is_read_to_start(where: Place, store: Any) -> None:
    add(store, "run/a", 600)
    recorder = where.recorder(store)
    with mock.patch.object(recorder, "select_notifications", return_value=[]) as read:
        assert list(Changes(recorder, store).turn()) == ["a"]
    assert [call.kwargs["start"] for call in read.call_args_list] == [600]


def test_whoever_needs_the_watch_comes_first() -> None:
    rows = [
        row("sealed"),
        row("late", due="2026-11-01T00:00:00+00:00"),
        row("later", due="2026-11-02T00:00:00+00:00"),
        row("stopped", due=None, stopping=True),
        StatusRow("torn", "run", "{"),
        StatusRow("other", "run", '["of another shape"]'),
    ]
    slugs = ["sealed", "later", "none", "late", "torn", "other", "stopped"]
    order = in_order(slugs, rows)
    assert order == ["stopped", "late", "later", "none", "torn", "other", "sealed"]


def test_a_turn_ends_before_all_are_read_and_the_next_goes_on(
    where: Place, store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_feed, "AT_ONCE", timedelta(0))
    for slug in ("a", "b", "c", "d"):
        add(store, f"run/{slug}")
    some = Changes(where.recorder(store), store)
    assert (list(some.turn()), some.whole) == (["a"], False)
    add(store, "effects/c")
    # What grew is named in any case, and not once more for the start.
    assert (list(some.turn()), some.whole) == (["c", "b"], False)
    assert (list(some.turn()), some.whole) == (["d"], True)


@settings(max_examples=20, deadline=None)
@given(
    st.lists(st.sampled_from(("run/a", "run/b", "effects/b", "run/c", "roots")), max_size=12),
    st.data(),
)
def test_whatever_is_appended_while_it_starts_is_named_after_it(
    tmp_path_factory: pytest.TempPathFactory, streams: list[str], data: st.DataObject
) -> None:
    """Between its place, the names and the rows: what a watch that began at 0 would name, too."""
    cuts = sorted(data.draw(st.tuples(*[st.integers(0, len(streams))] * 3)))
    where = place_of_run(tmp_path_factory.mktemp("changes"))
    with where.open() as store:
        left = iter(streams)
        done = 0

        def until(cut: int) -> None:
            nonlocal done
            while done < cut:
                add(store, next(left))
                done += 1

        until(cuts[0])
        some = Changes(where.recorder(store), store)
        names, rows = store.streams, store.status_rows

        def streams_then(prefix: str) -> Any:
            until(cuts[1])
            return names(prefix)

        def rows_then() -> Any:
            until(cuts[2])
            return rows()

        with (
            mock.patch.object(store, "streams", streams_then),
            mock.patch.object(store, "status_rows", rows_then),
        ):
            turn = some.turn()
            first = list(turn)
        seen = {slug: _heads(store, slug) for slug in first}
        until(len(streams))
        second = set(some.turn())
        every = {slug for slug in map(run_feed.run_of, streams) if slug}
        assert {*first, *second} == every
        assert {slug for slug in every if _heads(store, slug) != seen.get(slug)} <= second


def _heads(store: Any, slug: str) -> tuple[int, int]:
    return store.head(f"run/{slug}")[0], store.head(f"effects/{slug}")[0]


def test_waiting_ends_with_an_append_and_is_none_while_runs_are_left(
    where: Place, store: Any
) -> None:
    add(store, "run/a")
    some = Changes(where.recorder(store), store)
    some.wait(timedelta(minutes=5))
    assert list(some.turn()) == ["a"]
    threading.Timer(0.1, add, (store, "run/a")).start()
    some.wait(timedelta(seconds=30))
    assert list(some.turn()) == ["a"]
