"""Shared code of both stores' recorders for the `eventsourcing` library, 9.5.

The library names streams by UUIDs or by strings. A UUID's stream is called `uuid/<hex>`.
"""

import re
from collections.abc import Generator, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from threading import Thread
from typing import Any
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

from watchkeeper.adapters.store.feed import Feed
from watchkeeper.ports.event_store import StoreFailure, VersionConflict
from watchkeeper.services.ledger.ledger_feed import LedgerNotification

_UUID_STREAM = re.compile(r"uuid/([0-9a-f]{32})")

_VERSION_MIN, _VERSION_MAX = -1, 2**63 - 1
"""Values at the ends of a column's range: no limit on either side."""


class LedgerAggregateRecorder(AggregateRecorder):
    """The library's aggregate recorder: the same store, to callers who get no ids."""

    def __init__(self, recorder: ApplicationRecorder) -> None:
        """Record through an application recorder."""
        self._recorder = recorder

    def insert_events(self, stored_events: Sequence[StoredEvent], **kwargs: Any) -> None:
        """Store events; see the application recorder."""
        self._recorder.insert_events(stored_events, **kwargs)

    def select_events(
        self,
        originator_id: UUID | str,
        *,
        gt: int | None = None,
        lte: int | None = None,
        desc: bool = False,
        limit: int | None = None,
    ) -> Sequence[StoredEvent]:
        """Return a stream's events; see the application recorder."""
        return self._recorder.select_events(originator_id, gt=gt, lte=lte, desc=desc, limit=limit)


class LedgerSubscription(ListenNotifySubscription[ApplicationRecorder]):
    """The library's subscription, woken by the store's feed."""

    def __init__(
        self, recorder: ApplicationRecorder, feed: Feed, gt: int | None, topics: Sequence[str]
    ) -> None:
        """Start to pull; made by `subscribed`."""
        # Before the thread begins, which stops the subscription when it fails.
        self._feed = feed
        # All topics are pulled and chosen from here: filtered in the query, the position would
        # stay behind events of other topics, which each wake-up would then scan again.
        super().__init__(recorder, gt)
        self._chosen = frozenset(topics)
        feed.listen(self._has_been_notified)
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
        self._feed.unlisten(self._has_been_notified)


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
    """Return the stream name of a library id.

    Raises:
        ProgrammingError: A string that is a UUID's stream: the two would be one.
    """
    if isinstance(originator_id, UUID):
        return f"uuid/{originator_id.hex}"
    if _UUID_STREAM.fullmatch(originator_id):
        raise ProgrammingError(f"{originator_id!r} is the stream of a UUID: give it as one")
    return originator_id


def versions_between(gt: int | None, lte: int | None) -> tuple[int, int]:
    """Return the versions above and up to which is read, as a column can hold them."""
    return _VERSION_MIN if gt is None else gt, _VERSION_MAX if lte is None else lte


def positions_between(start: int | None, stop: int | None, *, inclusive: bool) -> tuple[int, int]:
    """Return the positions above and up to which is read."""
    after = 0 if start is None else start - 1 if inclusive else start
    return after, _VERSION_MAX if stop is None else stop


def read_events(
    originator_id: UUID | str, rows: Iterable[tuple[int, str, bytes]]
) -> list[StoredEvent]:
    """Return a stream's events of rows of version, topic and bytes."""
    return [StoredEvent(originator_id, version, topic, state) for version, topic, state in rows]


def notifications(rows: Iterable[tuple[int, str, int, str, bytes, bytes]]) -> list[Notification]:
    """Return notifications of rows of position, stream, version, topic, bytes and hash."""
    new, fill = object.__new__, object.__setattr__
    made: list[Notification] = []
    for position, stream, version, topic, state, digest in rows:
        # Filled in one step: a frozen one sets its fields one by one, which takes twice as long.
        one = new(LedgerNotification)
        values = {
            "originator_id": _originator_of(stream) if stream.startswith("uuid/") else stream,
            "originator_version": version,
            "topic": topic,
            "state": state,
            "id": position,
            "stream": stream,
            "hash": digest,
        }
        fill(one, "__dict__", values)
        made.append(one)
    return made


def nothing_else(along: Mapping[str, Any]) -> None:
    """Refuse extra arguments that cannot be stored with events.

    Raises:
        ProgrammingError: There is something: left out in silence, such as a tracking, it would let
            a follower process its events twice.
    """
    if along:
        raise ProgrammingError(f"can't store {', '.join(sorted(along))} along with events")


def subscribed(
    recorder: ApplicationRecorder, feed: Feed, gt: int | None, topics: Sequence[str]
) -> LedgerSubscription:
    """Subscribe from a daemon thread. What that starts are daemons too.

    The library's thread would otherwise keep a process from ending while a subscription is open.
    """
    made: Future[LedgerSubscription] = Future()

    def run() -> None:
        try:
            made.set_result(LedgerSubscription(recorder, feed, gt, topics))
        finally:
            # Does nothing if there is a result; otherwise no caller waits for one.
            made.cancel()

    Thread(target=run, daemon=True).start()
    return made.result()


def _originator_of(stream: str) -> UUID | str:
    """Return the library's id of a stream."""
    match = _UUID_STREAM.fullmatch(stream)
    return stream if match is None else UUID(match[1])
