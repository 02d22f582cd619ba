"""Hears of new events in a file: by a poll, so cheap that it is no burden."""

import sqlite3
from collections.abc import Callable
from datetime import timedelta

from watchkeeper.adapters.store.failures import SQLITE_ERRORS
from watchkeeper.adapters.store.feed import Feed

POLL = timedelta(milliseconds=50)
"""Period of the poll. One costs some 4 µs: 0.01 % of a core. A wake-up takes 25 ms on average."""


def poll(connect: Callable[[], sqlite3.Connection], feed: Feed) -> None:
    """Wake the listeners after each change, by any process, until the feed is closed.

    Args:
        connect: Opens a connection of the feed's own; may raise `sqlite3.Error`.
        feed: Who listens.
    """
    while not feed.closed:
        try:
            _watch(connect, feed)
        except SQLITE_ERRORS:
            # The listeners wake, look for themselves and meet the fault in their own
            # threads, where it is raised. Until it is gone they poll, woken from here.
            feed.wake()
            feed.pause(POLL)


def _watch(connect: Callable[[], sqlite3.Connection], feed: Feed) -> None:
    connection = connect()
    try:
        seen = None
        while not feed.pause(POLL):
            version = connection.execute("PRAGMA data_version").fetchone()[0]
            if version != seen:
                seen = version
                feed.wake()
    finally:
        connection.close()
