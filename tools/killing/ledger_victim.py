"""The process that writes a ledger and its views until it kills itself at a named point."""

import json
import os
import random
import signal
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any
from unittest import mock

from watchkeeper.adapters.store.choosing import open_ledger
from watchkeeper.adapters.store.database import Database
from watchkeeper.adapters.store.postgres import Asked, PostgresStore, Told
from watchkeeper.adapters.store.postgres_append import APPEND_FUNCTION
from watchkeeper.adapters.views_file import ViewsFile
from watchkeeper.building import catch_up, rebuild
from watchkeeper.event_store import EventStore, Write
from watchkeeper.following import retry_all
from watchkeeper.projections.catalogue import PROJECTIONS
from watchkeeper.projections.kept import Projection, Row, Seen
from watchkeeper.status_building import rebuild_status
from watchkeeper.views import Build, Move

POINTS = tuple(
    f"{what}.{when}"
    for what in ("append", "page", "begin", "switch", "drop")
    for when in ("before", "open", "stored")
)
"""Before a transaction, within it before its commit, and right after its commit."""

STREAMS = ("run/a", "run/b", "host/a", "roots")


def _keys(seen: Seen) -> Sequence[str]:
    if seen.state.startswith(b"poison"):
        raise ValueError("poison")
    return (seen.stream, str(len(seen.state)))


def _sum(key: str, row: Row | None, seen: Seen) -> Row:
    del key
    before = row or {"events": 0, "positions": 0}
    return {"events": before["events"] + 1, "positions": before["positions"] + seen.position}


KNOWN = (*PROJECTIONS, Projection("sums", 1, _keys, _sum, "sums, for the kills"))


def answered_path(folder: Path) -> Path:
    """Return the record of answered appends, which shares nothing with the store."""
    return folder / "answered.jsonl"


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

    def passed(self, point: str) -> None:
        """Pass a point, perhaps for the last time."""
        if point != self.point:
            return
        self.left -= 1
        if self.left <= 0:
            os.kill(os.getpid(), signal.SIGKILL)


class KillingViews(ViewsFile):
    """The real views, with points around each transaction."""

    def __init__(self, path: Path, trigger: Trigger, *, plant: bool) -> None:
        """Open them; opening passes no point."""
        self._trigger: Trigger | None = None
        self._doing = "other"
        self._plant = plant
        super().__init__(path)
        self._trigger = trigger

    @contextmanager
    def _writing(self) -> Generator[Any, None, None]:
        if self._trigger is None:
            with super()._writing() as sql:
                yield sql
            return
        self._trigger.passed(f"{self._doing}.before")
        with super()._writing() as sql:
            yield sql
            self._trigger.passed(f"{self._doing}.open")
        self._trigger.passed(f"{self._doing}.stored")

    def move(self, build: Build, move: Move) -> Build | None:
        """See `ViewsFile.move`."""
        self._doing = "page"
        if self._plant:
            # Planted: the position first, and the rows in a transaction of their own.
            moved = super().move(build, Move(move.position, move.hash, {}, move.parked))
            if moved is None:
                return None
            return super().move(moved, Move(move.position, move.hash, move.rows, (), move.released))
        return super().move(build, move)

    def begin(self, name: str, version: int, *, begin: int, digest: bytes, target: int) -> Build:
        """See `ViewsFile.begin`."""
        self._doing = "begin"
        return super().begin(name, version, begin=begin, digest=digest, target=target)

    def switch(self, build: Build) -> bool:
        """See `ViewsFile.switch`."""
        self._doing = "switch"
        return super().switch(build)

    def drop(self, build: Build) -> None:
        """See `ViewsFile.drop`."""
        self._doing = "drop"
        super().drop(build)

    def take(self, build: Build, holder: str, until: datetime, now: datetime) -> bool:
        """See `ViewsFile.take`."""
        self._doing = "other"
        return super().take(build, holder, until, now)


def live(folder: Path, url: str, rng: random.Random, point: str, count: int, plant: bool) -> None:
    """Append, follow, rebuild and retry for ever; on a server where a URL names one."""
    trigger = Trigger(point, count)
    whole = Database.writing

    @contextmanager
    def writing(self: Database, doing: str) -> Generator[Any, None, None]:
        trigger.passed("append.before")
        with whole(self, doing) as connection:
            yield connection
            trigger.passed("append.open")
        trigger.passed("append.stored")

    on_server = PostgresStore.store

    def storing(self: PostgresStore, asked: Sequence[Asked]) -> list[Told]:
        trigger.passed("append.before")
        if point == "append.open":
            with (
                self.links.borrowed() as connection,
                connection.transaction(force_rollback=True),
                connection.cursor(binary=True) as cursor,
            ):
                # Carried out, and not committed; who lives on does it again, and commits.
                cursor.execute(APPEND_FUNCTION.call.encode(), self.parameters(asked))
                trigger.passed("append.open")
        told = on_server(self, asked)
        trigger.passed("append.stored")
        return told

    file = os.open(answered_path(folder), os.O_WRONLY | os.O_APPEND)
    with (
        mock.patch.object(Database, "writing", writing),
        mock.patch.object(PostgresStore, "store", storing),
        mock.patch("watchkeeper.following.PAGE", 20),
        mock.patch("watchkeeper.status_building.BATCH", 1),
        open_ledger(url, folder / "ledger.db", create=True) as opened,
        KillingViews(folder / "views.db", trigger, plant=plant) as views,
    ):
        store = opened.store
        while True:
            match rng.choices(("append", "follow", "rebuild", "status", "retry"), (8, 4, 1, 1, 1)):
                case ["append"]:
                    _append(store, rng, file)
                case ["follow"]:
                    catch_up(store, views, KNOWN)
                case ["rebuild"]:
                    rebuild(store, views, rng.choice(KNOWN), "victim")
                case ["status"]:
                    rebuild_status(store, views, "victim")
                case _:
                    retry_all(store, views, {one.title: one for one in KNOWN})


def _append(store: EventStore, rng: random.Random, file: int) -> None:
    """Append under a key that the next child would use again, were this one not stored."""
    stream = rng.choice(STREAMS)
    version, _ = store.head(stream)
    kinds = rng.choices(("", "poison "), (99, 1), k=5)
    states = [
        f"{kinds[n - 1]}{stream} {version + n} {'x' * rng.randint(0, 9)}"
        for n in range(1, rng.randint(2, 6))
    ]
    write = Write(stream, version, tuple(("run.noted.1", state.encode()) for state in states))
    answer = store.append([write], key=f"{stream} {version}")
    if answer.repeated:
        return
    first, last = answer.versions[stream]
    row = {"stream": stream, "first": first, "last": last, "states": states}
    os.write(file, f"\n{json.dumps(row)}\n".encode())
