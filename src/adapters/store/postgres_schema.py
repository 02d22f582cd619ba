"""Tables, triggers and functions of a PostgreSQL ledger, and their migrations.

Each ledger has its own schema, so that several fit into one database. Names in the statements carry
no schema: each connection has the ledger's as its only search path.
"""

import hashlib
from dataclasses import dataclass

import psycopg
from psycopg import sql

from watchkeeper.adapters.store.postgres_append import APPEND_FUNCTION
from watchkeeper.adapters.store.postgres_spare import reported_missing, spare
from watchkeeper.ports.event_store import StoreFailure

SERVER_MIN = 120000
"""PostgreSQL 12: the oldest that the statements were written for; `sha256()` came with 11."""

KEPT = ("migrations", "streams", "topics", "events", "keys")
"""Tables whose rows are never changed or deleted."""

_TABLES = (
    """CREATE TABLE migrations (
    version integer PRIMARY KEY,
    ran_at timestamptz NOT NULL DEFAULT clock_timestamp()
)""",
    """CREATE TABLE streams (
    id bigint PRIMARY KEY,
    name text COLLATE "C" NOT NULL UNIQUE
)""",
    """CREATE TABLE topics (
    id bigint PRIMARY KEY,
    name text COLLATE "C" NOT NULL UNIQUE
)""",
    """CREATE TABLE events (
    id bigint PRIMARY KEY CHECK (id > 0),
    stream bigint NOT NULL REFERENCES streams (id),
    version bigint NOT NULL,
    topic bigint NOT NULL REFERENCES topics (id),
    state bytea NOT NULL,
    hash bytea NOT NULL CHECK (octet_length(hash) = 32),
    UNIQUE (stream, version)
)""",
    """CREATE TABLE keys (
    key text COLLATE "C" PRIMARY KEY,
    digest bytea NOT NULL,
    answer text NOT NULL,
    position bigint NOT NULL
)""",
    """CREATE TABLE status (
    run text COLLATE "C" NOT NULL,
    part text COLLATE "C" NOT NULL,
    row text NOT NULL,
    PRIMARY KEY (run, part)
)""",
    # No sequence gives out positions: one that was rolled back would leave a gap, and a reader
    # could not distinguish it from an event that is still to come.
    """CREATE TABLE counter (
    position bigint NOT NULL CHECK (position >= 0),
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row)
)""",
    """CREATE TABLE tracking (
    follower text COLLATE "C" PRIMARY KEY,
    position bigint NOT NULL
)""",
    "INSERT INTO counter (position) VALUES (0)",
)

KEEP_FUNCTION = """
BEGIN
    RAISE EXCEPTION '%: what is recorded is never changed', TG_TABLE_NAME
        USING ERRCODE = 'restrict_violation';
END
"""

COUNTER_FUNCTION = """
BEGIN
    IF TG_OP = 'UPDATE' AND NEW.position > OLD.position THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'counter: positions only grow' USING ERRCODE = 'restrict_violation';
END
"""

TRIGGERS = {
    **{(table, f"{table}_kept"): "keep_rows" for table in KEPT},
    **{(table, f"{table}_kept_whole"): "keep_rows" for table in KEPT},
    ("counter", "counter_kept"): "keep_counting",
    ("counter", "counter_kept_whole"): "keep_counting",
}
"""Which function guards which table, by table and trigger."""

FUNCTIONS = {
    "keep_rows": KEEP_FUNCTION,
    "keep_counting": COUNTER_FUNCTION,
    "append_events": APPEND_FUNCTION.body,
}
"""Bodies as the server keeps them, compared by `verify`."""


_SAYS = "a ledger: set PERSISTENCE_MODULE=watchkeeper.eventsourcing"
"""The server cuts a name off after 63 bytes."""

REFUSALS = {
    f"es_insert_events_{kind}": f"""
BEGIN
    RAISE EXCEPTION 'this is {_SAYS}';
END
"""
    for kind in ("uuid", "text")
}
"""Bodies of functions under the names that the plain recorders of `eventsourcing` create when they
are opened. The server refuses to rename a function's parameter, and names the old one, which is the
sentence."""

REFUSALS_SINCE = 3
"""The first version of the schema that has these functions."""


def _refusals() -> list[str]:
    found: list[str] = []
    for name, body in REFUSALS.items():
        kind = name.removeprefix("es_insert_events_")
        row = f"stored_event_{kind}"
        found += [
            # A plain recorder may have been here before.
            f"""DO $wk$ BEGIN
    CREATE TYPE {row} AS (
        originator_id {kind}, originator_version bigint, topic text, state bytea
    );
EXCEPTION WHEN duplicate_object THEN NULL;
END $wk$""",
            f"DROP FUNCTION IF EXISTS {name}({row}[])",
            f'CREATE FUNCTION {name}("{_SAYS}" {row}[]) '
            f"RETURNS SETOF bigint LANGUAGE plpgsql AS $wk${body}$wk$",
        ]
    return found


def _guards() -> list[str]:
    found: list[str] = []
    for name, body in (("keep_rows", KEEP_FUNCTION), ("keep_counting", COUNTER_FUNCTION)):
        found.append(f"CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $wk${body}$wk$")
    for (table, trigger), function in TRIGGERS.items():
        whole = trigger.endswith("_whole")
        acts, each = ("TRUNCATE", "STATEMENT") if whole else ("UPDATE OR DELETE", "ROW")
        found.append(
            f"CREATE TRIGGER {trigger} BEFORE {acts} ON {table} "
            f"FOR EACH {each} EXECUTE FUNCTION {function}()"
        )
        # ALWAYS: also where a session calls itself a replica, which other triggers leave alone.
        found.append(f"ALTER TABLE {table} ENABLE ALWAYS TRIGGER {trigger}")
    return found


# An export takes keys page by page in this order; without, each page sorts all of them. A server is
# given 30 s for a statement, enough for some 20 million: with more, make it by hand before, which
# is why it may be there.
_KEYS_IN_ORDER = "CREATE INDEX IF NOT EXISTS keys_in_order ON keys (position, key)"

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (*_TABLES, *_guards(), APPEND_FUNCTION.statement),
    (_KEYS_IN_ORDER,),
    tuple(_refusals()),
)
"""The statements that lead from each schema version to the next. Never change one that ran.

A test holds them by their digest. The first holds the append function: one that is changed is put
in place by a migration of its own.
"""


@dataclass(frozen=True, slots=True)
class Marks:
    """Numbers and names that a schema's processes agree on.

    Attributes:
        append_lock: Advisory lock of those who append.
        migrate_lock: Advisory lock of those who migrate.
        use_lock: Advisory lock that each connection shares, and a restore has alone.
        channel: Where appends are announced. Channels belong to the whole database.
    """

    append_lock: int
    migrate_lock: int
    use_lock: int
    channel: str


def marks_of(schema: str) -> Marks:
    """Return the marks of a schema; two schemas of one database have different ones."""

    def number(what: str) -> int:
        digest = hashlib.sha256(f"watchkeeper {what} {schema}".encode()).digest()
        return int.from_bytes(digest[:8], "big", signed=True)

    return Marks(number("append"), number("migrate"), number("use"), f"watchkeeper_{schema}")


def schema_version(connection: psycopg.Connection[tuple[object, ...]]) -> int | None:
    """Return the version of the ledger's schema; None if there is no ledger."""
    row = connection.execute(
        "SELECT to_regclass(quote_ident(current_schema()) || '.migrations')"
    ).fetchone()
    if row is None or row[0] is None:
        return None
    found = connection.execute("SELECT max(version) FROM migrations").fetchone()
    version = found[0] if found is not None else None
    return version if isinstance(version, int) else 0


def prepare(
    connection: psycopg.Connection[tuple[object, ...]],
    schema: str,
    where: str,
    *,
    create: bool,
    migrate: bool = True,
) -> None:
    """Migrate a ledger to this code's schema, once, even if others start at the same time.

    Args:
        connection: In autocommit mode, with the schema as its search path.
        schema: The schema's name.
        where: The ledger, in words.
        create: Create a missing ledger.
        migrate: Migrate an older one to this code's schema; otherwise leave it unchanged.

    Raises:
        StoreFailure: It is missing, or belongs to a newer watchkeeper or to another program.
        psycopg.Error: The server refused.
    """
    _refuse_server(connection, where)
    version = schema_version(connection)
    _refuse_newer(version, where)
    if version == len(MIGRATIONS):
        return
    if version is None:
        _refuse_missing(connection, schema, where, create=create)
    elif not migrate:
        return
    # Creating a schema or a function twice at one moment fails with "tuple concurrently updated",
    # so everybody waits here and looks again.
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (marks_of(schema).migrate_lock,))
        if not _has_schema(connection, schema):
            connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(schema)))
        version = schema_version(connection)
        _refuse_newer(version, where)
        if version is None:
            _refuse_foreign(connection, schema, where)
        for number, statements in enumerate(MIGRATIONS, 1):
            if number <= (version or 0):
                continue
            for statement in statements:
                connection.execute(statement.encode())
            connection.execute("INSERT INTO migrations (version) VALUES (%s)", (number,))


def _refuse_missing(
    connection: psycopg.Connection[tuple[object, ...]], schema: str, where: str, *, create: bool
) -> None:
    barred = connection.execute(
        "SELECT current_user FROM pg_namespace "
        "WHERE nspname = %s AND NOT has_schema_privilege(oid, 'USAGE')",
        (schema,),
    ).fetchone()
    if barred is not None:
        raise StoreFailure(
            f"{where}: the role {barred[0]} may not use the schema {schema}. Nothing was "
            f'stored. As its owner run `GRANT USAGE ON SCHEMA "{schema}" TO '
            f'"{barred[0]}"`, and grant its rights on the tables, or name another role in '
            "the URL."
        )
    moved = reported_missing(spare(connection, schema), schema)
    if moved:
        # An empty one next to it would be taken for it.
        raise StoreFailure(f"{where}: no ledger. Nothing was stored. {moved}")
    if not create:
        raise StoreFailure(
            f"{where}: no ledger. Nothing was stored. If it existed before, restore a "
            "backup. Otherwise create one with `watchkeeper --store URL init`, or correct "
            "the database or the schema in the URL."
        )


def _has_schema(connection: psycopg.Connection[tuple[object, ...]], schema: str) -> bool:
    # `IF NOT EXISTS` asks for the right to create one even where it is there.
    return bool(
        connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", (schema,)).fetchone()
    )


def _refuse_server(connection: psycopg.Connection[tuple[object, ...]], where: str) -> None:
    if connection.info.server_version < SERVER_MIN:
        raise StoreFailure(
            f"{where}: PostgreSQL {connection.info.server_version // 10000} is too old, "
            f"{SERVER_MIN // 10000} or newer is needed. Nothing was stored. Upgrade the server."
        )
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise StoreFailure(
            f"{where}: the database's encoding is {encoding}, expected UTF8. Nothing was stored. "
            "Create one with `CREATE DATABASE ... ENCODING 'UTF8' TEMPLATE template0`."
        )


def _refuse_newer(version: int | None, where: str) -> None:
    if version is not None and version > len(MIGRATIONS):
        raise StoreFailure(
            f"{where}: this ledger was written by a newer watchkeeper (schema {version}, this one "
            f"knows {len(MIGRATIONS)}). Nothing was stored. Upgrade watchkeeper, then try again."
        )


def _refuse_foreign(
    connection: psycopg.Connection[tuple[object, ...]], schema: str, where: str
) -> None:
    row = connection.execute(
        "SELECT c.relname FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace "
        "WHERE n.nspname = %s ORDER BY 1 LIMIT 1",
        (schema,),
    ).fetchone()
    if row is not None:
        raise StoreFailure(
            f"{where}: the schema {schema} belongs to something else: it has {row[0]!r} and no "
            "ledger. Nothing was stored. Name another schema: end the URL with #name."
        )
