"""The bench of the ledger: reading histories, and what an event takes."""

import time
from collections.abc import Callable, Mapping
from itertools import chain
from pathlib import Path

from eventsourcing.postgres import PostgresApplicationRecorder
from pydantic import BaseModel

from bench.ledger_append import Found
from bench.ledger_postgres import size_of
from bench.ledger_world import (
    CHECK,
    CheckedRun,
    Library,
    Payload,
    address,
    compared,
    cpu,
    fill,
    library_application,
    library_data,
    library_of,
    opened,
    opened_at,
    wall,
)
from watchkeeper.domain.run.envelope import decode
from watchkeeper.domain.run.registry import type_of
from watchkeeper.domain.run.run import Run
from watchkeeper.domain.run.watch import CheckRecorded
from watchkeeper.domain.values.check import Health
from watchkeeper.domain.values.secrets.scrubbing import Scrubber
from watchkeeper.ports.event_store import EventStore
from watchkeeper.services.ledger.fast_fold import fold_history
from watchkeeper.services.ledger.ledger import Ledger
from watchkeeper.services.ledger.ledger_reader import run_stream
from watchkeeper.services.ledger.partial_decode import NarrowReader

SLUG = "bench"
STREAM = run_stream(SLUG)
REBUILT = 5_000_000
"""Events of the rebuild that is extrapolated to, unless it is measured."""

REPLAYS = {
    "events": "replay, whole events by pydantic",
    "some": "replay, needed fields by pydantic-core",
    "narrow": "replay, needed fields by the narrow reader",
    "domain": "replay, the full fold of the domain",
    "bytes": "replay, bytes only",
}
"""What each way to read a history is called in the report."""


class Tally:
    """What a narrow fold finds."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.checks, self.health, self.lowest = 0, "", float("inf")

    def take(self, health: str, metrics: dict[str, float]) -> None:
        """Take in one check."""
        self.checks += 1
        self.health = health
        self.lowest = min(self.lowest, metrics["loss"])


def replay(store: str, folder: Path, payload: Payload, repetitions: int, number: int) -> Found:
    """Compare folds of one run's history with the library's default style, in CPU time."""
    ours = opened(store, folder)
    fill(ours, STREAM, payload.events(number))
    application = library_application(store, folder)
    run = CheckedRun()
    for place in range(number - 1):
        run.record(**library_data(payload.checks[place % len(payload.checks)]))
    application.save(run)
    narrow = NarrowReader({CHECK: ("health", "metrics")})
    ways: dict[str, Callable[[], object]] = {
        "default": lambda: application.repository.get(run.id),
        "events": lambda: _by_events(ours),
        "some": lambda: _by_model(ours),
        "narrow": lambda: _by_narrow(ours, narrow),
        "domain": lambda: _by_domain(ours),
        "bytes": lambda: sum(1 for _ in chain.from_iterable(ours.pages(STREAM))),
    }
    found = replayed(ways, store, repetitions, number)
    ours.close()
    application.close()
    return found


def replayed(
    ways: Mapping[str, Callable[[], object]],
    store: str,
    repetitions: int,
    number: int,
    said: Mapping[str, str] = REPLAYS,
) -> Found:
    """Compare ways to read one history with the way `default`; `said` names them."""
    # A server's work is none of this process's.
    took = cpu if store == "sqlite" else wall
    rounds = [{name: took(way) for name, way in ways.items()} for _ in range(repetitions)]
    found = {
        f"{what}, of the default style": compared(rounds, way, "default", inverse=True)
        for way, what in said.items()
    }
    for one in found.values():
        one["us_per_event"] = round(one.pop("value") / number * 1e6, 2)
    return found


class NeededData(BaseModel):
    """The needed fields of a check, as pydantic reads them."""

    health: Health
    metrics: dict[str, float]


class Needed(BaseModel):
    """What stands around them."""

    data: NeededData


def _by_events(store: EventStore) -> Tally:
    tally = Tally()
    for stored in chain.from_iterable(store.pages(STREAM)):
        data = decode(stored.stream, stored.version, stored.topic, stored.state).data
        if isinstance(data, CheckRecorded):
            tally.take(data.health, data.metrics)
    return tally


def _by_model(store: EventStore) -> Tally:
    tally = Tally()
    # What `model_validate_json` calls, without the look-ups around it.
    validate = Needed.__pydantic_validator__.validate_json
    for stored in chain.from_iterable(store.pages(STREAM)):
        if stored.topic == CHECK:
            data = validate(stored.state).data
            tally.take(data.health, data.metrics)
    return tally


def _by_narrow(store: EventStore, reader: NarrowReader) -> Tally:
    tally = Tally()
    for one in reader.stream(store, STREAM):
        tally.take(one.data.health, one.data.metrics)
    return tally


def _by_domain(store: EventStore) -> Run:
    run = fold_history(store, Run(SLUG)).run
    assert isinstance(run, Run), run
    return run


def loads(store: str, folder: Path, payload: Payload, numbers: tuple[int, ...]) -> Found:
    """Return how long it takes to load a run that is not in memory."""
    found: Found = {}
    for number in numbers:
        ours = opened(store, folder)
        fill(ours, STREAM, payload.events(number))
        start = time.perf_counter()
        run = Ledger(ours, Scrubber(b"k" * 16)).run(SLUG)
        took = time.perf_counter() - start
        assert run.version == number, run
        found[f"load of a run with {number:,} events"] = {"seconds": round(took, 3)}
        ours.close()
    return found


def rebuild(store: str, folder: Path, payload: Payload, number: int) -> Found:
    """Return how long rebuilds of a whole ledger take."""
    ours = opened(store, folder)
    runs = max(1, number // 1000)
    for run in range(runs):
        fill(ours, f"run/{run}", payload.events(number // runs))
    newest = ours.newest()
    tallies: dict[str, Tally] = {}
    start = time.perf_counter()
    for one in NarrowReader({CHECK: ("health", "metrics")}).all(ours):
        tallies.setdefault(one.stream, Tally()).take(one.data.health, one.data.metrics)
    by_narrow = time.perf_counter() - start
    start = time.perf_counter()
    for name in ours.streams("run/"):
        fold_history(ours, Run(name.removeprefix("run/")))
    by_domain = time.perf_counter() - start
    ours.close()
    return {
        f"rebuild of {newest:,} events, {way}": {
            "seconds": round(took, 2),
            "events_per_second": round(newest / took),
            f"minutes_for_{REBUILT // 10**6}_million": round(REBUILT / newest * took / 60, 1),
        }
        for way, took in (("narrow", by_narrow), ("full domain fold", by_domain))
    }


def sizes(store: str, folder: Path, payload: Payload, number: int) -> Found:
    """Return the bytes that an event takes, here and in the library's schema."""
    place = address(store, folder)
    ours = opened_at(place)
    for run in range(10):
        fill(ours, f"run/{run}", payload.events(number // 10))
    ours.close()
    recorder = library_of(store, folder)
    library = Library(recorder)
    for _ in range(number // 100):
        library.append([payload.checks[n % len(payload.checks)] for n in range(100)])
    if isinstance(recorder, PostgresApplicationRecorder):
        here = size_of(place, place.partition("#")[2])
        there = size_of(place, recorder.datastore.schema)
    else:
        here = Path(place).stat().st_size
        with recorder.datastore.transaction(commit=False) as cursor:
            cursor.execute("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size")
            there = int(cursor.fetchone()[0])
    recorder.datastore.close()
    return {
        "bytes": {
            "of_a_check": round(payload.bytes_mean),
            "in_the_file": round(here / number),
            "in_the_file_of_the_library": round(there / number),
            "topics": len(type_of),
        }
    }
