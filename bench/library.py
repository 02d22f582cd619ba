"""Readers on the `eventsourcing` library, against the store's own calls.

    uv run python -m bench.library [--json] [--quick] [--store postgresql]

Both parts of a pair do the same work, one right after the other; what they read by is all that
differs. The view `weeks` and `ledger export` are at most a tenth slower. The others are shown. On
SQLite the CPU is measured, on a server the wall clock.
"""

import argparse
import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from uuid import uuid4

from bench.ledger_postgres import server_of_ours
from bench.ledger_world import address, compared, cpu, environment, payload, wall
from watchkeeper.adapters.home import create_home, keep_store
from watchkeeper.adapters.store.choosing import open_ledger
from watchkeeper.adapters.views_file import ViewsFile
from watchkeeper.domain.run.chain import Head, follow
from watchkeeper.eventsourcing import Runs
from watchkeeper.ports.event_store import EventStore, Recorded, Write
from watchkeeper.projections.views.weeks import WEEKS
from watchkeeper.services.ledger.export import FORMAT, export_lines
from watchkeeper.services.ledger.ledger import Ledger
from watchkeeper.services.views.rebuild import rebuild

LEAST = 0.9
"""What each of the product's own readers reaches of the store's own calls."""

Act = Callable[[], object]

RUNS = 10
FINDING = "run.finding_opened.1"
EVERY = 20
"""One event in so many is one that the view `weeks` counts."""

WEEKS_BUILT = "rebuild of the view `weeks`, of the store's own read"
EXPORTED = "`ledger export`, of the store's own read"
PROMISED = (WEEKS_BUILT, EXPORTED)
EVENTS = "`app.events.get` of a run, of `Ledger.history`"
FOLDED = "`app.repository.get` of a run, of `Ledger.run`"


def home_of(folder: Path, store: str, number: int) -> Path:
    """Make a home with so many events of runs that are checked again and again."""
    made = create_home(folder / "home")
    if store != "sqlite":
        made = keep_store(made, address(store, folder))
    told = payload()
    around = json.loads(told.checks[0])
    data: dict[str, object] = {
        "kind": "stalled",
        "rule": "H3",
        "severity": "alert",
        "summary": "-",
        "evidence": [],
    }
    finding = (FINDING, json.dumps(around | {"data": data}).encode())
    with open_ledger(made.store, made.ledger, create=True) as opened:
        for run in range(RUNS):
            events = [*told.events(number // RUNS)]
            events[len(told.before) + EVERY :: EVERY] = [finding] * len(
                events[len(told.before) + EVERY :: EVERY]
            )
            opened.store.append([Write(f"run/r{run}", 0, tuple(events))])
    return made.path


def ways(
    app: Runs, folder: Path
) -> Mapping[str, tuple[Callable[[], object], Callable[[], object]]]:
    """Return by name what is done by the library, and the same by the store's own calls."""
    store, recorder = app.factory.opened.store, app.recorder

    def fresh() -> Ledger:
        return Ledger(store, app.factory.scrubber)

    def weeks(*, by_library: bool) -> None:
        with ViewsFile(folder / f"{uuid4().hex}.views") as views:
            rebuild(store, views, WEEKS, recorder=recorder if by_library else None)

    return {
        WEEKS_BUILT: (lambda: weeks(by_library=True), lambda: weeks(by_library=False)),
        EXPORTED: (
            lambda: sum(map(len, export_lines(store, recorder))),
            lambda: sum(map(len, export_by_store(store))),
        ),
        EVENTS: (lambda: list(app.events.get("run/r0")), lambda: fresh().history("r0")),
        FOLDED: (lambda: app.repository.get("run/r0"), lambda: fresh().run("r0")),
    }


def export_by_store(store: EventStore) -> Iterator[bytes]:
    """Yield the lines of an export of a ledger without keys, as they were made before."""
    newest, digest, heads = store.newest(), hashlib.sha256(), dict[str, Head]()
    counted, broken, keys = {"events": 0, "keys": 0}, list[str](), store.key_rows()
    waiting = next(keys, None)
    first = _line({"format": FORMAT})
    digest.update(first)
    yield first
    for one in chain.from_iterable(store.pages()):
        if one.position > newest or (waiting is not None and waiting.position <= one.position):
            break
        counted["events"] += 1
        if not broken:
            broken += _breaks(heads, one)
        line = _line(_event_line(one))
        digest.update(line)
        yield line
    yield _line({**counted, "sha256": digest.hexdigest()})


def _breaks(heads: dict[str, Head], one: Recorded) -> list[str]:
    if follow(heads, [(one.stream, one.stream, one.version, one.topic, one.state, one.hash)]):
        return []
    return [one.stream]


def _event_line(one: Recorded) -> dict[str, object]:
    line: dict[str, object] = {
        "stream": one.stream,
        "version": one.version,
        "topic": one.topic,
        "hash": one.hash.hex(),
    }
    line["state"] = one.state.decode()
    return line


def _line(value: Mapping[str, object]) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def measure(
    store: str, folder: Path, *, quick: bool, events: int | None = None
) -> dict[str, dict[str, float]]:
    """Return the ratios by name; `events` is how many the home has."""
    os.environ.pop("WATCHKEEPER_STORE", None)
    # A server works in another process.
    taken = cpu if store == "sqlite" else wall
    home = home_of(folder, store, events or (2_000 if quick else 20_000))
    found: dict[str, dict[str, float]] = {}
    with Runs(env={"WATCHKEEPER_HOME": str(home)}) as app:
        for name, (by_library, by_store) in ways(app, folder).items():
            by_library()
            by_store()
            rounds: list[dict[str, float]] = []
            for number in range(6 if quick else 16):
                pair = [("library", by_library), ("store", by_store)]
                # In turns, so that what else runs here slows down neither more often.
                pair = pair if number % 2 else pair[::-1]
                rounds.append({way: taken(act) for way, act in pair})
            found[name] = compared(rounds, "library", "store", inverse=True)
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; 1 where a promise does not hold."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--store", default="sqlite", help="sqlite, or postgresql for a server")
    parser.add_argument("--quick", action="store_true", help="a tenth of it")
    parser.add_argument("--json", action="store_true", help="print JSON for programs")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="wk-bench-") as folder:
        if options.store == "sqlite":
            found = measure("sqlite", Path(folder), quick=options.quick)
        else:
            with server_of_ours(fsync=True) as url:
                found = measure(url, Path(folder), quick=options.quick)
    document = {"bench": "library", "store": options.store, **environment(), "figures": found}
    lines = [
        f"{one['ratio']:>6} x  {name}  ({one['ratio_lowest']} to {one['ratio_highest']})"
        for name, one in found.items()
    ]
    print(json.dumps(document) if options.json else "\n".join(lines))
    return 0 if all(found[name]["ratio"] >= LEAST for name in PROMISED) else 1


if __name__ == "__main__":
    sys.exit(main())
