"""Which runs to look at: at the start all of them, whoever needs the watch first; then what grew.

The names of all streams say which runs there are, so no event is read to begin. Status rows, which
each append wrote in its own transaction, say who comes first. They decide about nothing else: a run
whose row is wrong or missing is looked at a little later, and every run is looked at.
"""

import json
from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import Any

from eventsourcing.persistence import ApplicationRecorder

from watchkeeper import clock
from watchkeeper.ports.event_store import EventStore
from watchkeeper.projections.status.live_row import StoredRow, live_rows
from watchkeeper.services.ledger.ledger_feed import Tailer

AT_ONCE = timedelta(milliseconds=200)
"""How long a turn goes on with the runs that were there at the start: what is due by then begins
before the rest is read. A check every two minutes does not feel it."""


class Changes:
    """Names of runs to look at, in turns.

    Args:
        recorder: The ledger, as the library knows it.
        store: The ledger.
    """

    def __init__(self, recorder: ApplicationRecorder, store: EventStore) -> None:
        """Begin with nothing named."""
        self._store = store
        self._tailer = Tailer(recorder, store)
        self._begun = False
        self._left: dict[str, None] = {}

    @property
    def whole(self) -> bool:
        """Whether every run was named at least once."""
        return self._begun and not self._left

    def turn(self) -> Iterator[str]:
        """Yield runs that grew since they were named last, then some of those never named.

        Raises:
            StoreFailure: The ledger could not be read.
        """
        if not self._begun:
            # Before the names: what is appended between the two is named twice, and never missed.
            self._tailer.position = self._store.newest()
            self._left = dict.fromkeys(in_order(_runs(self._store), self._store.status_rows()))
            self._begun = True
        grown: dict[str, None] = {}
        for page in self._tailer.pages():
            grown |= dict.fromkeys(filter(None, (run_of(str(n.originator_id)) for n in page)))
        for slug in grown:
            self._left.pop(slug, None)
            yield slug
        deadline = clock.Deadline.after(AT_ONCE)
        while self._left:
            slug = next(iter(self._left))
            del self._left[slug]
            yield slug
            if deadline.expired():
                return

    def wait(self, limit: timedelta) -> None:
        """Wait until something is appended, or the limit; not at all while runs are left."""
        if self.whole:
            self._tailer.wait(limit)


def run_of(stream: str) -> str:
    """Return whose stream it is; empty when it is no run's.

    >>> run_of("run/hero"), run_of("effects/hero"), run_of("roots")
    ('hero', 'hero', '')
    """
    kind, _, slug = stream.partition("/")
    return slug if kind in ("run", "effects") else ""


def _runs(store: EventStore) -> list[str]:
    names = [*store.streams("run/"), *store.streams("effects/")]
    return list(dict.fromkeys(filter(None, map(run_of, names))))


def in_order(slugs: Iterable[str], rows: Iterable[StoredRow]) -> list[str]:
    """Return runs in the order in which they need somebody.

    First those that a human wants stopped, then those that something is due for, by when, then
    those of which no row tells, then the rest.

    Args:
        slugs: All runs.
        rows: Status rows as stored.
    """
    told = {row.run: row.row for row in live_rows(rows) if row.part == "run"}
    return sorted(slugs, key=lambda slug: _need(told.get(slug, "")))


def _need(text: str) -> tuple[int, str]:
    try:
        row: Any = json.loads(text)
        stopping, due = row["stopping"], row["due"]
    except (ValueError, KeyError, TypeError):
        return 2, ""
    if stopping:
        return 0, ""
    return (1, str(due)) if due else (3, "")
