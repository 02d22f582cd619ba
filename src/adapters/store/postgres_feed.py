"""Hears of new events on PostgreSQL: at once, by NOTIFY."""

from datetime import timedelta

import psycopg
from psycopg import sql

from watchkeeper.adapters.store.feed import Feed
from watchkeeper.adapters.store.postgres_link import Links
from watchkeeper.clock import ExponentialBackoff
from watchkeeper.ports.event_store import StoreFailure

LOOK = timedelta(milliseconds=200)
"""How long closing may have to wait for the listening thread."""

CHECK_EVERY = 25
"""After so many looks without a word the ledger is looked at: the slow poll behind NOTIFY. It also
finds a connection that is dead and does not say so."""


def hear(links: Links, feed: Feed) -> None:
    """Wake the listeners after each change, by any process, until the feed is closed."""
    backoff = ExponentialBackoff()
    while not feed.closed:
        try:
            _listen(links, feed, backoff)
        except (psycopg.Error, StoreFailure):
            # The listeners wake, look for themselves and meet the fault in their own threads,
            # where it is raised. Until the connection is back they look by themselves.
            feed.reconnected += 1
            feed.wake()
            feed.pause(backoff.next_wait())


def _listen(links: Links, feed: Feed, backoff: ExponentialBackoff) -> None:
    connection = links.connect()
    try:
        channel = sql.Identifier(links.marks.channel)
        connection.execute(sql.SQL("LISTEN {}").format(channel))
        backoff.reset()
        # What was appended before is found by a look.
        feed.wake()
        silent, newest = 0, -1
        while not feed.closed:
            heard = list(connection.notifies(timeout=LOOK.total_seconds(), stop_after=1))
            silent = 0 if heard else silent + 1
            if heard:
                feed.wake()
            elif silent % CHECK_EVERY == 0:
                with links.cut_when_late(connection):
                    row = connection.execute("SELECT position FROM counter").fetchone()
                if row is not None and row[0] != newest:
                    newest = row[0]
                    feed.wake()
    finally:
        connection.close()
