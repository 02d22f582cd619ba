"""The bench of the ledger: how long after its start a watch looks at the first run that is due."""

import logging
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

from tests.domain.given import History
from tests.domain.samples import DRI, SLUG, killed
from tests.plain_signals import parse_plain

from bench.ledger_append import Found
from bench.ledger_world import address, payload
from watchkeeper.adapters.store.choosing import OpenLedger, open_ledger
from watchkeeper.adapters.store.recorder import recorder_of
from watchkeeper.adapters.views_file import ViewsFile
from watchkeeper.domain.rules.operator.commands import Abandon
from watchkeeper.domain.run.envelope import decode, encode
from watchkeeper.domain.run.evolve.evolve import evolve
from watchkeeper.domain.run.run import Run, Unreadable
from watchkeeper.domain.run.watch import Holder
from watchkeeper.domain.values.contract.contract import Contract
from watchkeeper.domain.values.secrets.scrubbing import Scrubber
from watchkeeper.ports.event_store import StatusRow, Write
from watchkeeper.ports.sources import Unavailable
from watchkeeper.projections.views.bindings import BINDINGS
from watchkeeper.services.ledger.ledger import Ledger
from watchkeeper.services.ledger.ledger_feed import Tailer
from watchkeeper.services.ledger.status_rows import rows_of_run
from watchkeeper.services.services import Services
from watchkeeper.services.signals.binding_snapshot import load_bindings
from watchkeeper.services.signals.inbound import Inbox
from watchkeeper.services.views.rebuild import rebuild
from watchkeeper.services.watch.loop import Watcher

RUN_EVENTS = 500
LIVE_EACH = 20
"""Of so many runs one still runs; the others are over."""

LIMIT_S = 600
REPETITIONS = 3


class _Outside:
    """Notes when it is first asked for an orchestrator, and has none."""

    def __init__(self, asked: Callable[[], None]) -> None:
        self._asked = asked

    def orchestrator(self, contract: Contract) -> Any:
        """Note it."""
        del contract
        self._asked()
        raise Unavailable("orchestrator", "there is none in a bench")


class _Nowhere:
    """Keeps nothing: neither state files nor evidence."""

    def write_state(self, run: Run) -> None:
        """Keep no state."""

    def keep(self, digest: str, content: bytes, kind: str = "json") -> None:
        """Keep no evidence."""


def starts(store: str, folder: Path, number: int) -> Found:
    """Fill a ledger, and measure starts of a watch and of the way in for signals."""
    # What fails here does so on purpose.
    logging.getLogger("watchkeeper").setLevel(logging.CRITICAL)
    place = address(store, folder)
    server, file = ("", Path(place)) if store == "sqlite" else (place, folder / "none")
    views = folder / f"{uuid4().hex}.views"
    with open_ledger(server, file, create=True) as opened:
        runs = _fill(opened, number)
        with ViewsFile(views) as kept:
            rebuild(opened.store, kept, BINDINGS)
        pages = _median(lambda: _read(opened))
        first = _median(lambda: _first_check(opened))
        inbox = _median(lambda: _inbox(opened, views))
    return {
        f"start with {number:,} events of {runs} runs": {
            "seconds_reading_every_event": round(pages, 2),
            "seconds_to_the_first_check": round(first, 2),
            "seconds_to_the_first_signal": round(inbox, 2),
        }
    }


def _median(measure: Callable[[], float]) -> float:
    return sorted(measure() for _ in range(REPETITIONS))[REPETITIONS // 2]


def _fill(opened: OpenLedger, number: int) -> int:
    """Append histories with the rows that their appends would have written; return how many."""
    reported = payload()
    tail = _end()
    running, over = reported.events(RUN_EVENTS), (*reported.events(RUN_EVENTS - len(tail)), *tail)
    rows = {True: _rows(running), False: _rows(over)}
    for place in range(number // RUN_EVENTS):
        slug, live = f"r{place:05}", place % LIVE_EACH == LIVE_EACH // 2
        own = ((t, s.replace(SLUG.encode(), slug.encode())) for t, s in (running if live else over))
        named = [StatusRow(slug, r.part, r.row.replace(SLUG, slug)) for r in rows[live]]
        opened.store.append([Write(f"run/{slug}", 0, tuple(own))], status=named)
    return number // RUN_EVENTS


def _end() -> tuple[tuple[str, bytes], ...]:
    """Return the events by which a run ends that is given up after a failure."""
    history = History().launch(None).train(1000)
    before = len(history.events)
    history.fail(killed())
    history.tell(Abandon(now=history.now, actor=DRI, reason="it is a bench"))
    return tuple(encode(one.envelope) for one in history.events[before:])


def _rows(events: tuple[tuple[str, bytes], ...]) -> list[StatusRow]:
    stored = [
        decode(f"run/{SLUG}", version, topic, state)
        for version, (topic, state) in enumerate(events, 1)
    ]
    run: Run | Unreadable = Run(SLUG)
    for event in stored:
        run = evolve(run, event)
    assert isinstance(run, Run), run
    return rows_of_run(run)


def _read(opened: OpenLedger) -> float:
    start = time.perf_counter()
    for _ in Tailer(recorder_of(opened.store), opened.store).pages():
        pass
    return time.perf_counter() - start


def _first_check(opened: OpenLedger) -> float:
    took: list[float] = []
    stop = threading.Event()

    def asked() -> None:
        took.append(time.perf_counter() - start)
        stop.set()

    ledger = Ledger(opened.store, Scrubber(b"0" * 32))
    outside: Any = _Outside(asked)
    # A failure is tried again at once, so that the next start finds the same things due.
    recorder = recorder_of(opened.store)
    services = Services(ledger, recorder, outside, _Nowhere(), "bench", draw=lambda: 0.0)
    holder = Holder(principal="watchkeeper", host=f"bench-{uuid4().hex}", home="/bench")
    watcher = Watcher(services, holder, _Nowhere())
    start = time.perf_counter()
    thread = threading.Thread(target=watcher.run, args=(stop,), daemon=True)
    thread.start()
    thread.join(LIMIT_S)
    assert took, f"nothing was asked within {timedelta(seconds=LIMIT_S)}"
    return took[0]


def _inbox(opened: OpenLedger, views: Path) -> float:
    ledger = Ledger(opened.store, Scrubber(b"0" * 32))
    start = time.perf_counter()
    Inbox(
        ledger,
        recorder_of(opened.store),
        _Nowhere(),
        parse_plain,
        lambda: load_bindings(lambda: ViewsFile(views), opened.store),
    ).bind_kept()
    return time.perf_counter() - start
