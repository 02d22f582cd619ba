"""The bench of the ledger: rebuilds of a whole ledger, each in a process of its own."""

import multiprocessing
import resource
import sys
import time
from collections.abc import Callable
from multiprocessing.queues import Queue
from pathlib import Path

from bench.ledger_append import Found
from bench.ledger_read import Tally
from bench.ledger_world import CHECK, fill, payload
from watchkeeper.adapters.store.sqlite import open_store
from watchkeeper.adapters.store.verify import verify_store
from watchkeeper.adapters.views_file import ViewsFile
from watchkeeper.building import rebuild
from watchkeeper.narrow import NarrowReader
from watchkeeper.projections.sizes import SIZES
from watchkeeper.status_building import rebuild_status

RUN_EVENTS = 1_000
"""Events of each run."""

HOLDER = "bench"


def rebuilds(folder: Path, number: int) -> Found:
    """Fill a ledger of so many events on SQLite, and rebuild what is made from it.

    Each way is measured on the wall clock, with the most memory that its process had.
    """
    path = folder / "rebuilt.db"
    seconds, peak = _apart(_fill, path, number)
    found: Found = {f"filling a ledger with {number:,} events": _figures(number, seconds, peak)}
    for name, way in _WAYS.items():
        seconds, peak = _apart(way, path, number)
        found[f"rebuild of {number:,} events, {name}"] = _figures(number, seconds, peak)
    found["the file"] = {"megabytes": round(path.stat().st_size / 1e6)}
    return found


def _figures(number: int, seconds: float, peak: float) -> dict[str, float]:
    return {
        "seconds": round(seconds, 1),
        "events_per_second": round(number / seconds),
        "memory_mb": round(peak),
    }


def _apart(way: Callable[[Path, int], None], path: Path, number: int) -> tuple[float, float]:
    """Return the seconds that a way takes in a process of its own, and that one's memory in MB."""
    context = multiprocessing.get_context("spawn")
    queue: Queue[tuple[float, float]] = context.Queue()
    worker = context.Process(target=_timed, args=(way, path, number, queue))
    worker.start()
    worker.join()
    if worker.exitcode:
        raise RuntimeError(f"{way.__name__} ended with {worker.exitcode}")
    return queue.get(timeout=10)


def _timed(
    way: Callable[[Path, int], None],
    path: Path,
    number: int,
    queue: "Queue[tuple[float, float]]",
) -> None:
    start = time.perf_counter()
    way(path, number)
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    # A long command should say that it lives.
    print(f"{way.__name__.strip('_')}: {seconds:,.1f} s, {peak:,.0f} MB", file=sys.stderr)
    queue.put((seconds, peak))


def _fill(path: Path, number: int) -> None:
    events = payload().events(RUN_EVENTS)
    with open_store(path) as store:
        for run in range(max(1, number // RUN_EVENTS)):
            fill(store, f"run/r{run}", events[: min(RUN_EVENTS, number)])


def _by_narrow(path: Path, number: int) -> None:
    tallies: dict[str, Tally] = {}
    with open_store(path) as store:
        for one in NarrowReader({CHECK: ("health", "metrics")}).all(store):
            tallies.setdefault(one.stream, Tally()).take(one.data.health, one.data.metrics)
    checks = sum(tally.checks for tally in tallies.values())
    assert 0 < checks <= number, checks


def _sizes(path: Path, number: int) -> None:
    with open_store(path) as store, _views(path, "sizes") as views:
        built = rebuild(store, views, SIZES, HOLDER)
        assert built.position == number, built


def _status(path: Path, number: int) -> None:
    with open_store(path) as store, _views(path, "status") as views:
        done = rebuild_status(store, views, HOLDER)
        assert done.runs == max(1, number // RUN_EVENTS), done


def _verify(path: Path, number: int) -> None:
    report = verify_store(path)
    assert not report.problems, report.problems
    assert report.events == number, report


def _views(path: Path, name: str) -> ViewsFile:
    return ViewsFile(path.with_name(f"{name}.views"))


_WAYS: dict[str, Callable[[Path, int], None]] = {
    "needed fields by the narrow reader": _by_narrow,
    "the view `sizes`, as `ledger rebuild sizes`": _sizes,
    "the rows of status by the full fold, as `ledger rebuild status`": _status,
    "every hash and the structure of the file, as `verify`": _verify,
}
