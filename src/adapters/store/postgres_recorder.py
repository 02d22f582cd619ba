"""The `eventsourcing` library's recorder interfaces for a PostgreSQL ledger.

The library's own recorder locks its table against VACUUM and index builds, sends composites as
text, or, by its database functions, lets events be skipped and drops tracking. See
`adapters.store.recorder` for what this recorder shares with the one for SQLite.
"""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from eventsourcing.persistence import (
    IntegrityError,
    Notification,
    ProcessRecorder,
    StoredEvent,
    Tracking,
)

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
from watchkeeper.adapters.store.postgres import PostgresStore, SourceResult
from watchkeeper.ports.event_store import Append

_EVENTS = """SELECT e.version, t.name, e.state
FROM (
    SELECT version, topic, state FROM events
    WHERE stream = (SELECT id FROM streams WHERE name = %s) AND version > %s AND version <= %s
    ORDER BY stream, version LIMIT %s::bigint
) AS e JOIN topics AS t ON t.id = e.topic
ORDER BY e.version"""

_EVENTS_BACKWARDS = """SELECT e.version, t.name, e.state
FROM (
    SELECT version, topic, state FROM events
    WHERE stream = (SELECT id FROM streams WHERE name = %s) AND version > %s AND version <= %s
    ORDER BY stream DESC, version DESC LIMIT %s::bigint
) AS e JOIN topics AS t ON t.id = e.topic
ORDER BY e.version DESC"""

_NOTIFICATIONS = """SELECT e.id, s.name, e.version, t.name, e.state, e.hash
FROM events AS e JOIN streams AS s ON s.id = e.stream JOIN topics AS t ON t.id = e.topic
WHERE e.id > %s AND e.id <= %s AND (%s::text[] IS NULL OR t.name = ANY (%s::text[]))
ORDER BY e.id LIMIT %s::bigint"""


class PostgresRecorder(ProcessRecorder):
    """The library's application and process recorder. Errors are the library's.

    Versions of a stream follow each other without a gap, as the hash chain needs; the first one is
    0 or 1. So it is not for snapshots. A tracking is stored in the same call as the events.
    """

    def __init__(self, store: PostgresStore) -> None:
        """Record into an open store, which the caller closes."""
        self.store = store

    def insert_events(
        self,
        stored_events: Sequence[StoredEvent],
        *,
        tracking: Tracking | None = None,
        **kwargs: Any,
    ) -> list[int]:
        """Store events and a tracking in one transaction, all or nothing; return notification ids.

        Raises:
            IntegrityError: A version does not directly follow its stream's newest one, or the
                follower has come to this place before.
            OperationalError: The store failed; nothing was stored.
            ProgrammingError: Something else was to be stored along with them.
        """
        nothing_else(kwargs)
        if not stored_events and tracking is None:
            return []
        asked = _asked(stored_events, tracking)
        with library_errors():
            [row] = self.store.store([asked])
        if row.outcome == "conflict":
            there = "an empty stream" if row.version is None else row.version
            raise IntegrityError(
                f"{row.said}: version {dict(asked.streams)[row.said or ''] + 1} does not follow "
                f"{there}: read again"
            )
        if row.outcome == "seen":
            raise IntegrityError(f"{row.said} is at {row.position} already")
        newest = row.position or 0
        return list(range(newest - len(stored_events) + 1, newest + 1))

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
        parameters = (
            stream_of(originator_id),
            *versions_between(gt, lte),
            limit,
        )
        with library_errors():
            rows = self.store.links.read("read", _EVENTS_BACKWARDS if desc else _EVENTS, parameters)
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
        chosen = list(topics) or None
        with library_errors():
            rows = self.store.links.read("read", _NOTIFICATIONS, (*between, chosen, chosen, limit))
        return notifications(rows)

    def max_notification_id(self) -> int | None:
        """Return the newest id; None if nothing is recorded."""
        with library_errors():
            return self.store.newest() or None

    def insert_tracking(self, tracking: Tracking) -> None:
        """Move a follower on, without events.

        Raises:
            IntegrityError: It has come to this place before.
        """
        self.insert_events([], tracking=tracking)

    def max_tracking_id(self, application_name: str) -> int | None:
        """Return a follower's position; None if it is unknown."""
        with library_errors():
            rows = self.store.links.read(
                "read", "SELECT position FROM tracking WHERE follower = %s", (application_name,)
            )
        return rows[0][0] if rows else None

    def has_tracking_id(self, application_name: str, notification_id: int | None) -> bool:
        """Return whether a follower has come to a place."""
        if notification_id is None:
            return True
        return (self.max_tracking_id(application_name) or 0) >= notification_id

    def subscribe(self, gt: int | None = None, topics: Sequence[str] = ()) -> LedgerSubscription:
        """Iterate over events after an id, then over new ones as any process records them.

        Use it in a `with` block, and end that before the store is closed.
        """
        return subscribed(self, self.store.feed, gt, topics)


def _asked(stored_events: Sequence[StoredEvent], tracking: Tracking | None) -> SourceResult:
    """Convert events with given versions to the store's form."""
    newest: dict[str, int] = {}
    expected: dict[str, int] = {}
    places: dict[str, int] = {}
    events: list[tuple[int, str, bytes]] = []
    for event in stored_events:
        stream = stream_of(event.originator_id)
        version = event.originator_version
        if stream not in expected:
            expected[stream] = version - 1
            places[stream] = len(places) + 1
        elif version != newest[stream] + 1:
            raise IntegrityError(
                f"{stream}: version {version} does not follow {newest[stream]}: read again"
            )
        newest[stream] = version
        events.append((places[stream], event.topic, event.state))
    seen = None
    if tracking is not None:
        seen = (tracking.application_name, tracking.notification_id)
    return SourceResult(list(expected.items()), events, {}, Append(()), seen)
