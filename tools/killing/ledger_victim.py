"""Writes a ledger and its views until it kills itself at a named point."""

import json
import os
import random
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from killing.ledger_points import BETWEEN, HANDED, Trigger, append_points
from watchkeeper.adapters.store.choosing import open_ledger
from watchkeeper.adapters.views_file import ViewsFile
from watchkeeper.ports.event_store import EventStore, VersionConflict, Write
from watchkeeper.ports.views import Build, Move
from watchkeeper.projections.views.catalogue import PROJECTIONS
from watchkeeper.projections.views.view import Projection, Row, Seen
from watchkeeper.services.ledger.group_commit import Committer
from watchkeeper.services.ledger.status_rows import rebuild_status
from watchkeeper.services.views.rebuild import catch_up, rebuild

POINTS = (
    *(
        f"{what}.{when}"
        for what in ("append", "group", "page", "begin", "switch")
        for when in ("before", "open", "stored")
    ),
    BETWEEN,
    HANDED,
)
"""Before a transaction, within it before its commit, and right after its commit.

A group is the appends of several threads in one transaction. It is killed between two of them, too,
and when the lead was handed on and nobody but the leader could know what became of it.
"""

STREAMS = ("run/a", "run/b", "host/a", "roots")

NEVER = "never "
"""Begins what an append brings that must be refused, whatever stands beside it in its group."""


def _keys(seen: Seen) -> Sequence[str]:
    return (seen.stream, str(len(seen.state)))


def _sum(key: str, row: Row | None, seen: Seen) -> Row:
    del key
    before = row or {"events": 0, "positions": 0}
    return {"events": before["events"] + 1, "positions": before["positions"] + seen.position}


KNOWN = (*PROJECTIONS, Projection("sums", 1, _keys, _sum, "sums, for the kills"))


def answered_path(folder: Path) -> Path:
    """Return the record of answered appends, which shares nothing with the store."""
    return folder / "answered.jsonl"


ACTS = ("append", "group", "follow", "rebuild", "status")


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
            moved = super().move(build, Move(move.position, move.hash, {}))
            if moved is None:
                return None
            return super().move(moved, move)
        return super().move(build, move)

    def begin(self, name: str, version: int) -> Build:
        """See `ViewsFile.begin`."""
        self._doing = "begin"
        return super().begin(name, version)

    def switch(self, build: Build) -> bool:
        """See `ViewsFile.switch`."""
        self._doing = "switch"
        return super().switch(build)


def live(folder: Path, url: str, rng: random.Random, point: str, count: int, plant: bool) -> None:
    """Append, follow and rebuild for ever; on a server where a URL names one."""
    trigger = Trigger(point, count)
    file = os.open(answered_path(folder), os.O_WRONLY | os.O_APPEND)
    with (
        append_points(trigger, url),
        mock.patch("watchkeeper.services.views.catch_up.PAGE", 20),
        mock.patch("watchkeeper.services.ledger.status_rows.BATCH", 1),
        open_ledger(url, folder / "ledger.db", create=True) as opened,
        Committer(opened.store) as store,
        KillingViews(folder / "views.db", trigger, plant=plant) as views,
    ):
        while True:
            match rng.choices(ACTS, (6, 2, 4, 1, 1)):
                case ["append"]:
                    _append(store, file, _drawn(store, rng, rng.choice(STREAMS)))
                case ["group"]:
                    _append_together(store, file, rng)
                case ["follow"]:
                    catch_up(store, views, KNOWN)
                case ["rebuild"]:
                    rebuild(store, views, rng.choice(KNOWN))
                case _:
                    rebuild_status(store)


def _drawn(store: EventStore, rng: random.Random, stream: str) -> Write:
    version, _ = store.head(stream)
    states = [
        f"{stream} {version + n} {'x' * rng.randint(0, 9)}" for n in range(1, rng.randint(2, 6))
    ]
    return Write(stream, version, tuple(("run.noted.1", state.encode()) for state in states))


def _append(store: EventStore, file: int, write: Write) -> None:
    """Append under a key that the next child would use again, were this one not stored."""
    answer = store.append([write], key=f"{write.stream} {write.expected}")
    if answer.repeated:
        return
    first, last = answer.versions[write.stream]
    states = [state.decode() for _, state in write.events]
    row = {"stream": write.stream, "first": first, "last": last, "states": states}
    os.write(file, f"\n{json.dumps(row)}\n".encode())


def _append_together(store: EventStore, file: int, rng: random.Random) -> None:
    """Append by several threads at once; one of them on what was never true."""
    writes = [_drawn(store, rng, stream) for stream in STREAMS]
    stale = Write("run/a", 10**9, (("run.noted.1", NEVER.encode()),))

    def refused() -> None:
        try:
            store.append([stale])
        except VersionConflict:
            return
        raise AssertionError("an append was stored on a version that its stream never had")

    with ThreadPoolExecutor(len(writes) + 1) as pool:
        appending = [pool.submit(_append, store, file, write) for write in writes]
        appending.insert(2, pool.submit(refused))
        for one in appending:
            one.result()
