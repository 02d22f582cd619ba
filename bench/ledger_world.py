"""What the bench of the ledger compares: one payload, our store, the bare driver, the library."""

import json
import os
import sqlite3
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

from eventsourcing.application import Application
from eventsourcing.domain import Aggregate, event
from eventsourcing.persistence import Recording, StoredEvent
from eventsourcing.postgres import PostgresApplicationRecorder
from eventsourcing.sqlite import SQLiteApplicationRecorder, SQLiteDatastore
from tests.domain.given import History
from tests.domain.samples import listing

from bench.ledger_postgres import RawPostgres, bare, library_environment, library_recorder
from watchkeeper.adapters.store.postgres import open_postgres
from watchkeeper.adapters.store.postgres_address import parse_address
from watchkeeper.adapters.store.sqlite import open_store
from watchkeeper.domain.run.envelope import encode
from watchkeeper.ports.event_store import EventStore, Write

LibraryRecorder = SQLiteApplicationRecorder | PostgresApplicationRecorder

CHECK = "run.check_recorded.1"
CADENCE = timedelta(seconds=120)
CHECKS = 150
"""Different checks that a bench makes its events from."""


@dataclass(frozen=True, slots=True)
class Payload:
    """What is appended and read.

    Attributes:
        before: Topic and bytes of what comes before a run's first check.
        checks: Bytes of checks of a run, one after another.
    """

    before: tuple[tuple[str, bytes], ...]
    checks: tuple[bytes, ...]

    def events(self, number: int) -> tuple[tuple[str, bytes], ...]:
        """Return a run's history of so many events."""
        checks = (self.checks[place % len(self.checks)] for place in range(number))
        return (*self.before, *((CHECK, state) for state in checks))[:number]

    @property
    def bytes_mean(self) -> float:
        """Mean size of a check's bytes."""
        return statistics.fmean(map(len, self.checks))


def payload() -> Payload:
    """Tell a run that is checked again and again."""
    history = History().launch(None)
    for number in range(1, CHECKS + 1):
        history.train(1000 * number, wait=CADENCE, found=listing(900, 1000))
    stored = [encode(one.envelope) for one in history.events]
    first = next(place for place, (topic, _) in enumerate(stored) if topic == CHECK)
    # What is validated once in between would be refused by a run that has it already.
    checks = tuple(state for topic, state in stored[first:] if topic == CHECK)
    return Payload(tuple(stored[:first]), checks)


def address(store: str, folder: Path) -> str:
    """Return where an empty ledger may be made.

    Args:
        store: `sqlite`, or the URL of a PostgreSQL database.
        folder: Where a file may lie.
    """
    if store == "sqlite":
        return str(folder / f"{uuid4().hex}.db")
    return f"{bare(store)}#bench_{uuid4().hex}"


def opened_at(place: str) -> EventStore:
    """Open the ledger at an address, made when there is none."""
    if not place.startswith("postgres"):
        return open_store(Path(place))
    return open_postgres(parse_address(place), create=True)


def opened(store: str, folder: Path) -> EventStore:
    """Open an empty ledger of ours; see `address`."""
    return opened_at(address(store, folder))


def fill(store: EventStore, stream: str, events: Sequence[tuple[str, bytes]]) -> None:
    """Append events to a stream, a thousand at a time."""
    version = store.head(stream)[0]
    for start in range(0, len(events), 1000):
        part = tuple(events[start : start + 1000])
        store.append([Write(stream, version + start, part)])


class Raw:
    """The bare driver: the same bytes in the same columns, as durable, and nothing else."""

    def __init__(self, folder: Path) -> None:
        """Create an empty file."""
        self.connection = sqlite3.connect(
            folder / f"{uuid4().hex}.db", isolation_level=None, check_same_thread=False
        )
        for statement in (
            "PRAGMA journal_mode = WAL",
            "PRAGMA synchronous = FULL",
            "CREATE TABLE events (id INTEGER PRIMARY KEY AUTOINCREMENT, stream INTEGER NOT NULL, "
            "version INTEGER NOT NULL, topic INTEGER NOT NULL, state BLOB NOT NULL, "
            "hash BLOB NOT NULL, UNIQUE (stream, version)) STRICT",
        ):
            self.connection.execute(statement)
        self.version = 0

    def append(self, states: Sequence[bytes]) -> None:
        """Append in one transaction."""
        rows = [(self.version + place, state) for place, state in enumerate(states, 1)]
        self.connection.execute("BEGIN IMMEDIATE")
        self.connection.executemany(
            "INSERT INTO events (stream, version, topic, state, hash) "
            "VALUES (1, ?, 1, ?, zeroblob(32))",
            rows,
        )
        self.connection.execute("COMMIT")
        self.version += len(states)

    def close(self) -> None:
        """Close its connection."""
        self.connection.close()


class Library:
    """Appends to a stream of its own by the library's own recorder, with its defaults."""

    def __init__(self, recorder: LibraryRecorder) -> None:
        """Begin a stream."""
        self.recorder = recorder
        self.run: UUID = uuid4()
        self.version = 0

    def append(self, states: Sequence[bytes]) -> None:
        """Append in one transaction."""
        self.recorder.insert_events(
            [
                StoredEvent(self.run, self.version + place, CHECK, state)
                for place, state in enumerate(states, 1)
            ]
        )
        self.version += len(states)


def raw_of(store: str, folder: Path) -> Raw | RawPostgres:
    """Return the bare driver on an empty table."""
    return Raw(folder) if store == "sqlite" else RawPostgres(store)


def library_of(store: str, folder: Path) -> LibraryRecorder:
    """Return the library's own recorder on empty tables."""
    if store != "sqlite":
        return library_recorder(store)
    recorder = SQLiteApplicationRecorder(SQLiteDatastore(str(folder / f"{uuid4().hex}.db")))
    recorder.create_table()
    return recorder


class CheckedRun(Aggregate):
    """A run in the library's default style."""

    @event("Started")
    def __init__(self) -> None:
        """Start."""
        self.checks = 0
        self.health = ""
        self.lowest = float("inf")

    @event("Checked")
    def record(self, health: str, metrics: dict[str, float], rest: dict[str, Any]) -> None:
        """Fold what the narrow fold needs; the rest is decoded all the same."""
        assert rest, "it was decoded"
        self.checks += 1
        self.health = health
        self.lowest = min(self.lowest, metrics["loss"])


class OneByOne(Application[UUID]):
    """An application that saves one aggregate at a time.

    The library's recorder on PostgreSQL takes minutes for 10,000 events of one save, and two
    seconds for twenty saves of 500.
    """

    def save(self, *objs: Any, **kwargs: Any) -> list[Recording[UUID]]:
        """Save them in order, and return what was recorded."""
        recorded: list[Recording[UUID]] = []
        for one in objs:
            recorded += super().save(one, **kwargs)
        return recorded


def library_application(store: str, folder: Path) -> Application[UUID]:
    """Return an application on the library's own recorder."""
    if store != "sqlite":
        return OneByOne(env=library_environment(store))
    environment = {
        "PERSISTENCE_MODULE": "eventsourcing.sqlite",
        "SQLITE_DBNAME": str(folder / f"{uuid4().hex}.db"),
    }
    return Application[UUID](env=environment)


def library_data(state: bytes) -> dict[str, Any]:
    """Return an event's content as arguments of `CheckedRun.record`."""
    document: dict[str, Any] = json.loads(state)
    data = document.pop("data")
    health, metrics = data.pop("health"), data.pop("metrics")
    return {"health": health, "metrics": metrics, "rest": {**document, **data}}


# --- Measuring ------------------------------------------------------------------------------------


def rate(act: Callable[[], object], seconds: float) -> float:
    """Return how often a second an act is done, on the wall clock."""
    count, start = 0, time.perf_counter()
    while (took := time.perf_counter() - start) < seconds:
        act()
        count += 1
    return count / took


def wall(act: Callable[[], object]) -> float:
    """Return the seconds on the wall clock that an act takes."""
    start = time.perf_counter()
    act()
    return time.perf_counter() - start


def cpu(act: Callable[[], object]) -> float:
    """Return the seconds of this process's CPU that an act takes."""
    start = time.process_time()
    act()
    return time.process_time() - start


def percentiles(seconds: Sequence[float]) -> dict[str, float]:
    """Return the middle and the 99th of a hundred, in milliseconds."""
    ordered = sorted(seconds)
    return {
        "p50_ms": round(ordered[len(ordered) // 2] * 1e3, 3),
        "p99_ms": round(ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))] * 1e3, 3),
    }


def compared(
    rounds: Sequence[Mapping[str, float]], name: str, base: str, *, inverse: bool = False
) -> dict[str, float]:
    """Return the median of paired ratios of one measure to another.

    Args:
        rounds: The measures of each repetition by name.
        name: The measure.
        base: What it is compared with, in the same repetition.
        inverse: The measures are times, so that less is better.
    """
    ratios = [(one[base] / one[name]) if inverse else (one[name] / one[base]) for one in rounds]
    return {
        "ratio": round(statistics.median(ratios), 2),
        "ratio_lowest": round(min(ratios), 2),
        "ratio_highest": round(max(ratios), 2),
        "value": round(statistics.median(one[name] for one in rounds), 6),
    }


def environment() -> dict[str, object]:
    """Return what the machine was like."""
    return {"cores": os.cpu_count(), "load": round(os.getloadavg()[0], 1)}
