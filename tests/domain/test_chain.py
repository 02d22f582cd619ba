"""The chain of a stream, as stored events are taken in by it."""

import hashlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.every_row import every_row
from watchkeeper.domain.run.chain import GENESIS, Head, chain_hash, follow

Made = tuple[str, str, int, str, bytes, bytes]


def plainly(previous: bytes, stream: str, version: int, topic: str, state: bytes) -> bytes:
    """The specification, read literally: one input, put together piece by piece."""
    text = b"watchkeeper/event/v1\n" + previous
    for part in (stream.encode(), str(version).encode("ascii"), topic.encode(), state):
        text += len(part).to_bytes(8, "big") + part
    return hashlib.sha256(text).digest()


@given(
    st.binary(min_size=32, max_size=32),
    st.text(max_size=80),
    st.integers(0, 2**63 - 1),
    st.text(max_size=80),
    st.binary(max_size=5000),
)
def test_a_hash_is_that_of_the_specification(
    previous: bytes, stream: str, version: int, topic: str, state: bytes
) -> None:
    found = chain_hash(previous, stream, version, topic, state)
    assert found == plainly(previous, stream, version, topic, state)


def made(*streams: str) -> list[Made]:
    """Return one event after another of these streams."""
    heads: dict[str, Head] = {}
    found: list[Made] = []
    for stream in streams:
        version, previous = heads.get(stream, (0, GENESIS))
        digest = chain_hash(previous, stream, version + 1, "t.1", b"{}")
        heads[stream] = version + 1, digest
        found.append((stream, stream, version + 1, "t.1", b"{}", digest))
    return found


def test_streams_are_followed_beside_each_other_page_by_page() -> None:
    events = made("run/a", "run/b", "run/a", "run/c", "run/b", "run/a")
    heads: dict[str, Head] = {}
    assert [follow(heads, events[:2]), follow(heads, events[2:]), follow(heads, ())] == [2, 4, 0]
    assert {stream: version for stream, (version, _) in heads.items()} == {
        "run/a": 3,
        "run/b": 2,
        "run/c": 1,
    }


@every_row("place", range(4))
@every_row(
    ("column", "other"),
    [(1, "run/x"), (2, 7), (3, "t.2"), (4, b"{ }"), (5, bytes(32))],
    ids=["stream", "version", "topic", "state", "hash"],
)
def test_nothing_is_taken_from_the_first_wrong_event_on(
    place: int, column: int, other: object
) -> None:
    events = made("run/a", "run/b", "run/a", "run/b")
    wrong: list[Any] = list(events[place])
    wrong[column] = other
    changed: list[Any] = [*events[:place], (*wrong,), *events[place + 1 :]]
    heads, before = dict[str, Head](), dict[str, Head]()
    assert follow(heads, changed) == place
    follow(before, events[:place])
    assert heads == before


@pytest.mark.parametrize("gone", range(3))
def test_a_missing_event_and_a_swapped_pair_are_not_followed(gone: int) -> None:
    events = made("run/a", "run/a", "run/a", "run/a")
    assert follow({}, [*events[:gone], *events[gone + 1 :]]) == gone
    swapped = [*events[:gone], events[gone + 1], events[gone], *events[gone + 2 :]]
    assert follow({}, swapped) == gone
