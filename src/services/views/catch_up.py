"""Moves builds of projections along the ledger, one page at a time.

- A page is one transaction: its rows, what it parked and how far the build has come.
- The position advances over every event, relevant or not.
- An event that cannot be folded is parked by reference. Later events of its stream wait; other
  streams continue. A retry reads them all again from the ledger.
- Each page is read with the event before it, whose hash must match the build. So a ledger that was
  restored from an older backup is detected at once.
"""

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from eventsourcing.persistence import ApplicationRecorder

from watchkeeper import clock
from watchkeeper.ports.event_store import EventHeader, EventStore, Recorded
from watchkeeper.ports.views import Build, BuildState, Move, Parked, Views
from watchkeeper.projections.views.view import Projection, Row, Seen, Sums, looked_into
from watchkeeper.services.ledger.ledger_feed import PAGE, LedgerNotification, select

log = logging.getLogger(__name__)

LEASE = timedelta(seconds=30)
"""The lease of a build. A page takes milliseconds, so a longer silence means a dead process."""

SEARCHED = 100 * PAGE
"""The most events searched at once for some topics; the lease of a build is renewed in between."""

RETRIES_MAX = 20
"""How often a retry restarts because a tailer moved the build; each takes milliseconds."""


class ViewAhead(Exception):
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
        ViewAhead: The build has seen events that the ledger does not hold.
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
        see: As `Pages.seen`, if others see these events too.

    Raises:
        ViewsFailure: The views could not be written.
    """
    waiting = {one.stream for one in views.parked(build)}
    folded = fold_events(views, build, projection, events, waiting, see)
    last = events[-1]
    return views.move(build, Move(last.position, last.hash, folded.rows, folded.parked))


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


@dataclass(slots=True)
class Folded:
    """The result of folding events: changed rows, and events that could not be folded."""

    rows: dict[str, str]
    parked: list[Parked]


def fold_events(
    views: Views,
    build: Build,
    projection: Projection,
    events: Sequence[EventHeader],
    waiting: set[str],
    see: Callable[[EventHeader], Seen] = _see,
) -> Folded:
    """Fold events into the rows of a build; nothing is stored.

    Args:
        views: The store of the current rows.
        build: The build that owns the rows.
        projection: Its projection.
        events: In commit order.
        waiting: Streams whose events wait; new ones are added.
        see: Converts a stored event for the projection.
    """
    if projection.topics is not None:
        events = [one for one in events if one.topic in projection.topics]
    if waiting:
        events = [one for one in events if one.stream not in waiting]
    if projection.sums is not None:
        rows_at_once = _summed(views, build, projection.sums, events)
        if rows_at_once is not None:
            return Folded(rows_at_once, [])
    out = Folded({}, [])
    touched: list[tuple[Seen, Sequence[str]]] = []
    for seen in map(see, events):
        if seen.stream in waiting:
            continue
        try:
            touched.append((seen, projection.keys(seen)))
        except Exception as error:  # noqa: BLE001 - Told, parked, and shown until it is mended.
            _park(out, build, seen, error, waiting)
    wanted = sorted({key for _, keys in touched for key in keys})
    rows: dict[str, Row] = {
        key: json.loads(text) for key, text in views.rows(build, wanted).items()
    }
    changed: set[str] = set()
    for seen, keys in touched:
        if seen.stream in waiting and seen.version >= _first_parked(out, seen.stream):
            continue
        try:
            after = {key: projection.fold(key, rows.get(key), seen) for key in keys}
        except Exception as error:  # noqa: BLE001 - Told, parked, and shown until it is mended.
            _park(out, build, seen, error, waiting)
            continue
        rows.update(after)
        changed.update(after)
    out.rows = {key: json.dumps(rows[key], ensure_ascii=False) for key in sorted(changed)}
    return out


def _summed(
    views: Views, build: Build, sums: Sums, events: Sequence[EventHeader]
) -> dict[str, str] | None:
    """Fold all events at once; return None, without a report, if one cannot be folded."""
    try:
        rows = dict(sums.of(events))
    except Exception:  # noqa: BLE001 - Found again one by one, then told and parked.
        return None
    before = {key: json.loads(text) for key, text in views.rows(build, sorted(rows)).items()}
    try:
        rows |= {key: sums.plus(row, rows[key]) for key, row in before.items()}
    except Exception:  # noqa: BLE001 - As above.
        return None
    return {key: json.dumps(rows[key], ensure_ascii=False) for key in sorted(rows)}


def _first_parked(out: Folded, stream: str) -> int:
    return min(one.version for one in out.parked if one.stream == stream)


def _park(out: Folded, build: Build, seen: Seen, error: Exception, waiting: set[str]) -> None:
    log.error(
        "%s: event %d of %s is parked, and what follows it there waits: %s: %s",
        build.title, seen.version, seen.stream, type(error).__name__, error,
    )  # fmt: skip
    # Folding may fail at an earlier event of the stream than finding the keys did.
    out.parked = [one for one in out.parked if one.stream != seen.stream]
    out.parked.append(
        Parked(
            build=build.id,
            stream=seen.stream,
            version=seen.version,
            position=seen.position,
            error=f"{type(error).__name__}: {error}",
            attempts=1,
            parked_at=clock.now(),
        )
    )
    waiting.add(seen.stream)


def retry(
    store: EventStore, views: Views, build: Build, projection: Projection, one: Parked
) -> bool:
    """Retry a parked event and those behind it; say whether nothing waits any more.

    If a tailer moves the build meanwhile, the retry restarts on the new state.

    Raises:
        StoreFailure: The ledger could not be read.
        ViewsFailure: The views could not be written.
    """
    for _ in range(RETRIES_MAX):
        done = _retried(store, views, build, projection, one)
        if done is not None:
            return done
        there = next((b for b in views.builds() if b.id == build.id), None)
        if there is None or one.stream not in {p.stream for p in views.parked(there)}:
            return True  # Replaced, or already folded by the other process.
        build = there
    return False


def _retried(
    store: EventStore, views: Views, build: Build, projection: Projection, one: Parked
) -> bool | None:
    """Retry once; None, with nothing stored, if the build moved meanwhile."""
    found = store.read(one.stream, after=one.version - 1)
    events = [skimmed(whole) for whole in found if whole.position <= build.position]
    folded = fold_events(views, build, projection, events, set())
    again = [
        replace(p, attempts=one.attempts + 1, parked_at=one.parked_at)
        if p.version == one.version
        else p
        for p in folded.parked
    ]
    released = () if again else (one.stream,)
    move = Move(build.position, build.hash, folded.rows, again, released)
    return None if views.move(build, move) is None else not again


def retry_all(
    store: EventStore,
    views: Views,
    projections: Mapping[str, Projection],
    chosen: Callable[[Build, Parked], bool] = lambda _build, _parked: True,
) -> tuple[int, int]:
    """Retry parked events; return how many streams no longer wait, and how many still do.

    Args:
        store: The ledger.
        views: The store of the parked events.
        projections: By title.
        chosen: The parked events to retry.
    """
    released = left = 0
    for one in views.parked():
        build = next((b for b in views.builds() if b.id == one.build), None)
        if build is None or build.state is BuildState.OLD:
            continue  # The build was replaced, so its parked events are dropped too.
        if build.title not in projections or not chosen(build, one):
            continue
        if retry(store, views, build, projections[build.title], one):
            released += 1
        else:
            left += 1
    return released, left
