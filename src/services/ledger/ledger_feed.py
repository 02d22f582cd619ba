"""Follows the whole ledger in pages, in commit order, for everything that reacts to it."""

from collections.abc import Iterator, Sequence
from datetime import timedelta

from eventsourcing.persistence import ApplicationRecorder, Notification, PersistenceError

from watchkeeper.ports.event_store import EventStore, StoreAway, StoreFailure

PAGE = 500
"""Events in a page: one read for many, and still small in memory."""


class Tailer:
    """A place in the ledger that moves on over every event, interesting or not.

    It reads through the `eventsourcing` library's own interface, so that whatever feeds on that
    library's recorders sees the ledger as the watch does.

    Args:
        recorder: The ledger, as the library knows it.
        store: The ledger, for waiting.
        after: The position to begin behind; 0 catches up from the beginning.
    """

    def __init__(self, recorder: ApplicationRecorder, store: EventStore, after: int = 0) -> None:
        """Begin behind a position."""
        self._recorder = recorder
        self._store = store
        self.position = after

    def pages(self) -> Iterator[Sequence[Notification]]:
        """Yield pages until the end of the ledger is reached; each moves the position on.

        A page that is not full is the last: what came since then ends the next `wait` at once.

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
        """Wait until any process appended something new, or the limit.

        Returns:
            Whether there is something to read.
        """
        return self._store.wait(after=self.position, limit=limit)

    def _page(self) -> Sequence[Notification]:
        try:
            return self._recorder.select_notifications(
                start=self.position, limit=PAGE, inclusive_of_start=False
            )
        except PersistenceError as error:
            # The library's errors say nothing to the rest of us; the sentence is the store's own.
            kind = StoreAway if isinstance(error.__cause__, StoreAway) else StoreFailure
            raise kind(str(error)) from error
