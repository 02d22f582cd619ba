"""Keeping other writers out, all keys at once, and rows that are removed: on both stores."""

import threading

import pytest

from tests.stores import Place
from watchkeeper.ports.event_store import KeyRow, StatusRow, VersionConflict, Write

NOTE = ("run.noted.1", b'{"data":{}}')


def note(stream: str, expected: int) -> list[Write]:
    return [Write(stream, expected, (NOTE,))]


def test_who_keeps_the_others_out_loses_to_nobody(place: Place) -> None:
    with place.open() as one, place.open() as two:
        one.append(note("run/a", 0))
        tried = threading.Event()
        said: list[object] = []

        def rival() -> None:
            tried.set()
            try:
                said.append(two.append(note("run/a", 1)))
            except VersionConflict as error:
                said.append(error)

        with one.exclusive():
            thread = threading.Thread(target=rival)
            thread.start()
            assert tried.wait(60)
            thread.join(0.3)
            assert thread.is_alive(), "the rival waits"
            version, _ = one.head("run/a")
            one.append(note("run/a", version))
        thread.join(60)
        assert [type(answer) for answer in said] == [VersionConflict]
        assert one.head("run/a")[0] == 2


def test_a_block_without_an_append_lets_the_others_in_again(place: Place) -> None:
    with place.open() as one, place.open() as two:
        with one.exclusive():
            pass
        two.append(note("run/a", 0))
        with pytest.raises(RuntimeError, match="left"), one.exclusive():
            raise RuntimeError("left")
        two.append(note("run/a", 1))


def test_all_keys_are_told_by_position_and_then_by_name(place: Place) -> None:
    with place.open() as store:
        for number, key in enumerate(("b", "a", "ä")):
            store.append(note("run/a", number), key=key, digest=b"1")
        store.append([], key="nothing")
        told = list(store.key_rows())
    assert told == [
        KeyRow("nothing", b"", {}, 0),
        KeyRow("b", b"1", {"run/a": (1, 1)}, 1),
        KeyRow("a", b"1", {"run/a": (2, 2)}, 2),
        KeyRow("ä", b"1", {"run/a": (3, 3)}, 3),
    ]


def test_an_empty_row_removes_the_row(place: Place) -> None:
    with place.open() as store:
        rows = [StatusRow("a", "run", "{}"), StatusRow("b", "run", "{}")]
        store.append(note("run/a", 0), status=rows)
        store.append(note("run/a", 1), status=[StatusRow("a", "run", "")])
        assert store.status_rows() == [StatusRow("b", "run", "{}")]
