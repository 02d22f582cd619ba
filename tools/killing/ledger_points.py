"""Named points around the appends of a ledger, at which the writer dies.

They are wrapped around the product, which holds no switch for it. An append that is alone in its
transaction passes `append.*`; a group, with the appends of several threads, passes `group.*`.
"""

import os
import signal
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from threading import Thread
from typing import Any
from unittest import mock

import psycopg

from watchkeeper.adapters.store import sqlite
from watchkeeper.adapters.store.database import Database
from watchkeeper.adapters.store.postgres import PostgresStore, Reported, SourceResult
from watchkeeper.adapters.store.postgres_address import parse_address
from watchkeeper.adapters.store.postgres_append import APPEND_FUNCTION
from watchkeeper.ports.event_store import Append, Appended, KeyReused, VersionConflict
from watchkeeper.services.ledger import group_commit

BETWEEN, HANDED = "group.between", "group.handed"

HELD = """SELECT count(*) FROM pg_locks
WHERE locktype = 'advisory' AND ((classid::bigint << 32) | objid::bigint) = %s
AND granted = %s AND pid <> pg_backend_pid()"""
"""How many hold an advisory lock, or wait for it."""


class Trigger:
    """Kills this process at the n-th passing of a point.

    Args:
        point: Which one; any other is passed.
        count: At which passing.
    """

    def __init__(self, point: str, count: int) -> None:
        """Begin with nothing passed."""
        self.point = point
        self.left = count

    def due(self, point: str) -> bool:
        """Pass a point; say whether it is for the last time."""
        if point != self.point:
            return False
        self.left -= 1
        return self.left <= 0

    def passed(self, point: str) -> None:
        """Pass a point, perhaps for the last time."""
        if self.due(point):
            os.kill(os.getpid(), signal.SIGKILL)


class _Group:
    """The transaction under way: how many appends it has, and how many of them are to come."""

    size = 1
    left = 0

    @property
    def name(self) -> str:
        return "group" if self.size > 1 else "append"


@contextmanager
def append_points(trigger: Trigger, url: str) -> Generator[None, None, None]:
    """Put the points around every append of this process, on either store.

    Args:
        trigger: Kills it at one of them.
        url: Of the server; empty for a file.
    """
    group = _Group()
    with ExitStack() as stack:
        for owner, name, wrapped in (
            *_on_file(trigger, group),
            (PostgresStore, "store", _on_server(trigger, group, url)),
            (group_commit.Committer, "_leave", _leaving(trigger, group)),
        ):
            stack.enter_context(mock.patch.object(owner, name, wrapped))
        yield


def _on_file(trigger: Trigger, group: _Group) -> list[tuple[object, str, object]]:
    whole, batch, one = (
        Database.writing,
        sqlite.SqliteStore.append_batch,
        sqlite.SqliteStore._append_one,  # pyright: ignore[reportPrivateUsage]
    )

    @contextmanager
    def writing(self: Database, doing: str) -> Generator[Any, None, None]:
        trigger.passed(f"{group.name}.before")
        with whole(self, doing) as connection:
            yield connection
            trigger.passed(f"{group.name}.open")
        trigger.passed(f"{group.name}.stored")

    def append_batch(
        self: sqlite.SqliteStore, appends: Sequence[Append]
    ) -> list[Appended | VersionConflict | KeyReused]:
        group.size = group.left = len(appends)
        return batch(self, appends)

    def append_one(self: sqlite.SqliteStore, *arguments: Any) -> Appended:
        group.left -= 1
        stored = one(self, *arguments)
        if group.left:
            trigger.passed(BETWEEN)
        return stored

    return [
        (Database, "writing", writing),
        (sqlite.SqliteStore, "append_batch", append_batch),
        (sqlite.SqliteStore, "_append_one", append_one),
    ]


def _on_server(trigger: Trigger, group: _Group, url: str) -> object:
    whole = PostgresStore.store

    def store(self: PostgresStore, asked: Sequence[SourceResult]) -> list[Reported]:
        group.size = len(asked)
        trigger.passed(f"{group.name}.before")
        if trigger.point == f"{group.name}.open":
            with (
                self.links.borrowed() as connection,
                connection.transaction(force_rollback=True),
                connection.cursor(binary=True) as cursor,
            ):
                # Carried out, and not committed; who lives on does it again, and commits.
                cursor.execute(APPEND_FUNCTION.call.encode(), self.parameters(asked))
                trigger.passed(f"{group.name}.open")
        if group.size > 1 and trigger.due(BETWEEN):
            _die_while_the_server_has_it(url, self.links.marks.append_lock)
        reported = whole(self, asked)
        trigger.passed(f"{group.name}.stored")
        return reported

    return store


def _die_while_the_server_has_it(url: str, lock: int) -> None:
    """Let the next append wait on the server, and die then: it is carried out after the death.

    On a server a group is one call, with nothing between two of its appends that a client could die
    at. What a client can leave there is a call whose answer nobody takes.
    """
    holder = psycopg.connect(parse_address(url).url, autocommit=True)
    holder.execute("SELECT pg_advisory_lock(%s)", (lock,))

    def die() -> None:
        while holder.execute(HELD, (lock, False)).fetchone() == (0,):
            pass
        os.kill(os.getpid(), signal.SIGKILL)

    Thread(target=die, daemon=True).start()


def _leaving(trigger: Trigger, group: _Group) -> object:
    whole = group_commit.Committer._leave  # pyright: ignore[reportPrivateUsage]

    def leave(self: group_commit.Committer, mine: Any) -> None:
        was_group = mine.leads and group.size > 1
        whole(self, mine)
        if was_group:
            trigger.passed(HANDED)

    return leave
