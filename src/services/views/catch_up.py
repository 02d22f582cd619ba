"""Moves builds of projections along the ledger, one page at a time.

- A page is one transaction: its rows, and the position of the build after it.
- The position advances over every event, relevant or not.
- An event that cannot be folded halts the build before its page, and the build says why. Catching
  up tries the page again.
- Each page is read with the event before it, whose hash must match the build. So a ledger that was
  restored from an older backup is detected at once.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from eventsourcing.persistence import ApplicationRecorder

from watchkeeper.ports.event_store import EventHeader, EventStore, Recorded
from watchkeeper.ports.views import Build, Move, Views, ViewsFailure
from watchkeeper.projections.views.view import Projection, Row, Seen, Sums, looked_into
from watchkeeper.services.ledger.ledger_feed import PAGE, LedgerNotification, select

_T = TypeVar("_T")

SEARCHED = 100 * PAGE
"""The most events searched at once for some topics. The progress of a build is stored after each
search."""


class ViewHalted(Exception):
    """A build cannot continue. The message says why, and which command continues it."""


class ViewAhead(ViewHalted):
    """A build has seen events that are missing in the ledger: it was restored from a backup."""


class Pages:
    """Reads pages of the ledger, each once for all projections, and decodes no event twice.

    Most events are only counted, and their bytes are most of what there is to read.

    Args:
        store: The ledger.
        projections: The readers. Events that no projection decodes are read without their bytes.
        recorder: The ledger as a recorder of the `eventsourcing` library. Where all readers name
            their topics, other events are then not read at all.
    """

    def __init__(
        self,
        store: EventStore,
        projections: Sequence[Projection] | None = None,
        recorder: ApplicationRecorder | None = None,
    ) -> None:
        """Start with nothing read."""
        self._store = store
        self._topics = None if projections is None else looked_into(projections)
        counted = any(one.sums is not None for one in projections or ())
        self._recorder = None if counted or not self._topics else recorder
        self._level: dict[int, bool] = {}
        self._read: dict[int, Sequence[EventHeader]] = {}
        self._seen: dict[int, Seen] = {}

    def after(self, position: int) -> Sequence[EventHeader]:
        """Return the event at a position, if it exists, and the page after it.

        Raises:
            StoreFailure: The ledger could not be read.
        """
        if position not in self._read:
            first = max(position - 1, 0)
            limit = limit_after(position)
            if self._recorder is not None:
                self._read[position] = self._chosen(self._recorder, position)
            elif self._topics is None:
                whole = self._store.read_all(after=first, limit=limit)
                self._read[position] = tuple(map(skimmed, whole))
            else:
                self._read[position] = self._store.skim(self._topics, after=first, limit=limit)
        self._level.setdefault(position, len(self._read[position]) < limit_after(position))
        return self._read[position]

    def level(self, position: int) -> bool:
        """Return whether the page after a position, which was read, ends where the ledger ends."""
        return self._level[position]

    def _chosen(self, recorder: ApplicationRecorder, position: int) -> Sequence[EventHeader]:
        """Return the events of the topics, and those at both ends of what was searched."""
        newest = self._store.newest()
        end = min(newest, position + SEARCHED)
        topics = sorted(self._topics or ())
        wanted = select(recorder, position, PAGE, stop=end, topics=topics)
        if len(wanted) == PAGE:
            end = wanted[-1].id
        self._level[position] = end >= newest
        before = select(recorder, position - 1, 1, stop=position) if position else ()
        last = () if wanted and wanted[-1].id == end else select(recorder, end - 1, 1, stop=end)
        after = last if end > position else ()
        return [_notified(one) for one in (*before, *wanted, *after)]

    def seen(self, one: EventHeader) -> Seen:
        """Return an event of a page as projections see it.

        Raises:
            StoreFailure: Its bytes are needed and could not be read.
        """
        if one.position not in self._seen:
            if one.state is None:
                [whole] = self._store.read_all(after=one.position - 1, limit=1)
                one = skimmed(whole)
            self._seen[one.position] = _see(one)
        return self._seen[one.position]


def limit_after(position: int) -> int:
    """Return the number of events in a full page, with the event at its position."""
    return PAGE + (1 if position else 0)


def _notified(one: LedgerNotification) -> EventHeader:
    version, size = one.originator_version, len(one.state)
    return EventHeader(one.id, one.stream, version, one.topic, size, one.hash, one.state)


def skimmed(whole: Recorded) -> EventHeader:
    """Return an event that was read with its bytes as one of a page."""
    position, stream, version, topic, state, digest = whole
    return EventHeader(position, stream, version, topic, len(state), digest, state)


def _see(one: EventHeader) -> Seen:
    assert one.state is not None, "it was read with its bytes"
    return Seen(one.position, one.stream, one.version, one.topic, one.state, one.hash)


@dataclass(frozen=True, slots=True)
class Stepped:
    """The result of a step.

    Attributes:
        build: The build afterwards; None if another process moved it first.
        events: The number of new events.
        level: There was nothing more to read.
    """

    build: Build | None
    events: int
    level: bool


def step(pages: Pages, views: Views, build: Build, projection: Projection) -> Stepped:
    """Move a build over one page.

    Raises:
        ViewHalted: The ledger does not hold the events that the build has seen, or the projection
            cannot fold an event. Nothing was stored.
        StoreFailure: The ledger could not be read.
        ViewsFailure: The views could not be written.
    """
    page = pages.after(build.position)
    same_ledger(build, page)
    if build.position:
        page = page[1:]
    if not page:
        return Stepped(build, 0, level=True)
    moved = move_over(views, build, projection, page, pages.seen)
    return Stepped(moved, len(page), pages.level(build.position))


def same_ledger(build: Build, page: Sequence[EventHeader]) -> None:
    """Compare the last event of a build with the event before its page.

    Raises:
        ViewAhead: The ledger does not hold it.
    """
    if not build.position:
        return
    there = page[0] if page and page[0].position == build.position else None
    if there is not None and (there.hash == build.hash or not build.hash):
        return
    what = "another event there" if there is not None else "no such event"
    raise ViewAhead(
        f"{build.title} has seen event {build.position}, and the ledger has {what}, as after a "
        f"restored backup: build it again with `watchkeeper ledger rebuild {build.name}`"
    )


def move_over(
    views: Views,
    build: Build,
    projection: Projection,
    events: Sequence[EventHeader],
    see: Callable[[EventHeader], Seen] = _see,
) -> Build | None:
    """Fold the next events into a build in one transaction; None if it changed meanwhile.

    Args:
        views: The store of the build.
        build: The build to move.
        projection: Its projection.
        events: In commit order, without a gap.
        see: Converts a stored event for the projection; `Pages.seen` shares the result.

    Raises:
        ViewHalted: The projection cannot fold an event.
        ViewsFailure: The views could not be written.
    """
    last = events[-1]
    if projection.topics is not None:
        events = [one for one in events if one.topic in projection.topics]
    rows = None if projection.sums is None else _summed(views, build, projection.sums, events)
    if rows is None:
        rows = _folded(views, build, projection, [see(one) for one in events])
    texts = {key: json.dumps(rows[key], ensure_ascii=False) for key in sorted(rows)}
    return views.move(build, Move(last.position, last.hash, texts))


def _folded(
    views: Views, build: Build, projection: Projection, events: Sequence[Seen]
) -> dict[str, Row]:
    """Fold events one by one; return the changed rows.

    Raises:
        ViewHalted: The projection cannot fold an event.
    """
    touched = [(seen, _guarded(build, seen, partial(projection.keys, seen))) for seen in events]
    rows = _rows_before(views, build, {key for _, keys in touched for key in keys})
    for seen, keys in touched:
        for key in keys:
            fold = partial(projection.fold, key, rows.get(key), seen)
            rows[key] = _guarded(build, seen, fold)
    return rows


def _guarded(build: Build, seen: Seen, call: Callable[[], _T]) -> _T:
    """Return the result of a projection's function, which may raise anything.

    Raises:
        ViewHalted: It raised. The message names the event.
    """
    try:
        return call()
    except Exception as error:
        raise ViewHalted(
            f"{build.title} cannot process event {seen.position}, which is event {seen.version} of "
            f"{seen.stream}: {type(error).__name__}: {error}. Upgrade watchkeeper or fix the "
            "cause, then run `watchkeeper ledger catch-up`"
        ) from error


def _summed(
    views: Views, build: Build, sums: Sums, events: Sequence[EventHeader]
) -> dict[str, Row] | None:
    """Fold all events at once; None if one cannot be folded, and `_folded` then names it."""
    try:
        rows = dict(sums.of(events))
        before = _rows_before(views, build, rows)
        return rows | {key: sums.plus(row, rows[key]) for key, row in before.items()}
    except ViewsFailure:
        raise
    except Exception:  # noqa: BLE001 - A projection may raise anything; `_folded` reports it.
        return None


def _rows_before(views: Views, build: Build, keys: Iterable[str]) -> dict[str, Row]:
    return {key: json.loads(text) for key, text in views.rows(build, sorted(keys)).items()}
