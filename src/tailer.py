"""Follows the whole ledger in pages, in commit order, for everything that reacts to it."""

from collections.abc import Iterator
from datetime import timedelta

from watchkeeper.ports import EventStore, Recorded

PAGE = 500
"""Events in a page: one read for many, and still small in memory."""


class Tailer:
    """A place in the ledger that moves on over every event, interesting or not.

    Args:
        store: The ledger's store.
        after: The position to begin behind; 0 catches up from the beginning.
    """

    def __init__(self, store: EventStore, after: int = 0) -> None:
        """Begin behind a position."""
        self._store = store
        self.position = after

    def pages(self) -> Iterator[list[Recorded]]:
        """Yield pages until the end of the ledger is reached; each moves the position on."""
        while True:
            page = self._store.read_all(after=self.position, limit=PAGE)
            if not page:
                return
            self.position = page[-1].position
            yield page

    def wait(self, limit: timedelta) -> bool:
        """Wait until any process appended something new, or the limit.

        Returns:
            Whether there is something to read.
        """
        return self._store.wait(after=self.position, limit=limit)
