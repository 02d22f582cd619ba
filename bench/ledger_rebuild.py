"""The bench of the ledger: rebuilds of a whole ledger, each in a process of its own."""

import multiprocessing
import resource
import sys
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from multiprocessing.queues import Queue
from pathlib import Path

from bench.ledger_append import Found
from bench.ledger_postgres import size_of
from bench.ledger_read import Tally
from bench.ledger_world import CHECK, address, fill, opened_at, payload
from watchkeeper.adapters.store.postgres_address import parse_address
from watchkeeper.adapters.store.postgres_verify import verify_postgres
from watchkeeper.adapters.store.verify import verify_store
from watchkeeper.adapters.views_file import ViewsFile
from watchkeeper.projections.views.sizes import SIZES
from watchkeeper.services.ledger.partial_decode import NarrowReader
from watchkeeper.services.ledger.status_rows import rebuild_status
from watchkeeper.services.views.rebuild import rebuild

RUN_EVENTS = 1_000
"""Events of each run."""


def rebuilds(store: str, folder: Path, number: int) -> Found:
    """Fill a ledger of so many events, and rebuild what is made from it.

    Each way is measured on the wall clock, with the most memory that its process had; a server's
    own memory is not in it.
    """
    place = address(store, folder)
    filled = _Ledger(place, folder, number)
    seconds, peak = _apart(_fill, filled)
    found: Found = {f"filling a ledger with {number:,} events": _figures(number, seconds, peak)}
    for name, way in _WAYS.items():
        seconds, peak = _apart(way, filled)
        found[f"rebuild of {number:,} events, {name}"] = _figures(number, seconds, peak)
    on_server = store != "sqlite"
    size = size_of(place, place.partition("#")[2]) if on_server else Path(place).stat().st_size
    found["the ledger, with its indexes"] = {"megabytes": round(size / 1e6)}
    return found


@dataclass(frozen=True, slots=True)
class _Ledger:
    """What is filled and rebuilt: where it is, a folder for views, and how many events it has."""

    place: str
    folder: Path
    number: int

    def views(self, name: str) -> ViewsFile:
        return ViewsFile(self.folder / f"{name}.views")


def _figures(number: int, seconds: float, peak: float) -> dict[str, float]:
    return {
        "seconds": round(seconds, 1),
        "events_per_second": round(number / seconds),
        "memory_mb": round(peak),
    }


def _apart(way: Callable[[_Ledger], None], filled: _Ledger) -> tuple[float, float]:
    """Return the seconds that a way takes in a process of its own, and that one's memory in MB."""
    context = multiprocessing.get_context("spawn")
    queue: Queue[tuple[float, float]] = context.Queue()
    worker = context.Process(target=_timed, args=(way, filled, queue))
    worker.start()
    worker.join()
    if worker.exitcode:
        raise RuntimeError(f"{way.__name__} ended with {worker.exitcode}")
    return queue.get(timeout=10)


def _timed(
    way: Callable[[_Ledger], None], filled: _Ledger, queue: "Queue[tuple[float, float]]"
) -> None:
    start = time.perf_counter()
    way(filled)
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    # A long command should say that it lives.
    print(f"{way.__name__.strip('_')}: {seconds:,.1f} s, {peak:,.0f} MB", file=sys.stderr)
    queue.put((seconds, peak))


def _fill(filled: _Ledger) -> None:
    events = payload().events(RUN_EVENTS)
    with closing(opened_at(filled.place)) as store:
        for run in range(max(1, filled.number // RUN_EVENTS)):
            fill(store, f"run/r{run}", events[: min(RUN_EVENTS, filled.number)])


def _by_narrow(filled: _Ledger) -> None:
    tallies: dict[str, Tally] = {}
    with closing(opened_at(filled.place)) as store:
        for one in NarrowReader({CHECK: ("health", "metrics")}).all(store):
            tallies.setdefault(one.stream, Tally()).take(one.data.health, one.data.metrics)
    checks = sum(tally.checks for tally in tallies.values())
    assert 0 < checks <= filled.number, checks


def _sizes(filled: _Ledger) -> None:
    with closing(opened_at(filled.place)) as store, filled.views("sizes") as views:
        built = rebuild(store, views, SIZES)
        assert built.position == filled.number, built


def _status(filled: _Ledger) -> None:
    with closing(opened_at(filled.place)) as store:
        done = rebuild_status(store)
        assert done.runs == max(1, filled.number // RUN_EVENTS), done


def _verify(filled: _Ledger) -> None:
    on_server = filled.place.startswith("postgres")
    report = (
        verify_postgres(parse_address(filled.place))
        if on_server
        else verify_store(Path(filled.place))
    )
    assert not report.problems, report.problems
    assert report.events == filled.number, report


_WAYS: dict[str, Callable[[_Ledger], None]] = {
    "needed fields by the narrow reader": _by_narrow,
    "the view `sizes`, as `ledger rebuild sizes`": _sizes,
    "the rows of status by the full fold, as `ledger rebuild status`": _status,
    "every hash and the structure of the store, as `verify`": _verify,
}
