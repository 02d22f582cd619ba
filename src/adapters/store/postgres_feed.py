"""Wakes whoever waits for new events on PostgreSQL: at once here, by NOTIFY elsewhere."""

from collections.abc import Generator
from contextlib import contextmanager
from datetime import timedelta
from threading import Event, Lock, Thread

import psycopg
from psycopg import sql

from watchkeeper.adapters.store.postgres_link import Links
from watchkeeper.clock import ExponentialBackoff
from watchkeeper.event_store import StoreFailure

LOOK = timedelta(milliseconds=200)
"""How long closing may have to wait for the listening thread."""

CHECK_EVERY = 25
"""After so many looks without a word the ledger is looked at: the slow poll behind NOTIFY. It also
finds a connection that is dead and does not say so."""


class Feed:
    """The listeners of one open store, and the thread with the connection that listens for them."""

    def __init__(self, links: Links) -> None:
        """Start nothing: the thread begins with the first listener."""
        self._links = links
        self._lock = Lock()
        self._listeners: set[Event] = set()
        self._thread: Thread | None = None
        self._stop = Event()
        self.reconnected = 0
        """How often the listening connection was lost and opened again."""

    def listen(self, event: Event) -> None:
        """Set an event after each change of the store from now on."""
        with self._lock:
            self._listeners.add(event)
            if self._thread is None and not self._stop.is_set():
                # A daemon, so that a store left open does not keep the process from ending.
                self._thread = Thread(target=self._run, name="store-feed", daemon=True)
                self._thread.start()

    def unlisten(self, event: Event) -> None:
        """Leave an event alone from now on; fine when it was not listened with."""
        with self._lock:
            self._listeners.discard(event)

    @contextmanager
    def listening(self) -> Generator[Event, None, None]:
        """Give an event that is set after each change, for the length of a block."""
        event = Event()
        self.listen(event)
        try:
            yield event
        finally:
            self.unlisten(event)

    def wake(self) -> None:
        """Set every listener's event."""
        with self._lock:
            listeners = tuple(self._listeners)
        for event in listeners:
            event.set()

    def close(self) -> None:
        """Stop the thread and wake everybody, so that they see that the store is closed."""
        self._stop.set()
        with self._lock:
            thread = self._thread
        if thread is not None:
            thread.join()
        self.wake()

    def _run(self) -> None:
        backoff = ExponentialBackoff()
        while not self._stop.is_set():
            try:
                self._listen(backoff)
            except (psycopg.Error, StoreFailure):
                # The listeners wake, look for themselves and meet the fault in their own threads,
                # where it is raised. Until the connection is back they look by themselves.
                self.reconnected += 1
                self.wake()
                self._stop.wait(backoff.next_wait().total_seconds())

    def _listen(self, backoff: ExponentialBackoff) -> None:
        connection = self._links.connect()
        try:
            channel = sql.Identifier(self._links.marks.channel)
            connection.execute(sql.SQL("LISTEN {}").format(channel))
            backoff.reset()
            # What was appended before is found by a look.
            self.wake()
            silent, newest = 0, -1
            while not self._stop.is_set():
                heard = list(connection.notifies(timeout=LOOK.total_seconds(), stop_after=1))
                silent = 0 if heard else silent + 1
                if heard:
                    self.wake()
                elif silent % CHECK_EVERY == 0:
                    with self._links.cut_when_late(connection):
                        row = connection.execute("SELECT position FROM counter").fetchone()
                    if row is not None and row[0] != newest:
                        newest = row[0]
                        self.wake()
        finally:
            connection.close()
