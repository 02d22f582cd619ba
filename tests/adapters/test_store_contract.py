"""The contract of `EventStore` on each store: versions, keys, threads and processes."""

import hashlib
import struct
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import timedelta
from time import CLOCK_MONOTONIC, clock_gettime, monotonic

import pytest
from freezegun import freeze_time

from tests.adapters.store_processes import line_of, tell, worker
from tests.stores import Place
from watchkeeper.domain.run.chain import GENESIS
from watchkeeper.ports.event_store import (
    READ_PAGE,
    Appended,
    EventHeader,
    EventStore,
    KeyReused,
    StatusRow,
    StoreFailure,
    VersionConflict,
    Write,
)

NOTED = ("run.noted.1", b'{"text":"all well"}')


@pytest.fixture
def store(place: Place) -> Iterator[EventStore]:
    with place.open() as opened:
        yield opened


def write(stream: str, expected: int, number: int = 1) -> Write:
    return Write(stream, expected, (NOTED,) * number)


def test_the_store_is_an_event_store(store: EventStore) -> None:
    port: EventStore = store
    assert port.streams("") == []


def test_an_event_reads_back_as_the_bytes_that_were_appended(store: EventStore) -> None:
    state = bytes(range(256))
    store.append([Write("run/a", 0, (("run.noted.1", state), ("run.noted.2", b"")))])
    first, second = store.read("run/a")
    assert (first.stream, first.version, first.topic, first.state) == (
        "run/a", 1, "run.noted.1", state,
    )  # fmt: skip
    assert (second.version, second.topic, second.state) == (2, "run.noted.2", b"")
    assert store.head("run/a") == (2, second.hash)


def test_the_stored_hash_is_the_chain_that_the_specification_says(store: EventStore) -> None:
    store.append([Write("run/ü", 0, (("a.1", b"one"), ("b.1", b"two")))])
    previous = bytes(32)
    for event in store.read("run/ü"):
        hashed = b"watchkeeper/event/v1\n" + previous
        for part in (b"run/\xc3\xbc", str(event.version).encode(), event.topic.encode()):
            hashed += struct.pack(">Q", len(part)) + part
        hashed += struct.pack(">Q", len(event.state)) + event.state
        previous = hashlib.sha256(hashed).digest()
        assert event.hash == previous


def test_an_empty_stream_has_version_0_and_the_genesis_hash(store: EventStore) -> None:
    assert store.head("run/none") == (0, GENESIS)
    assert store.read("run/none") == []


def test_reads_page_by_version_and_by_position(store: EventStore) -> None:
    store.append([write("run/a", 0, 3)])
    store.append([write("run/b", 0, 2)])
    assert [event.version for event in store.read("run/a", after=1)] == [2, 3]
    assert [event.version for event in store.read("run/a", after=1, limit=1)] == [2]
    assert [event.position for event in store.read_all(after=2, limit=2)] == [3, 4]
    assert [event.stream for event in store.read_all(after=2, limit=2)] == ["run/a", "run/b"]
    assert store.newest() == 5


@pytest.mark.parametrize("asked", [(), ("b.1",), ("a.1", "b.1"), ("none.1", "b.1"), ("a'1",)])
def test_events_are_skimmed_with_the_bytes_of_the_topics_that_are_asked_for(
    store: EventStore, asked: tuple[str, ...]
) -> None:
    states = (b"", b"x", "ü".encode(), bytes(3_000), b"x" * 5_000)
    for number, state in enumerate(states):
        topic = "ab"[number % 2] + ".1"
        store.append([Write("run/ü", number, ((topic, state),))])
    for after, limit in ((0, 500), (0, 2), (3, 500), (5, 500)):
        assert store.skim(asked, after=after, limit=limit) == [
            EventHeader(
                one.position,
                one.stream,
                one.version,
                one.topic,
                len(one.state),
                one.hash,
                one.state if one.topic in asked else None,
            )
            for one in store.read_all(after=after, limit=limit)
        ]


@pytest.mark.parametrize("number", [0, 1, READ_PAGE, READ_PAGE + 1, 2 * READ_PAGE])
def test_all_is_read_by_pages(store: EventStore, number: int) -> None:
    store.append([write("run/b", 0, 2)])
    if number:
        store.append([write("run/a", 0, number)])
    whole = store.read_all(limit=number + 2)
    assert len(whole) == number + 2
    for after in (0, 1, READ_PAGE):
        pages, all_pages = list(store.pages("run/a", after=after)), list(store.pages(after=after))
        assert [one for page in pages for one in page] == store.read("run/a", after=after)
        assert [one for page in all_pages for one in page] == whole[after:]
        assert all(0 < len(page) <= READ_PAGE for page in pages + all_pages)


@pytest.mark.parametrize("stream", ["run/a", None])
def test_what_is_appended_while_pages_are_read_leaves_no_gap(
    store: EventStore, stream: str | None
) -> None:
    store.append([write("run/a", 0, READ_PAGE + 1)])
    found = [0]
    for page in store.pages(stream):
        found += [one.version for one in page]
        if len(found) < 3 * READ_PAGE:
            store.append([write("run/a", store.head("run/a")[0], READ_PAGE)])
    assert found == [*range(len(found))]
    assert len(found) > READ_PAGE + 1


def test_many_may_read_pages_and_stop_in_their_midst(store: EventStore) -> None:
    """Each may have asked for its next page already."""
    store.append([write("run/a", 0, 2 * READ_PAGE)])
    left = [store.pages() for _ in range(20)]
    begun = [store.pages("run/a") for _ in range(20)]
    [number] = {len(next(pages)) for pages in left + begun}
    del left
    assert store.head("run/a")[0] == 2 * READ_PAGE
    for pages in begun:
        rest = [one.version for page in pages for one in page]
        assert rest == [*range(number + 1, 2 * READ_PAGE + 1)]
    store.append([write("run/a", 2 * READ_PAGE)])
    assert len(store.read("run/a")) == 2 * READ_PAGE + 1


def test_streams_are_listed_by_prefix_and_sorted(store: EventStore) -> None:
    for stream in ("run/b", "run/a", "roots", "rum", "run0"):
        store.append([write(stream, 0)])
    assert store.streams("run/") == ["run/a", "run/b"]
    assert store.streams("") == ["roots", "rum", "run/a", "run/b", "run0"]


@pytest.mark.parametrize("expected", [0, 1, 3])
def test_an_append_on_another_version_is_a_conflict(store: EventStore, expected: int) -> None:
    store.append([write("run/a", 0, 2)])
    with pytest.raises(VersionConflict, match=f"run/a is at version 2, expected {expected}"):
        store.append([write("run/a", expected)])
    assert store.head("run/a")[0] == 2


def test_a_conflict_on_one_stream_stores_nothing_on_any(place: Place, store: EventStore) -> None:
    store.append([write("roots", 0)])
    status = [StatusRow("a", "run", "{}")]
    with pytest.raises(VersionConflict):
        store.append([write("run/a", 0), write("roots", 0)], key="k", status=status)
    assert store.streams("") == ["roots"]
    assert store.status_rows() == []
    assert store.answer("k") is None
    store.append([write("run/a", 0), write("roots", 1)], key="k", status=status)
    assert store.answer("k") == Appended({"run/a": (1, 1), "roots": (2, 2)}, repeated=True)
    store.close()
    place.assert_intact(events=3)


def test_a_write_without_events_only_checks_the_version(store: EventStore) -> None:
    with pytest.raises(VersionConflict):
        store.append([write("run/a", 0), Write("roots", 1, ())])
    assert store.append([write("run/a", 0), Write("roots", 0, ())]).versions == {"run/a": (1, 1)}
    assert store.streams("") == ["run/a"]


def test_the_same_key_gets_the_first_answer_on_whatever_version(store: EventStore) -> None:
    first = store.append([write("run/a", 0, 2)], key="check 7", digest=b"same")
    again = store.append(
        [Write("run/a", 0, (("run.noted.1", b"other id"),))],
        key="check 7",
        digest=b"same",
        status=[StatusRow("a", "run", "{}")],
    )
    assert first == Appended({"run/a": (1, 2)})
    assert again == Appended({"run/a": (1, 2)}, repeated=True)
    assert store.answer("check 7", digest=b"same") == again
    assert (store.head("run/a")[0], store.status_rows()) == (2, [])


def test_the_same_key_with_another_digest_is_refused(store: EventStore) -> None:
    store.append([write("run/a", 0)], key="check 7", digest=b"one")
    with pytest.raises(KeyReused, match="'check 7' was used before for another request"):
        store.append([write("run/a", 1)], key="check 7", digest=b"two")
    with pytest.raises(KeyReused):
        store.answer("check 7", digest=b"two")
    assert store.head("run/a")[0] == 1


@pytest.mark.parametrize(("first", "second"), [(b"", b"two"), (b"one", b""), (b"", b"")])
def test_an_empty_digest_is_not_compared(store: EventStore, first: bytes, second: bytes) -> None:
    store.append([write("run/a", 0)], key="k", digest=first)
    assert store.append([write("run/a", 0)], key="k", digest=second).repeated


def test_a_key_can_be_recorded_without_events(place: Place, store: EventStore) -> None:
    assert store.append([], key="signal 1").versions == {}
    assert store.append([write("run/a", 0)], key="signal 1") == Appended({}, repeated=True)
    store.close()
    place.assert_intact(events=0)


def test_a_status_row_replaces_the_one_of_its_run_and_part(store: EventStore) -> None:
    store.append([write("run/b", 0)], status=[StatusRow("b", "run", "1")])
    store.append([write("run/a", 0)], status=[StatusRow("a", "run", "2")])
    store.append(
        [write("run/b", 1)], status=[StatusRow("b", "run", "3"), StatusRow("b", "effects", "4")]
    )
    assert store.status_rows() == [
        StatusRow("a", "run", "2"),
        StatusRow("b", "effects", "4"),
        StatusRow("b", "run", "3"),
    ]


def test_threads_lose_nothing_and_double_nothing(place: Place, store: EventStore) -> None:
    def contend(name: int) -> None:
        for index in range(25):
            key = f"{name} {index}"
            while True:
                try:
                    store.append([write("run/a", store.head("run/a")[0])], key=key)
                except VersionConflict:
                    continue
                break

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(contend, range(8)))
    assert [event.version for event in store.read("run/a")] == list(range(1, 201))
    store.close()
    place.assert_intact(events=200)


def test_threads_with_one_key_store_it_once(store: EventStore) -> None:
    def act(_: int) -> Appended:
        while True:
            try:
                return store.append([write("run/a", store.head("run/a")[0])], key="once")
            except VersionConflict:
                continue

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(act, range(8)))
    assert {tuple(answer.versions.items()) for answer in answers} == {(("run/a", (1, 1)),)}
    assert sorted(answer.repeated for answer in answers) == [False] + [True] * 7


def test_four_processes_lose_nothing_and_double_nothing(place: Place) -> None:
    # They also create the store at the same moment.
    with ExitStack() as stack:
        processes = [stack.enter_context(worker("contend", place.text, n, 50)) for n in range(4)]
        said = [process.communicate(timeout=120)[0].split() for process in processes]
        assert [process.returncode for process in processes] == [0, 0, 0, 0]
    assert sorted(int(version) for own in said for version in own) == list(range(1, 201))
    with place.open() as store:
        events = store.read("run/shared")
    states = [event.state.decode() for event in events]
    assert sorted(states) == sorted(f"{name} {index}" for name in range(4) for index in range(50))
    for name in range(4):
        own = [state for state in states if state.startswith(f"{name} ")]
        assert own == [f"{name} {index}" for index in range(50)]
    report = place.verify()
    assert (report.problems, report.events, report.whole_file) == ((), 200, not place.is_postgres)


def test_two_opened_in_one_process_exclude_each_other_like_two_processes(place: Place) -> None:
    with place.open() as first, place.open() as second:
        first.append([write("run/a", 0)])
        with pytest.raises(VersionConflict):
            second.append([write("run/a", 0)])
        assert second.wait(after=0, limit=timedelta(0))


def test_wait_returns_at_once_when_the_event_is_there(store: EventStore) -> None:
    store.append([write("run/a", 0)])
    assert store.wait(after=0, limit=timedelta(0))
    assert not store.wait(after=1, limit=timedelta(0))


def test_wait_gives_up_at_its_limit(store: EventStore) -> None:
    started = monotonic()
    assert not store.wait(after=0, limit=timedelta(milliseconds=200))
    assert 0.2 <= monotonic() - started < 20


# An append may wait for the disk; who is not woken waits for the limit.
def test_wait_wakes_soon_after_an_append_by_another_thread(store: EventStore) -> None:
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(store.wait, after=0, limit=timedelta(seconds=30))
        store.append([write("run/a", 0)])
        assert waiting.result(timeout=60)


def test_wait_wakes_soon_after_an_append_by_another_process(
    place: Place, store: EventStore
) -> None:
    with worker("append_on_request", place.text, "run/a") as process, ThreadPoolExecutor(1) as pool:
        assert line_of(process) == "open"
        for after in range(3):
            waiting = pool.submit(store.wait, after=after, limit=timedelta(seconds=30))
            tell(process)
            assert waiting.result(timeout=60)


def test_a_subscription_gets_events_of_this_and_of_other_processes(
    place: Place, store: EventStore
) -> None:
    store.append([write("run/old", 0)])
    with (
        worker("append_on_request", place.text, "run/theirs") as process,
        place.recorder(store).subscribe(gt=1) as subscription,
    ):
        assert line_of(process) == "open"
        for index in range(3):
            store.append([write("run/ours", index)])
            assert next(subscription).originator_id == "run/ours"
            tell(process)
            assert next(subscription).originator_id == "run/theirs"


def test_closing_the_store_ends_a_subscription_with_an_error(place: Place) -> None:
    store = place.open()
    subscription = place.recorder(store).subscribe()
    with subscription, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(next, subscription)
        store.close()
        assert "closed" in str(waiting.exception(timeout=60))


def test_a_process_can_end_with_everything_left_open(place: Place) -> None:
    with worker("leave_open", place.text) as process:
        said, _ = process.communicate(timeout=60)
        assert (said.strip(), process.returncode) == ("ending", 0)


def test_close_is_safe_to_call_twice_and_ends_all_use(place: Place) -> None:
    store: EventStore = place.open()
    store.close()
    store.close()
    for act in (lambda: store.append([write("run/a", 0)]), lambda: store.read("run/a")):
        with pytest.raises(StoreFailure, match="it is closed"):
            act()


def test_a_clock_that_steps_backwards_changes_neither_order_nor_limits(place: Place) -> None:
    with freeze_time("2026-11-21 12:00:00") as frozen, place.open() as store:
        store.append([write("run/a", 0)], key="first")
        frozen.move_to("2026-11-21 09:00:00")
        store.append([write("run/b", 0)])
        store.append([write("run/a", 1)])
        assert [event.stream for event in store.read_all()] == ["run/a", "run/b", "run/a"]
        assert store.append([write("run/a", 0)], key="first").repeated
        started = monotonic_s()
        assert not store.wait(after=3, limit=timedelta(milliseconds=200))
        assert 0.2 <= monotonic_s() - started < 5
    place.assert_intact(events=3)


def monotonic_s() -> float:
    """Not `time.monotonic`, which freezes along with the wall clock."""
    return clock_gettime(CLOCK_MONOTONIC)


def test_two_processes_that_fire_one_check_store_it_once(place: Place) -> None:
    with ExitStack() as stack:
        schedulers = [stack.enter_context(worker("act_once", place.text, 20)) for _ in range(2)]
        said = [process.communicate(timeout=120)[0].split() for process in schedulers]
    for first, second in zip(*said, strict=True):
        # One of them stored it; the other got that answer.
        assert sorted([first.partition(":")[0], second.partition(":")[0]]) == ["repeated", "stored"]
        assert first.partition(":")[2] == second.partition(":")[2]
    place.assert_intact(events=20)
