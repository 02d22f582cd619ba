"""Kept views in one SQLite file of the home, `views.db`, for any ledger store.

All of it can be rebuilt from the ledger, so it is written with `synchronous = NORMAL`. After a
power failure the newest pages may be missing, and are folded again.
"""

import sqlite3
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from threading import RLock
from typing import Any, Self

from watchkeeper import clock
from watchkeeper.ports.views import Beat, Build, BuildState, Move, Snapshot, ViewsFailure

FILE = "views.db"
SCHEMA_VERSION = 2
BUSY_S = 10.0
_KEYS_MAX = 5000
"""Keys in one statement; SQLite takes some 32,000."""

_BUILD = "id, name, version, state, position, hash, revision, moved_at, error"

_TABLES = (
    f"""CREATE TABLE builds (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL,
    version INTEGER NOT NULL,
    state TEXT NOT NULL CHECK (state IN ({", ".join(f"'{s.value}'" for s in BuildState)})),
    position INTEGER NOT NULL,
    hash BLOB NOT NULL,
    revision INTEGER NOT NULL,
    moved_at TEXT NOT NULL,
    error TEXT NOT NULL
) STRICT""",
    "CREATE UNIQUE INDEX one_live ON builds (name) WHERE state = 'live'",
    "CREATE UNIQUE INDEX one_building ON builds (name) WHERE state = 'building'",
    """CREATE TABLE rows (
    build INTEGER NOT NULL,
    key TEXT NOT NULL,
    row TEXT NOT NULL,
    PRIMARY KEY (build, key)
) STRICT, WITHOUT ROWID""",
    """CREATE TABLE beats (
    holder TEXT PRIMARY KEY,
    at TEXT NOT NULL,
    error TEXT NOT NULL
) STRICT, WITHOUT ROWID""",
)


class ViewsFile:
    """See `watchkeeper.ports.views.Views` for the contract. Any thread may call any method."""

    def __init__(self, path: Path) -> None:
        """Open the views in a file; create it if it is missing.

        Raises:
            ViewsFailure: It could not be opened; the message says what to do.
        """
        self.path = path
        self._lock = RLock()
        self._closed = False
        with self._named("opened"):
            self._connection = sqlite3.connect(
                path, timeout=BUSY_S, isolation_level=None, check_same_thread=False
            )
            try:
                self._prepare()
            except BaseException:
                self._connection.close()
                raise

    def __enter__(self) -> Self:
        """Use the views for the length of a block."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close the views."""
        self.close()

    def builds(self) -> list[Build]:
        """Return all builds, by name, then by start."""
        rows = self._all(f"SELECT {_BUILD} FROM builds ORDER BY name, id")
        return [_build(row) for row in rows]

    def begin(self, name: str, version: int) -> Build:
        """Begin a build, or continue the build of this name that is in progress."""
        with self._writing() as sql:
            row = sql.execute(
                f"SELECT {_BUILD} FROM builds WHERE name = ? AND state = 'building'", (name,)
            ).fetchone()
            if row is not None:
                build = _build(row)
                if build.version == version:
                    return build
                _drop(sql, build.id)
            sql.execute(
                "INSERT INTO builds (name, version, state, position, hash, revision, moved_at,"
                " error) VALUES (?, ?, 'building', 0, x'', 0, ?, '')",
                (name, version, clock.now().isoformat()),
            )
            row = sql.execute(
                f"SELECT {_BUILD} FROM builds WHERE name = ? AND state = 'building'", (name,)
            ).fetchone()
        return _build(row)

    def rows(self, build: Build, keys: Sequence[str] | None = None) -> dict[str, str]:
        """Return rows of a build by key; all of them when no keys are named."""
        if keys is None:
            return dict(self._all("SELECT key, row FROM rows WHERE build = ?", build.id))
        found: dict[str, str] = {}
        for first in range(0, len(keys), _KEYS_MAX):
            some = keys[first : first + _KEYS_MAX]
            marks = ",".join("?" * len(some))
            asked = f"SELECT key, row FROM rows WHERE build = ? AND key IN ({marks})"
            found |= dict(self._all(asked, build.id, *some))
        return found

    def move(self, build: Build, move: Move) -> Build | None:
        """Store a build after a page, in one transaction; None if the build changed meanwhile."""
        with self._writing() as sql:
            done = sql.execute(
                "UPDATE builds SET position = ?, hash = ?, revision = revision + 1, moved_at = ?,"
                " error = '' WHERE id = ? AND revision = ?",
                (move.position, move.hash, clock.now().isoformat(), build.id, build.revision),
            )
            if done.rowcount != 1:
                return None
            sql.executemany(
                "INSERT INTO rows VALUES (?, ?, ?)"
                " ON CONFLICT (build, key) DO UPDATE SET row = excluded.row",
                [(build.id, key, row) for key, row in move.rows.items()],
            )
            row = sql.execute(f"SELECT {_BUILD} FROM builds WHERE id = ?", (build.id,)).fetchone()
        return _build(row)

    def halt(self, build: Build, error: str) -> None:
        """Record why a build cannot continue; an empty text lets it continue."""
        with self._writing() as sql:
            sql.execute("UPDATE builds SET error = ? WHERE id = ?", (error, build.id))

    def switch(self, build: Build) -> bool:
        """Replace the live build by this one in one transaction; False if this one is behind."""
        with self._writing() as sql:
            row = sql.execute(
                "SELECT position, state FROM builds WHERE id = ?", (build.id,)
            ).fetchone()
            live = sql.execute(
                "SELECT id, position, error FROM builds WHERE name = ? AND state = 'live'",
                (build.name,),
            ).fetchone()
            if row is None or row[1] != BuildState.BUILDING:
                return False
            # A halted live build, such as one ahead of the ledger, never grows level.
            if live is not None and not live[2] and row[0] < live[1]:
                return False
            if live is not None:
                _drop(sql, live[0])
            sql.execute(
                "UPDATE builds SET state = 'live', revision = revision + 1 WHERE id = ?",
                (build.id,),
            )
        return True

    def drop(self, build: Build) -> None:
        """Remove a build with its rows; no error if it is missing."""
        with self._writing() as sql:
            _drop(sql, build.id)

    def beat(self, beat: Beat) -> None:
        """Record a heartbeat."""
        with self._writing() as sql:
            sql.execute(
                "INSERT OR REPLACE INTO beats VALUES (?, ?, ?)",
                (beat.holder, beat.at.isoformat(), beat.error),
            )

    def beats(self) -> list[Beat]:
        """Return the newest heartbeat of each process, oldest first."""
        rows = self._all("SELECT holder, at, error FROM beats ORDER BY at")
        return [Beat(holder, datetime.fromisoformat(at), error) for holder, at, error in rows]

    def left(self, holder: str) -> None:
        """Forget a process that ended normally."""
        with self._writing() as sql:
            sql.execute("DELETE FROM beats WHERE holder = ?", (holder,))

    def close(self) -> None:
        """Release the views; safe to call twice."""
        with self._lock:
            self._closed = True
            self._connection.close()

    def _prepare(self) -> None:
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = NORMAL")
        with self._writing() as sql:
            found = sql.execute("PRAGMA user_version").fetchone()[0]
            if found == SCHEMA_VERSION:
                return
            if found > SCHEMA_VERSION:
                raise ViewsFailure(
                    f"{self.path} was written by a newer watchkeeper: upgrade this one; or "
                    "stop all watches and remove the file, and the views are rebuilt"
                )
            if found:
                for table in ("builds", "rows", "parked", "beats"):
                    sql.execute(f"DROP TABLE IF EXISTS {table}")
            for table in _TABLES:
                sql.execute(table)
            sql.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")

    def _all(self, asked: str, *values: Any) -> list[tuple[Any, ...]]:
        with self._lock, self._named("read"):
            return self._connection.execute(asked, values).fetchall()

    @contextmanager
    def _writing(self) -> Generator[sqlite3.Connection, None, None]:
        with self._lock, self._named("written"):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    @contextmanager
    def _named(self, what: str) -> Generator[None, None, None]:
        """Turn SQLite's errors into a sentence that says what to do."""
        if self._closed:
            raise ViewsFailure(f"{self.path}: it is closed")
        with _named(self.path, what):
            yield


def glance(path: Path) -> tuple[list[Build], list[Beat]] | None:
    """Read builds and heartbeats without changing a file; None if no file exists.

    Raises:
        ViewsFailure: They cannot be read.
    """
    if not path.exists():
        return None
    with _named(path, "read"), _looking(path) as connection:
        if connection.execute("PRAGMA user_version").fetchone()[0] < SCHEMA_VERSION:
            return None  # An earlier release wrote it; the next watch builds the views again.
        builds = connection.execute(f"SELECT {_BUILD} FROM builds ORDER BY name, id")
        beats = connection.execute("SELECT holder, at, error FROM beats ORDER BY at")
        return (
            [_build(row) for row in builds],
            [Beat(holder, datetime.fromisoformat(at), error) for holder, at, error in beats],
        )


@contextmanager
def snapshots(path: Path) -> Generator[list[Snapshot], None, None]:
    """Yield all live builds for a block, in one snapshot, without changing a file.

    Rows are read as they are asked for, within the block.

    Raises:
        ViewsFailure: They cannot be read.
    """
    if not path.exists():
        yield []
        return
    with ExitStack() as stack:
        with _named(path, "read"):
            sql = stack.enter_context(_looking(path))
            # A watch may move them meanwhile: rows belong to the position that they were read with.
            sql.execute("BEGIN")
            asked = f"SELECT {_BUILD} FROM builds WHERE state = 'live' ORDER BY name"
            found = [
                Snapshot(build, partial(_rows, sql, path, build.id))
                for build in map(_build, sql.execute(asked).fetchall())
            ]
        yield found


def _rows(sql: sqlite3.Connection, path: Path, build: int) -> Iterator[tuple[str, str]]:
    with _named(path, "read"):
        yield from sql.execute("SELECT key, row FROM rows WHERE build = ? ORDER BY key", (build,))


def _looking(path: Path) -> closing[sqlite3.Connection]:
    uri = f"{path.absolute().as_uri()}?mode=ro"
    return closing(sqlite3.connect(uri, uri=True, timeout=BUSY_S))


@contextmanager
def _named(path: Path, what: str) -> Generator[None, None, None]:
    try:
        yield
    except (sqlite3.Error, ValueError) as error:
        raise ViewsFailure(
            f"{path} could not be {what}: {error}. Views can be rebuilt from the ledger: "
            "check the disk; or stop all watches, remove the file, and restart"
        ) from error


def _build(row: Sequence[Any]) -> Build:
    return Build(
        id=row[0],
        name=row[1],
        version=row[2],
        state=BuildState(row[3]),
        position=row[4],
        hash=row[5],
        revision=row[6],
        moved_at=datetime.fromisoformat(row[7]),
        error=row[8],
    )


def _drop(sql: sqlite3.Connection, build: int) -> None:
    sql.execute("DELETE FROM rows WHERE build = ?", (build,))
    sql.execute("DELETE FROM builds WHERE id = ?", (build,))
