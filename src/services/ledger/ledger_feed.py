"""Follows the whole ledger in pages, in commit order.

Everything that reacts to the ledger reads it this way.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import cast

from eventsourcing.persistence import ApplicationRecorder, Notification, PersistenceError

from watchkeeper.ports.event_store import EventStore, StoreFailure, StoreUnavailable

PAGE = 500
"""Events in a page. This number needs few reads and little memory."""


@dataclass(frozen=True)
class LedgerNotification(Notification):
    """The library's notification, with the fields that only our ledger stores.

    Attributes:
        stream: The stream of the event.
        hash: Chain hash, 32 bytes.
    """

    stream: str
    hash: bytes


class Tailer:
    """A position in the ledger that moves over every event, relevant or not.

    It reads through the interface of the `eventsourcing` library, so other users of that library's
    recorders see the same ledger.

    Args:
        recorder: The ledger as a recorder of the library.
        store: The ledger, used to wait for new events.
        after: Start after this position; 0 reads from the beginning.
    """

    def __init__(self, recorder: ApplicationRecorder, store: EventStore, after: int = 0) -> None:
        """Start after a position."""
        self._recorder = recorder
        self._store = store
        self.position = after

    def pages(self) -> Iterator[Sequence[LedgerNotification]]:
        """Yield pages up to the end of the ledger; each page advances the position.

        A page that is not full is the last. Later events end the next `wait` at once.

        Raises:
            StoreFailure: The ledger could not be read.
        """
        while True:
            page = self._page()
            if not page:
                return
            self.position = page[-1].id
            yield page
            if len(page) < PAGE:
                return

    def wait(self, limit: timedelta) -> bool:
        """Wait until any process appends something, or until the limit.

        Returns:
            Whether there is something to read.
        """
        return self._store.wait(after=self.position, limit=limit)

    def _page(self) -> Sequence[LedgerNotification]:
        return select(self._recorder, self.position, PAGE)


def select(
    recorder: ApplicationRecorder,
    after: int,
    limit: int,
    *,
    stop: int | None = None,
    topics: Sequence[str] = (),
) -> Sequence[LedgerNotification]:
    """Return a page of the ledger after a position.

    Args:
        recorder: The ledger as a recorder of the library.
        after: Start after this position.
        limit: The most events.
        stop: End with this position; None for the end of the ledger.
        topics: Only events of these topics; all when empty.

    Raises:
        StoreFailure: The ledger could not be read.
    """
    try:
        found = recorder.select_notifications(
            start=after, limit=limit, stop=stop, topics=topics, inclusive_of_start=False
        )
    except PersistenceError as error:
        # Our callers do not know the library's errors. The message is the store's own.
        error_class = (
            StoreUnavailable if isinstance(error.__cause__, StoreUnavailable) else StoreFailure
        )
        raise error_class(str(error)) from error
    # Every recorder of a ledger returns `LedgerNotification`s.
    return cast(Sequence[LedgerNotification], found)
