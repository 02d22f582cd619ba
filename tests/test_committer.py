"""Group commit over both real stores: nothing lost, mixed up or kept waiting for ever."""

import os
import signal
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest

from tests.adapters.store_processes import line_of, worker
from tests.stores import Place
from watchkeeper import clock
from watchkeeper.ports.event_store import (
    Append,
    Appended,
    EventStore,
    KeyReused,
    StatusRow,
    StoreFailure,
    VersionConflict,
    Write,
)
from watchkeeper.services.ledger.group_commit import BATCH_MAX, Committer

LIMIT = timedelta(seconds=60)
WRITERS = 8


class Gate:
    """Stands before a real store, whose transactions begin when a test lets them: a slow disk."""

    def __init__(self, store: Any) -> None:
        self.store = store
        self.open = threading.Event()
        self.open.set()
        self.sizes: list[int] = []
        self.fails_with: BaseException | None = None
        self._append_batch = store.append_batch
        store.append_batch = self.append_batch

    def append_batch(
        self, appends: Sequence[Append]
    ) -> list[Appended | VersionConflict | KeyReused]:
        self.sizes.append(len(appends))
        assert self.open.wait(LIMIT.total_seconds())
        if self.fails_with is not None:
            raise self.fails_with
        outcomes: list[Appended | VersionConflict | KeyReused] = self._append_batch(appends)
        return outcomes


@pytest.fixture
def gate(place: Place) -> Iterator[Gate]:
    with place.open() as store:
        found = Gate(store)
        yield found
        found.open.set()


def write(stream: str, expected: int, text: bytes = b"{}") -> Write:
    return Write(stream, expected, (("run.noted.1", text),))


def eventually(condition: Any) -> None:
    deadline = clock.Deadline.after(LIMIT)
    while not condition():
        deadline.raise_if_expired("the condition")
        clock.sleep(timedelta(milliseconds=1))


def test_a_committer_is_an_event_store(gate: Gate, place: Place) -> None:
    port: EventStore = Committer(gate.store)
    row = StatusRow("a", "run", "1")
    assert port.append([write("run/a", 0)], key="k", digest=b"d", status=[row]) == Appended(
        {"run/a": (1, 1)}
    )
    assert port.append_batch([Append([write("run/a", 1)])]) == [Appended({"run/a": (2, 2)})]
    [first, second] = port.read("run/a")
    assert port.read_all() == [first, second]
    assert port.head("run/a") == (2, second.hash)
    assert port.answer("k", digest=b"d") == Appended({"run/a": (1, 1)}, repeated=True)
    assert (port.streams(""), port.status_rows(), port.newest()) == (["run/a"], [row], 2)
    assert port.wait(after=1, limit=timedelta(0))
    assert port.kind == ("postgresql" if place.is_postgres else "sqlite")


def test_many_writers_lose_nothing_and_keep_the_order_of_each_stream(
    gate: Gate, place: Place
) -> None:
    committer = Committer(gate.store)

    def append_all(number: int) -> None:
        for version in range(50):
            committer.append([write(f"run/{number}", version, str(version).encode())])

    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(append_all, range(WRITERS)))
    for number in range(WRITERS):
        states = [event.state for event in committer.read(f"run/{number}")]
        assert states == [str(version).encode() for version in range(50)]
    committer.close()
    report = place.verify()
    assert (report.problems, report.events) == ((), WRITERS * 50)


def held_up(gate: Gate, committer: Committer, pool: ThreadPoolExecutor) -> None:
    """Let one append lead and stand at the gate."""
    gate.open.clear()
    pool.submit(committer.append, [write("run/first", 0)])
    eventually(lambda: gate.sizes == [1])


def test_appends_that_wait_share_one_transaction_and_a_conflict_fails_alone(gate: Gate) -> None:
    committer = Committer(gate.store)
    with ThreadPoolExecutor(5) as pool:
        held_up(gate, committer, pool)
        good = [pool.submit(committer.append, [write(f"run/{n}", 0)]) for n in range(3)]
        bad = pool.submit(committer.append, [write("run/bad", 7)], key="k")
        eventually(lambda: committer.waiting == 4)
        gate.open.set()
        assert [one.result() for one in good] == [Appended({f"run/{n}": (1, 1)}) for n in range(3)]
        assert isinstance(bad.exception(), VersionConflict)
    assert gate.sizes == [1, 4]
    assert committer.answer("k") is None


def test_a_transaction_holds_no_more_than_its_most(gate: Gate) -> None:
    committer = Committer(gate.store)
    with ThreadPoolExecutor(BATCH_MAX + 4) as pool:
        held_up(gate, committer, pool)
        for n in range(BATCH_MAX + 3):
            pool.submit(committer.append, [write(f"run/{n}", 0)])
        eventually(lambda: committer.waiting == BATCH_MAX + 3)
        gate.open.set()
    assert gate.sizes == [1, BATCH_MAX, 3]


def test_a_full_queue_makes_wait_and_then_says_so(gate: Gate) -> None:
    committer = Committer(gate.store, queue_max=2, queue_limit=timedelta(milliseconds=50))
    with ThreadPoolExecutor(4) as pool:
        held_up(gate, committer, pool)
        inside = [pool.submit(committer.append, [write(f"run/{n}", 0)]) for n in range(2)]
        eventually(lambda: committer.waiting == 2)
        with pytest.raises(StoreFailure, match=r"2 appends wait .* Nothing of this one was stored"):
            committer.append([write("run/late", 0)])
        gate.open.set()
        assert all(one.result() for one in inside)
    assert committer.streams("run/late") == []


def test_a_place_in_the_queue_is_taken_as_soon_as_there_is_one(gate: Gate) -> None:
    committer = Committer(gate.store, queue_max=1, queue_limit=LIMIT)
    with ThreadPoolExecutor(4) as pool:
        held_up(gate, committer, pool)
        rest = [pool.submit(committer.append, [write(f"run/{n}", 0)]) for n in range(3)]
        eventually(lambda: committer.waiting == 3)
        timer = clock.Timer()
        gate.open.set()
        assert all(one.result() for one in rest)
        assert timer.elapsed() < LIMIT / 2


def test_a_failure_of_the_store_reaches_everybody_who_waits(gate: Gate) -> None:
    committer = Committer(gate.store)
    with ThreadPoolExecutor(4) as pool:
        held_up(gate, committer, pool)
        others = [pool.submit(committer.append, [write(f"run/{n}", 0)]) for n in range(3)]
        eventually(lambda: committer.waiting == 3)
        gate.fails_with = StoreFailure("the disk is full. Nothing was stored.")
        gate.open.set()
        for other in others:
            assert "the disk is full" in str(other.exception())
    gate.fails_with = None
    assert committer.append([write("run/after", 0)])


def test_what_can_not_be_stored_harms_only_whoever_brought_it(gate: Gate) -> None:
    committer = Committer(gate.store)
    with ThreadPoolExecutor(4) as pool:
        held_up(gate, committer, pool)
        good = [pool.submit(committer.append, [write(f"run/{n}", 0)]) for n in range(2)]
        eventually(lambda: committer.waiting == 2)
        bad = pool.submit(committer.append, [write("run/\ud800", 0)])
        eventually(lambda: committer.waiting == 3)
        gate.open.set()
        assert all(one.result() for one in good)
        assert isinstance(bad.exception(), UnicodeEncodeError)
    assert committer.newest() == 3


def test_when_the_leader_is_interrupted_the_others_hear_that_it_is_unknown(gate: Gate) -> None:
    committer = Committer(gate.store)
    with ThreadPoolExecutor(3) as pool:
        held_up(gate, committer, pool)
        others = [pool.submit(committer.append, [write(f"run/{n}", 0)]) for n in range(2)]
        eventually(lambda: committer.waiting == 2)
        gate.fails_with = KeyboardInterrupt()
        gate.open.set()
        found = sorted((str(type(one.exception())), str(one.exception())) for one in others)
    assert "KeyboardInterrupt" in found[0][0]
    assert "it is unknown whether this one was stored" in found[1][1]
    gate.fails_with = None
    assert committer.append([write("run/after", 0)])


def test_whoever_is_interrupted_while_waiting_leaves_the_queue(gate: Gate) -> None:
    committer = Committer(gate.store)
    with ThreadPoolExecutor(2) as pool:
        held_up(gate, committer, pool)

        def interrupt() -> None:
            eventually(lambda: committer.waiting == 1)
            os.kill(os.getpid(), signal.SIGINT)

        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            pool.submit(interrupt)
            with pytest.raises(KeyboardInterrupt):
                committer.append([write("run/gone", 0)])
        finally:
            signal.signal(signal.SIGINT, before)
        assert committer.waiting == 0
        gate.open.set()
    assert committer.append([write("run/after", 0)])
    assert committer.streams("run/") == ["run/after", "run/first"]


def test_closing_finishes_what_waits_and_takes_no_more(gate: Gate, place: Place) -> None:
    committer = Committer(gate.store)
    with ThreadPoolExecutor(5) as pool:
        held_up(gate, committer, pool)
        others = [pool.submit(committer.append, [write(f"run/{n}", 0)]) for n in range(3)]
        eventually(lambda: committer.waiting == 3)
        closing = pool.submit(committer.close)
        eventually(lambda: vars(committer)["_closed"])
        assert not closing.done()
        with pytest.raises(StoreFailure, match="closed"):
            committer.append([write("run/late", 0)])
        gate.open.set()
        assert all(one.result() for one in others)
        closing.result()
    committer.close()
    assert place.verify().events == 4


def test_several_processes_of_several_threads_share_one_store(place: Place) -> None:
    with (
        worker("write_grouped", place.text, 4) as one,
        worker("write_grouped", place.text, 4) as other,
    ):
        said = [line_of(process) for _ in range(60) for process in (one, other)]
    assert said_is_stored(place, said)


@pytest.mark.parametrize("round_", range(3))
def test_after_a_kill_each_append_is_there_whole_or_not_at_all(place: Place, round_: int) -> None:
    with worker("write_grouped", place.text, WRITERS) as process:
        said = [line_of(process) for _ in range(40 + 7 * round_)]
        os.kill(process.pid, signal.SIGKILL)
        assert process.stdout is not None
        said += [line.strip() for line in process.stdout if line.endswith("\n")]
    assert said_is_stored(place, said)


def said_is_stored(place: Place, said: Sequence[str]) -> bool:
    assert place.verify().problems == ()
    with place.open() as store:
        for line in said:
            stream, version = line.split(" ")
            last = int(version)
            assert store.head(stream)[0] >= last
            assert store.answer(line) == Appended({stream: (last - 1, last)}, repeated=True)
        # Two events in each append.
        assert all(store.head(stream)[0] % 2 == 0 for stream in store.streams("run/"))
    return True
