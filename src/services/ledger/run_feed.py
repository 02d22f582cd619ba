"""Which runs to look at: all of them at the start, then those that grew.

The stream names list all runs, so the start reads no events. The status rows decide only the order;
each append wrote them in its own transaction. A run with a wrong or missing row is looked at a
little later, but every run is looked at.
"""

import json
from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import Any

from eventsourcing.persistence import ApplicationRecorder

from watchkeeper import clock
from watchkeeper.ports.event_store import EventStore, StatusRow
from watchkeeper.services.ledger.ledger_feed import Tailer

AT_ONCE = timedelta(milliseconds=200)
"""How long a turn spends on the initial runs. Due acts then begin before the remaining runs are
read. The delay is small next to a check every two minutes."""


class Changes:
    """Yields the names of runs to look at, turn by turn.

    Args:
        recorder: The ledger as a recorder of the `eventsourcing` library.
        store: The ledger.
    """

    def __init__(self, recorder: ApplicationRecorder, store: EventStore) -> None:
        """Start with no run named."""
        self._store = store
        self._tailer = Tailer(recorder, store)
        self._begun = False
        self._left: dict[str, None] = {}

    @property
    def whole(self) -> bool:
        """Whether every run was named at least once."""
        return self._begun and not self._left

    def turn(self) -> Iterator[str]:
        """Yield runs that grew since they were last named, then some that were never named.

        Raises:
            StoreFailure: The ledger could not be read.
        """
        if not self._begun:
            # Read before the names: an append between the two is named twice, but never missed.
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
        """Wait for an append or the limit; do not wait while runs are left."""
        if self.whole:
            self._tailer.wait(limit)


def run_of(stream: str) -> str:
    """Return the run of a stream; empty if it belongs to no run.

    >>> run_of("run/hero"), run_of("effects/hero"), run_of("roots")
    ('hero', 'hero', '')
    """
    kind, _, slug = stream.partition("/")
    return slug if kind in ("run", "effects") else ""


def _runs(store: EventStore) -> list[str]:
    names = [*store.streams("run/"), *store.streams("effects/")]
    return list(dict.fromkeys(filter(None, map(run_of, names))))


def in_order(slugs: Iterable[str], rows: Iterable[StatusRow]) -> list[str]:
    """Return runs in order of urgency.

    First come runs that a human wants stopped, then runs with due acts by due time, then runs
    without a row, then the rest.

    Args:
        slugs: All runs.
        rows: Status rows as stored.
    """
    by_run = {row.run: row.row for row in rows if row.part == "run"}
    return sorted(slugs, key=lambda slug: _need(by_run.get(slug, "")))


def _need(text: str) -> tuple[int, str]:
    try:
        row: Any = json.loads(text)
        stopping, due = row["stopping"], row["due"]
    except (ValueError, KeyError, TypeError):
        return 2, ""
    if stopping:
        return 0, ""
    return (1, str(due)) if due else (3, "")
