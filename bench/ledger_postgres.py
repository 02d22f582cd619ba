"""What the bench of the ledger compares on PostgreSQL: a server of its own, and the other two."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from uuid import uuid4

import psycopg
from eventsourcing.postgres import PostgresApplicationRecorder, PostgresDatastore
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict
from tests.postgres import start_postgres

from watchkeeper import clock

START_LIMIT = timedelta(seconds=10)

_APPEND = """INSERT INTO events (stream, version, topic, state, hash)
SELECT 1, u.version, 1, u.state, decode(repeat('00', 32), 'hex')
FROM unnest(%b::bigint[], %b::bytea[]) AS u (version, state)"""


@contextmanager
def server_of_ours(*, fsync: bool) -> Generator[str, None, None]:
    """Start an empty server for the length of a block; give its URL.

    Args:
        fsync: A commit is on the disk when it returns; without, only the server's own work counts.
    """
    server = start_postgres()
    try:
        if not fsync:
            server.execute("ALTER SYSTEM SET fsync = off")
            server.execute("SELECT pg_reload_conf()")
            clock.ExponentialBackoff().wait_until_or_raise(
                lambda: settings_of(server.url)["fsync"] == "off", START_LIMIT, "fsync"
            )
        yield server.url
    finally:
        server.remove()


def settings_of(url: str) -> dict[str, str]:
    """Return what decides how durable a commit is, and how fast."""
    names = ("server_version", "fsync", "synchronous_commit", "full_page_writes", "shared_buffers")
    with psycopg.connect(bare(url)) as connection:
        found: dict[str, str] = {}
        for name in names:
            row = connection.execute("SELECT current_setting(%s)", (name,)).fetchone()
            assert row is not None
            found[name] = str(row[0])
        return {**found, "psycopg": f"{psycopg.__version__} {psycopg.pq.__impl__}"}


def bare(url: str) -> str:
    """Return a URL without the schema of a ledger."""
    return url.partition("#")[0]


def new_schema(url: str) -> str:
    """Make an empty schema; return its name."""
    name = f"bench_{uuid4().hex}"
    with psycopg.connect(bare(url), autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(name)))
    return name


def size_of(url: str, schema: str) -> int:
    """Return the bytes of a schema's tables and indexes, once they are as they stay."""
    with psycopg.connect(bare(url), autocommit=True) as connection:
        row = connection.execute(
            "SELECT sum(pg_total_relation_size(c.oid)) FROM pg_class AS c "
            "JOIN pg_namespace AS n ON n.oid = c.relnamespace "
            "WHERE n.nspname = %s AND c.relkind = 'r'",
            (schema,),
        ).fetchone()
        assert row is not None
        return int(row[0])


class RawPostgres:
    """The bare driver: the same bytes in the same columns, as durable, in one round trip."""

    def __init__(self, url: str) -> None:
        """Create an empty table."""
        schema = new_schema(url)
        self.connection = psycopg.connect(bare(url), autocommit=True)
        self.connection.execute(sql.SQL("SET search_path = {}").format(sql.Identifier(schema)))
        self.connection.execute(
            "CREATE TABLE events (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, "
            "stream bigint NOT NULL, version bigint NOT NULL, topic bigint NOT NULL, "
            "state bytea NOT NULL, hash bytea NOT NULL, UNIQUE (stream, version))"
        )
        self.cursor = self.connection.cursor(binary=True)
        self.version = 0

    def append(self, states: Sequence[bytes]) -> None:
        """Append in one transaction."""
        versions = list(range(self.version + 1, self.version + len(states) + 1))
        self.cursor.execute(_APPEND, (versions, list(states)), prepare=True)
        self.version += len(states)

    def close(self) -> None:
        """Close its connection."""
        self.connection.close()


def library_recorder(url: str) -> PostgresApplicationRecorder:
    """Return the library's own recorder on empty tables, with the defaults of its factory."""
    given = {name: str(value) for name, value in conninfo_to_dict(bare(url)).items()}
    recorder = PostgresApplicationRecorder(
        PostgresDatastore(
            dbname=given["dbname"],
            host=given["host"],
            port=given["port"],
            user=given["user"],
            password=given.get("password", ""),
            schema=new_schema(url),
            pool_size=5,
            max_overflow=10,
        )
    )
    recorder.create_table()
    return recorder


def library_environment(url: str) -> dict[str, str]:
    """Return how the library is told of an empty schema."""
    given = {name: str(value) for name, value in conninfo_to_dict(bare(url)).items()}
    return {
        "PERSISTENCE_MODULE": "eventsourcing.postgres",
        "POSTGRES_DBNAME": given["dbname"],
        "POSTGRES_HOST": given["host"],
        "POSTGRES_PORT": given["port"],
        "POSTGRES_USER": given["user"],
        "POSTGRES_PASSWORD": given.get("password", ""),
        "POSTGRES_SCHEMA": new_schema(url),
    }
