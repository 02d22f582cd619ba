"""Tables of the store, its connection settings, and the accepted files.

One process that owns the store alone (`lock`) migrates it to a later schema, so that no older
process ever writes into it.
"""

import sqlite3
from datetime import timedelta
from pathlib import Path

from watchkeeper.adapters.store.failures import SQLITE_ERRORS, failures_named
from watchkeeper.ports.event_store import StoreFailure

APPLICATION_ID = 0x776B7072
"""`wkpr` in ASCII, in the header of the file: `file` and SQLite can identify it by this."""

SCHEMA_VERSION = 1

BUSY_LIMIT = timedelta(seconds=10)
"""How long to wait for another process's write; one takes milliseconds."""

SQLITE_MIN = (3, 37, 0)
"""The first SQLite with STRICT tables."""

_TABLES = (
    """CREATE TABLE meta (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID""",
    """CREATE TABLE streams (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE
) STRICT""",
    """CREATE TABLE topics (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE
) STRICT""",
    # AUTOINCREMENT: a position is never reused, even if the newest rows are removed.
    """CREATE TABLE events (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    stream INTEGER NOT NULL REFERENCES streams (id),
    version INTEGER NOT NULL,
    topic INTEGER NOT NULL REFERENCES topics (id),
    state BLOB NOT NULL,
    hash BLOB NOT NULL CHECK (length(hash) = 32),
    UNIQUE (stream, version)
) STRICT""",
    """CREATE TABLE keys (
    key TEXT PRIMARY KEY,
    digest BLOB NOT NULL,
    answer TEXT NOT NULL,
    position INTEGER NOT NULL
) STRICT, WITHOUT ROWID""",
    """CREATE TABLE status (
    run TEXT NOT NULL,
    part TEXT NOT NULL,
    row TEXT NOT NULL,
    PRIMARY KEY (run, part)
) STRICT, WITHOUT ROWID""",
)

_SAYS = "this is a ledger of watchkeeper: open it with PERSISTENCE_MODULE=watchkeeper.eventsourcing"

REFUSALS = {
    ("view", name): f'CREATE VIEW {name} AS SELECT * FROM "{_SAYS}"'
    for name in ("stored_events", "stored_snapshots", "tracking")
}
"""Views of a table that never exists, under the names that the plain recorders of `eventsourcing`
use. SQLite answers each read and each write of them with the sentence. A migration that renames a
table or a column drops them before, and creates them again."""

OLD_REFUSAL = {("index", "stored_events"): "CREATE INDEX stored_events ON meta (name) WHERE 0"}
"""What older files have in place of the views."""

_KEPT = ("meta", "streams", "topics", "events", "keys")
"""Tables whose rows are never changed or deleted; status rows are replaced."""


def connect(
    path: Path, *, parameters: str = "mode=rw", busy_limit: timedelta = BUSY_LIMIT
) -> sqlite3.Connection:
    """Open a connection in autocommit mode that any one thread at a time may use.

    Args:
        path: The store.
        parameters: Of the SQLite URI, such as `mode=ro` or `immutable=1`.
        busy_limit: How long a statement waits for other processes.

    Raises:
        sqlite3.Error: It could not be opened.
    """
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?{parameters}",
        uri=True,
        timeout=busy_limit.total_seconds(),
        isolation_level=None,
        check_same_thread=False,
    )
    try:
        # FULL: a commit is on the disk when it returns. Recursive triggers: INSERT OR REPLACE
        # would otherwise delete rows without asking the triggers.
        for pragma in (
            "synchronous = FULL",
            "foreign_keys = ON",
            "recursive_triggers = ON",
            "trusted_schema = OFF",
        ):
            connection.execute(f"PRAGMA {pragma}")
    except SQLITE_ERRORS:
        connection.close()
        raise
    return connection


def create(connection: sqlite3.Connection) -> None:
    """Create all tables and triggers in a blank file, in one transaction."""
    connection.execute("BEGIN IMMEDIATE")
    for table in _TABLES:
        connection.execute(table)
    for table in _KEPT:
        for act in ("UPDATE", "DELETE"):
            connection.execute(
                f"CREATE TRIGGER {table}_no_{act.lower()} BEFORE {act} ON {table} BEGIN "
                f"SELECT raise(ABORT, '{table}: what is recorded is never changed'); END"
            )
    refuse_other_recorders(connection)
    connection.execute("INSERT INTO meta VALUES ('schema', ?)", (str(SCHEMA_VERSION),))
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute("COMMIT")


def refuse_other_recorders(connection: sqlite3.Connection) -> None:
    """Make the file refuse the plain recorders of `eventsourcing`; older files lack this."""
    objects = schema_objects(connection)
    if objects.keys() & OLD_REFUSAL.keys():
        connection.execute("DROP INDEX stored_events")
    for place, statement in REFUSALS.items():
        if place not in objects:
            connection.execute(statement)


def schema_objects(connection: sqlite3.Connection) -> dict[tuple[str, str], str | None]:
    """Return the SQL of every table, index and trigger, by type and name."""
    rows = connection.execute("SELECT type, name, sql FROM sqlite_master")
    return {(kind, name): sql for kind, name, sql in rows}


def expected_objects() -> dict[tuple[str, str], str | None]:
    """Return the result of `schema_objects` for an intact store."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    try:
        create(connection)
        return schema_objects(connection)
    finally:
        connection.close()


def is_ready(path: Path, *, busy_limit: timedelta) -> bool:
    """Return whether a file needs no preparing: not blank and, if ours, in WAL mode.

    Raises:
        sqlite3.Error: It is no SQLite file, or could not be opened.
    """
    if not path.exists() or path.stat().st_size == 0:
        return False
    connection = connect(path, busy_limit=busy_limit)
    try:
        application, mode = _application_id(connection), _journal_mode(connection)
        blank = application == 0 and not schema_objects(connection)
        return not blank and (application != APPLICATION_ID or mode == "wal")
    finally:
        connection.close()


def prepare(path: Path, *, busy_limit: timedelta) -> None:
    """Create the store, or take one that came from a backup into WAL mode.

    The caller owns the store alone. A crash leaves a blank file or one that is not in WAL mode,
    and the next process prepares it again.

    Raises:
        sqlite3.Error: It could not be written.
    """
    connection = connect(path, parameters="mode=rwc", busy_limit=busy_limit)
    try:
        if not schema_objects(connection):
            create(connection)
        connection.execute("PRAGMA journal_mode = WAL")
    finally:
        connection.close()


def check_schema(connection: sqlite3.Connection, path: Path) -> None:
    """Refuse a file of another program or of a newer watchkeeper.

    Raises:
        StoreFailure: It can't be used; the message says what to do.
    """
    with failures_named(path, "open"):
        application = _application_id(connection)
        if application != APPLICATION_ID:
            raise StoreFailure(
                f"{path}: this is an SQLite file of another program (application id "
                f"{application:#x}, expected {APPLICATION_ID:#x}). Nothing was stored. "
                "Choose another file for the store."
            )
        row = connection.execute("SELECT value FROM meta WHERE name = 'schema'").fetchone()
    version = row[0] if row is not None else "none"
    if version == str(SCHEMA_VERSION):
        return
    if version.isdecimal() and int(version) > SCHEMA_VERSION:
        raise StoreFailure(
            f"{path}: this store was written by a newer watchkeeper (schema {version}, this one "
            f"knows {SCHEMA_VERSION}). Nothing was stored. Upgrade watchkeeper, then try again."
        )
    raise StoreFailure(
        f"{path}: schema version {version!r} is unknown, expected {SCHEMA_VERSION}. Nothing was "
        "stored. The file is damaged: run `watchkeeper verify`, and restore it from a backup."
    )


def _application_id(connection: sqlite3.Connection) -> int:
    application: int = connection.execute("PRAGMA application_id").fetchone()[0]
    return application


def _journal_mode(connection: sqlite3.Connection) -> str:
    mode: str = connection.execute("PRAGMA journal_mode").fetchone()[0]
    return mode
