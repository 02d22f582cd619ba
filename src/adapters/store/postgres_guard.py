"""Closes connections to PostgreSQL that get no answer in time."""

import logging
import os
import socket
from collections.abc import Generator
from contextlib import contextmanager
from datetime import timedelta
from threading import Event, Lock, Thread
from typing import Any

import psycopg

from watchkeeper.clock import Deadline

Connection = psycopg.Connection[tuple[Any, ...]]

_CUT_EVERY = timedelta(milliseconds=250)
"""How often to check for connections that hang."""

_LOG = logging.getLogger(__name__)


class Guard:
    """Closes connections that get no answer in time, so that waiting callers get an error.

    A server has its own limits, but a stopped server or a broken network does not keep them.
    """

    def __init__(self) -> None:
        """Start nothing: the thread begins with the first connection."""
        self._lock = Lock()
        self._watched: dict[int, tuple[Deadline, Connection]] = {}
        self._thread: Thread | None = None
        self._stop = Event()

    @contextmanager
    def watching(self, connection: Connection, limit: timedelta) -> Generator[None, None, None]:
        """Cut a connection when the block takes longer than a limit."""
        mark = id(connection)
        with self._lock:
            self._watched[mark] = (Deadline.after(limit), connection)
            if self._thread is None:
                # A daemon, so that a store left open does not keep the process from ending.
                self._thread = Thread(target=self._run, name="store-guard", daemon=True)
                self._thread.start()
        try:
            yield
        finally:
            with self._lock:
                self._watched.pop(mark, None)

    def close(self) -> None:
        """Stop the thread; safe to call twice."""
        self._stop.set()
        with self._lock:
            thread = self._thread
        if thread is not None:
            thread.join()

    def _run(self) -> None:
        while not self._stop.wait(_CUT_EVERY.total_seconds()):
            with self._lock:
                late = [(mark, c) for mark, (due, c) in self._watched.items() if due.expired()]
                # Under the lock: a finished caller removes its connection before returning it.
                for mark, connection in late:
                    del self._watched[mark]
                    _cut(connection)


def _cut(connection: Connection) -> None:
    """Shut a connection's socket down; its own thread then meets the end of the stream."""
    try:
        with socket.socket(fileno=os.dup(connection.fileno())) as end:
            end.shutdown(socket.SHUT_RDWR)
    except (OSError, psycopg.Error) as error:
        _LOG.warning("a connection to PostgreSQL that hangs could not be cut: %s", error)
