"""The contract of `EventStore.append_batch`: one transaction, and each append for itself."""

from collections.abc import Iterator

import pytest

from tests.stores import Place
from watchkeeper.ports.event_store import (
    Append,
    Appended,
    EventStore,
    KeyReused,
    StatusRow,
    VersionConflict,
    Write,
)


@pytest.fixture
def store(place: Place) -> Iterator[EventStore]:
    with place.open() as opened:
        yield opened


def write(stream: str, expected: int, *texts: bytes) -> Write:
    return Write(stream, expected, tuple(("run.noted.1", text) for text in texts))


def test_each_append_sees_what_those_before_it_stored(store: EventStore, place: Place) -> None:
    outcomes = store.append_batch(
        [
            Append([write("run/a", 0, b"1")]),
            Append([write("run/a", 1, b"2", b"3")]),
            Append([write("run/b", 0, b"4"), write("run/a", 3, b"5")]),
        ]
    )
    assert outcomes == [
        Appended({"run/a": (1, 1)}),
        Appended({"run/a": (2, 3)}),
        Appended({"run/b": (1, 1), "run/a": (4, 4)}),
    ]
    assert [event.state for event in store.read_all()] == [b"1", b"2", b"3", b"4", b"5"]
    assert store.newest() == 5
    store.close()
    assert place.verify().problems == ()


def test_one_conflict_fails_alone(store: EventStore, place: Place) -> None:
    late = Append(
        [write("run/b", 0, b"no"), write("run/a", 0, b"no")],
        key="k",
        status=[StatusRow("a", "run", '"no"')],
    )
    first, conflict, third = store.append_batch(
        [Append([write("run/a", 0, b"1")]), late, Append([write("run/b", 0, b"2")])]
    )
    assert (first, third) == (Appended({"run/a": (1, 1)}), Appended({"run/b": (1, 1)}))
    assert isinstance(conflict, VersionConflict)
    assert "run/a is at version 1, expected 0" in str(conflict)
    assert store.answer("k") is None
    assert store.status_rows() == []
    assert [event.state for event in store.read_all()] == [b"1", b"2"]
    store.close()
    assert place.verify().problems == ()


def test_a_key_that_comes_twice_in_one_batch_gets_the_first_answer(store: EventStore) -> None:
    outcomes = store.append_batch(
        [
            Append([write("run/a", 0, b"1")], key="k", digest=b"d"),
            Append([write("run/a", 0, b"1")], key="k", digest=b"d"),
            Append([write("run/a", 1, b"2")], key="k", digest=b"other"),
        ]
    )
    assert outcomes[:2] == [Appended({"run/a": (1, 1)}), Appended({"run/a": (1, 1)}, repeated=True)]
    assert isinstance(outcomes[2], KeyReused)
    assert store.newest() == 1


def test_a_key_whose_first_append_was_refused_stays_free(store: EventStore) -> None:
    refused, stored = store.append_batch(
        [Append([write("run/a", 7, b"1")], key="k"), Append([write("run/a", 0, b"1")], key="k")]
    )
    assert isinstance(refused, VersionConflict)
    assert stored == Appended({"run/a": (1, 1)})


def test_the_last_status_row_of_a_batch_stays(store: EventStore) -> None:
    store.append_batch(
        [
            Append([write("run/a", n, b"x")], status=[StatusRow("a", "run", str(n))])
            for n in range(3)
        ]
    )
    assert store.status_rows() == [StatusRow("a", "run", "2")]


def test_a_value_that_can_not_be_stored_takes_the_whole_batch_with_it(store: EventStore) -> None:
    with pytest.raises(UnicodeEncodeError):
        store.append_batch(
            [Append([write("run/a", 0, b"1")]), Append([write("run/\ud800", 0, b"2")])]
        )
    assert store.newest() == 0
    assert store.streams("") == []


def test_an_empty_batch_stores_nothing(store: EventStore) -> None:
    assert store.append_batch([]) == []
