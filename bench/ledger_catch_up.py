"""The bench of the ledger: how views catch up with it, as the tailer of a watch moves them."""

import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from uuid import uuid4

from bench.ledger_append import Found
from bench.ledger_world import CHECK, Payload, compared, opened
from watchkeeper.adapters.views_file import ViewsFile
from watchkeeper.ports.event_store import EventStore, Write
from watchkeeper.projections.views.catalogue import PROJECTIONS
from watchkeeper.projections.views.sizes import SIZES
from watchkeeper.projections.views.view import Projection
from watchkeeper.services.ledger.ledger_feed import PAGE
from watchkeeper.services.views.catch_up import Pages, move_over, step

RUNS = 10
AT_ONCE = 100

CATCH_UPS: dict[str, Sequence[Projection]] = {
    "catch-up of the view `sizes` by pages, of one transaction for each event": (SIZES,),
    "catch-up of all views by pages, of one transaction for each event": PROJECTIONS,
}
"""What is caught up with, by the name in the report."""


def catch_up(store: str, folder: Path, payload: Payload, repetitions: int, number: int) -> Found:
    """Compare views that are moved on page by page with the same moved on event by event.

    Both read the ledger by pages, fold by the same code and write the same file; only the
    transactions are different.

    Args:
        store: Which.
        folder: For the files.
        payload: What the ledger holds.
        repetitions: How often both are measured.
        number: Events to catch up with, a multiple of `RUNS * AT_ONCE`.
    """
    assert number % (RUNS * AT_ONCE) == 0, number
    ours = opened(store, folder)
    for begin in range(0, number // RUNS, AT_ONCE):
        for run in range(RUNS):
            states = (
                payload.checks[n % len(payload.checks)] for n in range(begin, begin + AT_ONCE)
            )
            ours.append([Write(f"run/{run}", begin, tuple((CHECK, state) for state in states))])
    found: Found = {}
    for name, projections in CATCH_UPS.items():
        rounds = [
            {
                "pages": _by_pages(ours, folder, projections) / number,
                "events": _by_events(ours, folder, projections) / min(number, PAGE),
            }
            for _ in range(repetitions)
        ]
        found[name] = compared(rounds, "pages", "events", inverse=True)
        del found[name]["value"]
        found[name]["us_per_event"] = round(median(one["pages"] for one in rounds) * 1e6, 1)
    ours.close()
    return found


def _by_pages(store: EventStore, folder: Path, projections: Sequence[Projection]) -> float:
    """Return how long a turn after another of the tailer takes, to the end of the ledger."""
    with ViewsFile(folder / f"{uuid4().hex}.views") as views:
        builds = {one.name: views.begin(one.name, one.version) for one in projections}
        start, level = time.perf_counter(), False
        while not level:
            pages, level = Pages(store, projections), True
            for one in projections:
                stepped = step(pages, views, builds[one.name], one)
                assert stepped.build is not None, "nobody else moves it"
                builds[one.name] = stepped.build
                level = level and stepped.level
        return time.perf_counter() - start


def _by_events(store: EventStore, folder: Path, projections: Sequence[Projection]) -> float:
    """Return how long the first events of the ledger take, with a transaction for each."""
    with ViewsFile(folder / f"{uuid4().hex}.views") as views:
        start = time.perf_counter()
        pages = Pages(store, projections)
        page = pages.after(0)
        for one in projections:
            build = views.begin(one.name, one.version)
            for seen in page:
                moved = move_over(views, build, one, (seen,), pages.seen)
                assert moved is not None, "nobody else moves it"
                build = moved
        return time.perf_counter() - start
