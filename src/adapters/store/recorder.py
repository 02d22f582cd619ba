"""The `eventsourcing` library's recorder interfaces for an SQLite store, 9.5.

The library's own SQLite recorder has no subscriptions and uses row ids as positions, which SQLite
reuses. It begins writes in a way that no busy timeout covers. This one keeps the library's types,
errors and subscription, and the library's test cases run on it unmodified.
"""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from eventsourcing.persistence import ApplicationRecorder, Notification, StoredEvent

from watchkeeper.adapters.load import load
from watchkeeper.adapters.store.library import (
    LedgerSubscription,
    library_errors,
    nothing_else,
    notifications,
    positions_between,
    read_events,
    stream_of,
    subscribed,
    versions_between,
)
from watchkeeper.adapters.store.sqlite import SqliteStore
from watchkeeper.ports.event_store import EventStore

_EVENTS = """SELECT e.version, t.name, e.state
FROM streams AS s CROSS JOIN events AS e CROSS JOIN topics AS t
WHERE s.name = ? AND e.stream = s.id AND e.version > ? AND e.version <= ? AND t.id = e.topic
ORDER BY e.version {order} LIMIT ?"""

_NOTIFICATIONS = """SELECT e.id, s.name, e.version, t.name, e.state, e.hash
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
        """Store events in one transaction, all or nothing; return their notification ids.

        Raises:
            IntegrityError: A version does not directly follow its stream's newest one.
            OperationalError: The store failed; nothing was stored.
            ProgrammingError: Something was to be stored along with them, such as a tracking.
        """
        nothing_else(kwargs)
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
            *versions_between(gt, lte),
            -1 if limit is None else limit,
        )
        with library_errors(), self.store.database.reading("read") as connection:
            rows = connection.execute(statement, parameters).fetchall()
        return read_events(originator_id, rows)

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
        between = positions_between(start, stop, inclusive=inclusive_of_start)
        marks = ",".join("?" * len(topics))
        statement = _NOTIFICATIONS.format(topics=f"AND t.name IN ({marks})" if topics else "")
        parameters = (*between, *topics, limit)
        with library_errors(), self.store.database.reading("read") as connection:
            rows = connection.execute(statement, parameters).fetchall()
        return notifications(rows)

    def max_notification_id(self) -> int | None:
        """Return the newest id; None if nothing is recorded."""
        with library_errors():
            return self.store.newest() or None

    def subscribe(self, gt: int | None = None, topics: Sequence[str] = ()) -> LedgerSubscription:
        """Iterate over events after an id, then over new ones as any process records them.

        Use it in a `with` block, and end that before the store is closed.
        """
        return subscribed(self, self.store.database.feed, gt, topics)


def recorder_of(store: EventStore) -> ApplicationRecorder:
    """Return the recorder of an open store of either kind."""
    if isinstance(store, SqliteStore):
        return SqliteRecorder(store)
    recorder: ApplicationRecorder = load("store.postgres_recorder", "PostgresRecorder")(store)
    return recorder
