"""The bench of the ledger: appending, alone, together, and until it is delivered."""

import multiprocessing
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from functools import partial
from itertools import count, islice
from multiprocessing.queues import Queue
from pathlib import Path
from uuid import uuid4

from tests.domain.given import History
from tests.domain.samples import SLUG, listing

from bench.ledger_world import (
    CADENCE,
    CHECK,
    CHECKS,
    CheckedRun,
    Library,
    Payload,
    address,
    compared,
    fill,
    library_application,
    library_data,
    library_of,
    opened,
    opened_at,
    percentiles,
    rate,
    raw_of,
)
from watchkeeper import clock
from watchkeeper.domain.rules.watch.commands import RecordCheck
from watchkeeper.domain.run.run import Run
from watchkeeper.domain.values.secrets.scrubbing import Scrubber
from watchkeeper.ports.event_store import EventStore, Write
from watchkeeper.services.ledger.group_commit import Committer
from watchkeeper.services.ledger.ledger import Handled, Ledger
from watchkeeper.services.ledger.ledger_reader import run_stream

WRITERS = 8
SIZES = (1, 10, 100)

Found = dict[str, dict[str, float]]


class Writer:
    """Appends to a stream of its own."""

    def __init__(self, store: EventStore, size: int, payload: Payload) -> None:
        """Begin a stream."""
        self.store = store
        self.stream = f"run/{uuid4().hex}"
        self.events = tuple((CHECK, payload.checks[n % 100]) for n in range(size))
        self.version = 0

    def __call__(self) -> None:
        """Append once."""
        self.store.append([Write(self.stream, self.version, self.events)])
        self.version += len(self.events)


def appends(store: str, folder: Path, payload: Payload, repetitions: int, seconds: float) -> Found:
    """Compare appends of 1, 10 and 100 events, and of eight writers at once."""
    raw, recorder = raw_of(store, folder), library_of(store, folder)
    library = Library(recorder)
    committer = Committer(opened(store, folder))
    rounds: list[dict[str, float]] = []
    latencies: list[float] = []
    for _ in range(repetitions):
        one: dict[str, float] = {}
        for size in SIZES:
            states = list(payload.checks[:size])
            one[f"raw {size}"] = rate(partial(raw.append, states), seconds)
            one[f"append {size}"] = rate(Writer(committer, size, payload), seconds)
            one[f"library {size}"] = rate(partial(library.append, states), seconds)
        writers = [Writer(committer, 1, payload) for _ in range(WRITERS)]
        one["8 writers"], found = _together(writers, seconds)
        latencies += found
        others = [Library(recorder) for _ in range(WRITERS)]
        first = list(payload.checks[:1])
        one["library 8 writers"], _ = _together(
            [partial(other.append, first) for other in others], seconds
        )
        rounds.append(one)
    committer.close()
    raw.close()
    recorder.datastore.close()
    result: Found = {}
    for size in SIZES:
        result[f"append, {size} a save, of the bare driver"] = compared(
            rounds, f"append {size}", f"raw {size}"
        )
        result[f"append, {size} a save, of the library"] = compared(
            rounds, f"append {size}", f"library {size}"
        )
        result[f"the bare driver, {size} a save, of the library"] = compared(
            rounds, f"raw {size}", f"library {size}"
        )
    result["append, 8 threads, of the bare driver's one"] = {
        **compared(rounds, "8 writers", "raw 1"),
        **percentiles(latencies),
    }
    result["append, 8 threads, of the library's 8"] = compared(
        rounds, "8 writers", "library 8 writers"
    )
    return result


def _together(writers: Sequence[Callable[[], object]], seconds: float) -> tuple[float, list[float]]:
    """Return the appends a second of several threads, and how long each took."""
    latencies: list[float] = []
    begin = threading.Barrier(len(writers) + 1)

    def append_all(writer: Callable[[], object]) -> None:
        mine: list[float] = []
        begin.wait()
        end = time.perf_counter() + seconds
        while (start := time.perf_counter()) < end:
            writer()
            mine.append(time.perf_counter() - start)
        latencies.extend(mine)

    threads = [threading.Thread(target=append_all, args=(writer,)) for writer in writers]
    for thread in threads:
        thread.start()
    begin.wait()
    start = time.perf_counter()
    for thread in threads:
        thread.join()
    return len(latencies) / (time.perf_counter() - start), latencies


def processes(
    store: str, folder: Path, payload: Payload, repetitions: int, seconds: float
) -> Found:
    """Compare eight processes with one append each at a time with the bare driver's one."""
    raw = raw_of(store, folder)
    state = payload.checks[0]
    rounds: list[dict[str, float]] = []
    latencies: list[float] = []
    context = multiprocessing.get_context("spawn")
    for _ in range(repetitions):
        place = address(store, folder)
        opened_at(place).close()
        begin, queue = context.Barrier(WRITERS), context.Queue()
        workers = [
            context.Process(target=_append_in_process, args=(place, state, seconds, begin, queue))
            for _ in range(WRITERS)
        ]
        for worker in workers:
            worker.start()
        found = [queue.get(timeout=120) for _ in workers]
        for worker in workers:
            worker.join(timeout=60)
        latencies += [one for mine in found for one in mine]
        rounds.append(
            {
                "8 processes": sum(map(len, found)) / seconds,
                "raw 1": rate(lambda: raw.append([state]), seconds),
            }
        )
    raw.close()
    one = compared(rounds, "8 processes", "raw 1")
    return {"append, 8 processes, of the bare driver's one": {**one, **percentiles(latencies)}}


def _append_in_process(
    place: str,
    state: bytes,
    seconds: float,
    begin: threading.Barrier,
    queue: "Queue[list[float]]",
) -> None:
    with Committer(opened_at(place)) as store:
        stream, took = f"run/{uuid4().hex}", list[float]()
        begin.wait(timeout=60)
        end = time.perf_counter() + seconds
        while (start := time.perf_counter()) < end:
            store.append([Write(stream, len(took), ((CHECK, state),))])
            took.append(time.perf_counter() - start)
        queue.put(took)


def decisions(store: str, folder: Path, payload: Payload, repetitions: int, long: int) -> Found:
    """Compare load, decide and append on a run with a long history: kept state, and library.

    Both hold the same checks, and each time another check of as many bytes is decided and appended.
    """
    ours = Ledger(Committer(opened(store, folder)), Scrubber(b"k" * 16))
    fill(ours.store, run_stream(SLUG), payload.events(long))
    run = ours.run(SLUG)
    assert isinstance(run, Run), run
    checks = _checks(run)
    application = library_application(store, folder)
    stored = CheckedRun()
    for number in range(long):
        stored.record(**library_data(payload.checks[number % len(payload.checks)]))
    application.save(stored)
    rounds: list[dict[str, float]] = []

    def by_library() -> None:
        loaded: CheckedRun = application.repository.get(stored.id)
        loaded.record(**library_data(payload.checks[0]))
        application.save(loaded)

    for _ in range(repetitions):
        some = list(islice(checks, 10))
        start = time.perf_counter()
        handled = [ours.handle(SLUG, one) for one in some]
        took = (time.perf_counter() - start) / len(some)
        assert all(isinstance(one, Handled) and one.events for one in handled), handled
        rounds.append({"ours": took, "library": _mean(by_library, 2)})
    [newest] = ours.store.read(run_stream(SLUG), after=ours.store.head(run_stream(SLUG))[0] - 1)
    assert newest.topic == CHECK, newest.topic
    ours.store.close()
    application.close()
    name = f"load, decide, append on {long:,} events, of the library"
    return {name: {**compared(rounds, "ours", "library", inverse=True), "bytes": len(newest.state)}}


def _checks(run: Run) -> Iterator[RecordCheck]:
    """Yield one check after another of a run that goes on training."""
    assert run.watch.last_check is not None
    history = History(run=run, now=run.watch.last_check.at)
    for number in count(CHECKS + 1):
        history.later(CADENCE)
        yield history.check_command(step=1000 * number, found=listing(900, 1000))


def _mean(act: Callable[[], object], times: int) -> float:
    start = time.perf_counter()
    for _ in range(times):
        act()
    return (time.perf_counter() - start) / times


def latency(store: str, folder: Path, payload: Payload, number: int) -> Found:
    """Return the time from a commit to its delivery to a thread of the same process."""
    committer = Committer(opened(store, folder))
    sent: dict[int, float] = {}
    took: list[float] = []
    done = threading.Event()

    def deliver() -> None:
        position = 0
        while position < number:
            if not committer.wait(after=position, limit=timedelta(seconds=10)):
                return
            page = committer.read_all(after=position)
            now = time.perf_counter()
            for recorded in page:
                # The writer may be delivered before it has noted when its commit returned.
                took.append(max(0.0, now - sent.get(recorded.position, now)))
            position = page[-1].position
        done.set()

    reader = threading.Thread(target=deliver)
    reader.start()
    writer = Writer(committer, 1, payload)
    for position in range(1, number + 1):
        writer()
        sent[position] = time.perf_counter()
        clock.sleep(timedelta(milliseconds=3))
    done.wait(20)
    reader.join()
    committer.close()
    return {"commit to delivery, in one process": percentiles(took)}
