"""The store behind the recorder interfaces of the `eventsourcing` library, version 9.5.

The library's own SQLite recorder has no subscriptions, uses row ids as positions, which SQLite
gives out again, and begins writes in a way that no busy timeout covers. This one keeps the
library's types, errors and subscription, and its test cases run on it unmodified.

Streams of the library are named by UUIDs or by strings. A UUID's stream is called `uuid/<hex>`.
"""

import re
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from threading import Thread
from typing import Any, TypeVar
from uuid import UUID

from eventsourcing.persistence import (
    AggregateRecorder,
    ApplicationRecorder,
    IntegrityError,
    ListenNotifySubscription,
    Notification,
    OperationalError,
    ProgrammingError,
    StoredEvent,
)

from watchkeeper.adapters.store.sqlite import SqliteStore
from watchkeeper.event_store import StoreFailure, VersionConflict

Started = TypeVar("Started")

_UUID_STREAM = re.compile(r"uuid/([0-9a-f]{32})")

_VERSION_MIN, _VERSION_MAX = -1, 2**63 - 1
"""Below and at the ends of what a column can hold: no limit on either side."""

_EVENTS = """SELECT e.version, t.name, e.state
FROM streams AS s CROSS JOIN events AS e CROSS JOIN topics AS t
WHERE s.name = ? AND e.stream = s.id AND e.version > ? AND e.version <= ? AND t.id = e.topic
ORDER BY e.version {order} LIMIT ?"""

_NOTIFICATIONS = """SELECT e.id, s.name, e.version, t.name, e.state
FROM events AS e CROSS JOIN streams AS s CROSS JOIN topics AS t
WHERE e.id > ? AND e.id <= ? AND s.id = e.stream AND t.id = e.topic {topics}
ORDER BY e.id LIMIT ?"""


class SqliteRecorder(ApplicationRecorder):
    """The library's application recorder. Errors are the library's.

    Versions of a stream follow each other without a gap, as the hash chain needs; the first one is
    0 or 1. So it is not for snapshots.
    """

    def __init__(self, store: SqliteStore) -> None:
        """Record into an open store, which the caller closes."""
        self.store = store

    def insert_events(self, stored_events: Sequence[StoredEvent], **kwargs: Any) -> list[int]:
        """Store events in one transaction, all or none; return their notification ids.

        Raises:
            IntegrityError: A version does not directly follow its stream's newest one.
            OperationalError: The store failed; nothing was stored.
            ProgrammingError: Something was to be stored along with them, such as a tracking.
        """
        if kwargs:
            # Leaving it out in silence would let a follower process its events twice.
            raise ProgrammingError(f"can't store {', '.join(sorted(kwargs))} along with events")
        events = [
            (stream_of(event.originator_id), event.originator_version, event.topic, event.state)
            for event in stored_events
        ]
        with library_errors():
            return self.store.insert(events)

    def select_events(
        self,
        originator_id: UUID | str,
        *,
        gt: int | None = None,
        lte: int | None = None,
        desc: bool = False,
        limit: int | None = None,
    ) -> list[StoredEvent]:
        """Return a stream's events with versions above `gt` and up to `lte`, in either order."""
        statement = _EVENTS.format(order="DESC" if desc else "ASC")
        parameters = (
            stream_of(originator_id),
            _VERSION_MIN if gt is None else gt,
            _VERSION_MAX if lte is None else lte,
            -1 if limit is None else limit,
        )
        with library_errors(), self.store.database.reading("read") as connection:
            rows = connection.execute(statement, parameters).fetchall()
        return [StoredEvent(originator_id, version, topic, state) for version, topic, state in rows]

    def select_notifications(
        self,
        start: int | None,
        limit: int,
        stop: int | None = None,
        topics: Sequence[str] = (),
        *,
        inclusive_of_start: bool = True,
    ) -> list[Notification]:
        """Return a page of the whole ledger between two ids, in commit order."""
        after = 0 if start is None else start - 1 if inclusive_of_start else start
        marks = ",".join("?" * len(topics))
        statement = _NOTIFICATIONS.format(topics=f"AND t.name IN ({marks})" if topics else "")
        parameters = (after, _VERSION_MAX if stop is None else stop, *topics, limit)
        with library_errors(), self.store.database.reading("read") as connection:
            rows = connection.execute(statement, parameters).fetchall()
        return [
            Notification(originator_of(stream), version, topic, state, id=position)
            for position, stream, version, topic, state in rows
        ]

    def max_notification_id(self) -> int | None:
        """Return the newest id; none when nothing is recorded."""
        with library_errors():
            return self.store.newest() or None

    def subscribe(self, gt: int | None = None, topics: Sequence[str] = ()) -> "SqliteSubscription":
        """Iterate over events after an id, then over new ones as any process records them.

        Use it in a `with` block, and end that before the store is closed.
        """
        return started_by_daemon(lambda: SqliteSubscription(self, gt, topics))


class SqliteAggregateRecorder(AggregateRecorder):
    """The library's aggregate recorder: the same store, to callers who get no ids."""

    def __init__(self, recorder: SqliteRecorder) -> None:
        """Record through an application recorder."""
        self._recorder = recorder

    def insert_events(self, stored_events: Sequence[StoredEvent], **kwargs: Any) -> None:
        """Store events; see `SqliteRecorder.insert_events`."""
        self._recorder.insert_events(stored_events, **kwargs)

    def select_events(
        self,
        originator_id: UUID | str,
        *,
        gt: int | None = None,
        lte: int | None = None,
        desc: bool = False,
        limit: int | None = None,
    ) -> list[StoredEvent]:
        """Return a stream's events; see `SqliteRecorder.select_events`."""
        return self._recorder.select_events(originator_id, gt=gt, lte=lte, desc=desc, limit=limit)


class SqliteSubscription(ListenNotifySubscription[SqliteRecorder]):
    """The library's subscription, woken by the store's feed."""

    def __init__(self, recorder: SqliteRecorder, gt: int | None, topics: Sequence[str]) -> None:
        """Start to pull; made by `SqliteRecorder.subscribe`."""
        # All topics are pulled and chosen from here: filtered in the query, the position would
        # stay behind events of other topics, which each wake-up would then scan again.
        super().__init__(recorder, gt)
        self._chosen = frozenset(topics)
        recorder.store.database.feed.listen(self._has_been_notified)
        # What was recorded between the first pull and the line above is pulled now.
        self._has_been_notified.set()

    def __next__(self) -> Notification:
        """Return the next event of a chosen topic, waiting for it."""
        notification = super().__next__()
        while self._chosen and notification.topic not in self._chosen:
            notification = super().__next__()
        return notification

    def stop(self) -> None:
        """End the iteration; safe to call twice and from any thread."""
        super().stop()
        self._recorder.store.database.feed.unlisten(self._has_been_notified)


@contextmanager
def library_errors() -> Generator[None, None, None]:
    """Turn the store's errors inside the block into the library's."""
    try:
        yield
    except VersionConflict as error:
        raise IntegrityError(str(error)) from error
    except StoreFailure as error:
        raise OperationalError(str(error)) from error


def stream_of(originator_id: UUID | str) -> str:
    """Return the stream of what the library knows by an id.

    Raises:
        ProgrammingError: A string that is a UUID's stream: the two would be one.
    """
    if isinstance(originator_id, UUID):
        return f"uuid/{originator_id.hex}"
    if _UUID_STREAM.fullmatch(originator_id):
        raise ProgrammingError(f"{originator_id!r} is the stream of a UUID: give it as one")
    return originator_id


def originator_of(stream: str) -> UUID | str:
    """Return the library's id of a stream."""
    match = _UUID_STREAM.fullmatch(stream)
    return stream if match is None else UUID(match[1])


def started_by_daemon(make: Callable[[], Started]) -> Started:
    """Call in a daemon thread. What it starts are daemons too.

    The library's thread would otherwise keep a process from ending while a subscription is open.
    """
    made: Future[Started] = Future()

    def run() -> None:
        try:
            made.set_result(make())
        finally:
            # Does nothing when there is a result; else nobody waits for one.
            made.cancel()

    Thread(target=run, daemon=True).start()
    return made.result()
