"""The one thread of a process that keeps all views current.

Each turn reads a page once for all builds at the same position. Store errors are reported and
retried forever with a growing back-off, so it never stops silently. A view that cannot process an
event is halted; the others continue.
"""

import logging
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from datetime import timedelta

from watchkeeper import clock
from watchkeeper.ports.event_store import EventStore, StoreFailure
from watchkeeper.ports.views import Beat, Views, ViewsFailure
from watchkeeper.projections.views.view import Projection
from watchkeeper.services.views.catch_up import Pages
from watchkeeper.services.views.rebuild import advance, by_title, ensure

log = logging.getLogger(__name__)

LOOK_EVERY = timedelta(milliseconds=500)
"""How long the worker may delay a stop of the process. A new event wakes it at once."""

POLL_EVERY = timedelta(seconds=10)
"""The ledger is read at least this often, even without a wake-up."""

BEAT_EVERY = timedelta(seconds=5)
"""The time between two heartbeats."""

RETRY_FIRST = timedelta(milliseconds=200)
RETRY_LONGEST = timedelta(seconds=20)
RETRY_JITTER = 0.5
"""The longest retry wait. A store that is back is followed again within half a minute."""

LEAVING = timedelta(seconds=10)
"""How long the current page may take when the process stops."""


class Tail:
    """Follows the ledger for all views, on one thread.

    Args:
        store: The ledger.
        views: The views to keep current.
        projections: All projections of this code.
        holder: This process, for its heartbeats.
    """

    def __init__(
        self, store: EventStore, views: Views, projections: Sequence[Projection], holder: str
    ) -> None:
        """Start with nothing read."""
        self._store = store
        self._views = views
        self._projections = projections
        self._known = by_title(projections)
        self._holder = holder
        self._backoff = clock.ExponentialBackoff(
            RETRY_FIRST, RETRY_LONGEST, factor=2, jitter=RETRY_JITTER
        )
        self._begun = False
        self._seen: int | None = None
        self._error = ""
        self._reported = set[str]()
        self._beat = clock.Deadline.after(timedelta(0))

    def run(self, stop: threading.Event) -> None:
        """Follow the ledger until stopped; report and retry errors."""
        while not stop.is_set():
            try:
                if self.turn():
                    self._rest(stop)
                else:
                    self._well()
            except (StoreFailure, ViewsFailure) as error:
                self._ill(str(error), stop)
            except Exception as error:
                log.exception("the views could not be brought up to date")
                says = f"internal error, please report: {type(error).__name__}: {error}"
                self._ill(says, stop)
        try:
            self._views.left(self._holder)
        except ViewsFailure as error:
            log.warning("%s", error)

    def turn(self) -> bool:
        """Move every build over one page; say whether all are level with the ledger.

        Raises:
            StoreFailure: The ledger could not be read.
            ViewsFailure: The views could not be written.
        """
        if not self._begun:
            ensure(self._views, self._projections)
            self._begun = True
        pages, level, seen = Pages(self._store, self._projections), True, None
        for build in self._views.builds():
            if build.error and build.error not in self._reported:
                self._reported.add(build.error)
                log.warning("a view is stopped: %s", build.error)
            known = self._known.get(build.title)
            if known is None or build.error:
                continue
            level = advance(pages, self._views, build, known) and level
            seen = build.position if seen is None else min(seen, build.position)
        self._seen = seen
        return level

    def _rest(self, stop: threading.Event) -> None:
        """Wait for a new event; poll after a while if no wake-up comes.

        Raises:
            StoreFailure: The ledger could not be read.
            ViewsFailure: The heartbeat could not be stored.
        """
        deadline = clock.Deadline.after(POLL_EVERY)
        # Wait after the events that were read, since newer ones may have arrived meanwhile.
        seen = self._store.newest() if self._seen is None else self._seen
        while not stop.is_set() and not deadline.expired():
            there = self._store.wait(after=seen, limit=LOOK_EVERY)
            # Not before the wait: if only the wait fails, the state would alternate between healthy
            # and failed.
            self._well()
            if there:
                return

    def _well(self) -> None:
        self._backoff.reset()
        if self._error:
            log.warning("the views are brought up to date again")
            self._error = ""
            self._beat = clock.Deadline.after(timedelta(0))
        if self._beat.expired():
            self._views.beat(Beat(self._holder, clock.now()))
            self._beat = clock.Deadline.after(BEAT_EVERY)

    def _ill(self, says: str, stop: threading.Event) -> None:
        if says != self._error:
            # Log once: repeated lines would hide other messages.
            log.warning("the views are stopped: %s; retrying", says)
        self._error = says
        try:
            self._views.beat(Beat(self._holder, clock.now(), says))
        except ViewsFailure:
            log.debug("and this cannot be written to the views' own file")
        stop.wait(self._backoff.next_wait().total_seconds())


@contextmanager
def tailing(
    store: EventStore, views: Views, projections: Sequence[Projection], holder: str
) -> Generator[None, None, None]:
    """Keep the views current with the ledger for the length of a block."""
    stop = threading.Event()
    tail = Tail(store, views, projections, holder)
    thread = threading.Thread(target=tail.run, args=(stop,), name="ledger-tail", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(timeout=LEAVING.total_seconds())
        if thread.is_alive():
            log.warning("ledger-tail: abandoned; the next watch continues from there")
