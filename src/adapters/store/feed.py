"""Wakes readers that wait for new events, for both kinds of store."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import timedelta
from threading import Event, Lock, Thread

from watchkeeper.clock import Deadline

RECHECK = timedelta(seconds=1)
"""A waiting reader checks at least this often, in case a wake-up is lost."""


class Feed:
    """The listeners of one open store, and the thread that notices changes for them.

    Args:
        hear: Runs in the thread: calls `wake` after each change, until `closed`.
    """

    def __init__(self, hear: Callable[["Feed"], None]) -> None:
        """Start nothing: the thread begins with the first listener."""
        self._hear = hear
        self._lock = Lock()
        self._listeners: set[Event] = set()
        self._thread: Thread | None = None
        self._stop = Event()
        self.reconnected = 0
        """How often a listening connection was lost and opened again."""

    @property
    def closed(self) -> bool:
        """Whether the thread is to end."""
        return self._stop.is_set()

    def pause(self, wait: timedelta) -> bool:
        """Wait in the thread, no longer than until the feed is closed; say whether it is."""
        return self._stop.wait(wait.total_seconds())

    def listen(self, event: Event) -> None:
        """Set an event after each change of the store from now on."""
        with self._lock:
            self._listeners.add(event)
            if self._thread is None and not self.closed:
                # A daemon, so that a store left open does not keep the process from ending.
                self._thread = Thread(
                    target=self._hear, args=(self,), name="store-feed", daemon=True
                )
                self._thread.start()

    def unlisten(self, event: Event) -> None:
        """Leave an event alone from now on; fine when it was not listened with."""
        with self._lock:
            self._listeners.discard(event)

    @contextmanager
    def listening(self) -> Generator[Event, None, None]:
        """Yield an event that is set after each change, for the length of a block."""
        event = Event()
        self.listen(event)
        try:
            yield event
        finally:
            self.unlisten(event)

    def wait(self, is_there: Callable[[], bool], limit: timedelta) -> bool:
        """Wait until a look at the store finds something, or the limit."""
        deadline = Deadline.after(limit)
        with self.listening() as changed:
            while True:
                # Cleared before the check, so that a change during it is not missed.
                changed.clear()
                if is_there():
                    return True
                if deadline.expired():
                    return False
                woken = changed.wait(min(deadline.remaining(), RECHECK).total_seconds())
                if not woken and deadline.expired():
                    # A reader that waits again checks first: a second check costs
                    # a transaction.
                    return False

    def wake(self) -> None:
        """Set every listener's event."""
        with self._lock:
            listeners = tuple(self._listeners)
        for event in listeners:
            event.set()

    def close(self) -> None:
        """Stop the thread and wake all listeners, so that they see that the store is closed."""
        self._stop.set()
        with self._lock:
            thread = self._thread
        if thread is not None:
            thread.join()
        self.wake()
