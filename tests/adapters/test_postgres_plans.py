"""How PostgreSQL carries out the store's reads, and what leads an older schema to this one."""

# pyright: reportPrivateUsage=false
# The plans asked about are those of the very queries that the store sends.

import hashlib
import itertools
import json
from collections.abc import Iterator
from typing import Any, LiteralString

import psycopg
import pytest

from tests.postgres import PostgresServer
from watchkeeper.adapters.store import postgres, postgres_pages, postgres_recorder, postgres_schema
from watchkeeper.adapters.store.postgres import PostgresStore, open_postgres
from watchkeeper.adapters.store.postgres_address import parse_address
from watchkeeper.adapters.store.postgres_rows import read_rows
from watchkeeper.adapters.store.postgres_verify import verify_postgres
from watchkeeper.ports.event_store import Write

pytestmark = pytest.mark.postgres

PAGE = 50
LONG = 4_000
"""Events of the long stream; a plan that looks at more than a page looks at many more."""

TABLES = ("events", "keys", "streams", "topics")

DIGESTS = (
    "3eb3a22e1341a779f2433d9810a5cf83babf6f61cffc8318bc2d1b9eeda1de7d",
    "92cd9cfcc8adb00b64d34f4609c69c444ba73e60e5fe67c2da7e8b8e9cff1041",
    "7bd87018718151414a8c7954a51f3257a965f72a9340444f76f38faed6221332",
)
"""SHA-256 of each migration's statements: one that ran somewhere is never changed."""

READS: dict[str, tuple[LiteralString, tuple[object, ...]]] = {
    "a page of a stream": (postgres_pages._READ, ("run/long", 1000, PAGE)),
    "its first page": (postgres_pages._READ, ("run/long", 0, PAGE)),
    "its tail": (postgres_pages._READ, ("run/long", LONG - 1, PAGE)),
    "a page of the ledger": (postgres_pages._READ_ALL, (1000, PAGE)),
    "a page of it that is skimmed": (postgres_pages._SKIM, (["run.noted.1"], 1000, PAGE)),
    "a page of keys": (postgres._KEYS, (1000, "", LONG, PAGE)),
    "a head": (postgres._HEAD, ("run/long",)),
    "a page by the library": (postgres_recorder._EVENTS, ("run/long", 9, LONG, PAGE)),
    "the same backwards": (postgres_recorder._EVENTS_BACKWARDS, ("run/long", 9, LONG, PAGE)),
}


@pytest.fixture(scope="module", params=[False, True], ids=["no statistics", "statistics"])
def many(
    postgres_server: PostgresServer, request: pytest.FixtureRequest
) -> Iterator[PostgresStore]:
    """A ledger with two long streams and many keys, never analyzed or just now."""
    schema = f"t_plans_{int(request.param)}"
    with open_postgres(parse_address(f"{postgres_server.url}#{schema}"), create=True) as store:
        with store.links.borrowed() as connection:
            for table in TABLES:
                connection.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = off)".encode())
        states = (("run.noted.1", b"{}" * 500),) * 1000
        for stream, begin in itertools.product(("run/long", "run/other"), range(0, LONG, 1000)):
            store.append([Write(stream, begin, states)])
        with store.links.borrowed() as connection:
            connection.execute(
                "INSERT INTO keys SELECT 'key ' || n, '', '{}', n FROM generate_series(1, %s) AS n",
                (LONG,),
            )
            for table in TABLES if request.param else ():
                connection.execute(f"ANALYZE {table}".encode())
        yield store
    postgres_server.drop({schema})


@pytest.mark.parametrize("generic", [False, True], ids=["these values", "any values"])
def test_a_page_costs_a_page_however_much_there_is(many: PostgresStore, generic: bool) -> None:
    """It read and sorted the rest of the stream, or all keys, for each page."""
    with many.links.borrowed() as connection:
        looked_at = {
            name: rows_looked_at(connection, query, values, generic=generic)
            for name, (query, values) in READS.items()
        }
    assert {name: rows for name, rows in looked_at.items() if rows > PAGE} == {}
    assert all(looked_at.values()), looked_at


def rows_looked_at(
    connection: psycopg.Connection[Any],
    query: LiteralString,
    values: tuple[object, ...],
    *,
    generic: bool,
) -> int:
    """Return how many events or keys a query's plan takes up, with those that it drops again."""
    cursor = psycopg.ClientCursor(connection)
    if generic:
        numbers = itertools.count(1)
        prepared = "".join(
            part + (f"${next(numbers)}" if place < query.count("%s") else "")
            for place, part in enumerate(query.split("%s"))
        )
        cursor.execute("SET plan_cache_mode = force_generic_plan")
        cursor.execute(f"PREPARE asked AS {prepared}".encode())
    asked = "EXECUTE asked (" + ", ".join(["%s"] * len(values)) + ")" if generic else query
    cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {asked}".encode(), values)
    [(found,)] = cursor.fetchall()
    if generic:
        cursor.execute("DEALLOCATE asked")
        cursor.execute("RESET plan_cache_mode")
    plan: Any = json.loads(found) if isinstance(found, str) else found
    return _rows(plan[0]["Plan"])


def _rows(node: dict[str, Any]) -> int:
    below = sum(_rows(child) for child in node.get("Plans", ()))
    if node.get("Relation Name") not in ("events", "keys"):
        return below
    removed = node.get("Rows Removed by Filter", 0) + node.get("Rows Removed by Index Recheck", 0)
    return below + int((node["Actual Rows"] + removed) * node["Actual Loops"])


def test_a_migration_that_ran_is_as_it_was() -> None:
    found = [
        hashlib.sha256("\0".join(statements).encode()).hexdigest()
        for statements in postgres_schema.MIGRATIONS
    ]
    assert tuple(found) == DIGESTS, "add a migration; those before it ran on ledgers that exist"


@pytest.fixture
def old(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of a ledger that the first release made."""
    monkeypatch.setattr(postgres_schema, "MIGRATIONS", postgres_schema.MIGRATIONS[:1])
    with open_postgres(parse_address(postgres_url), create=True) as store:
        for number in (2, 1):
            store.append([Write(f"run/{number}", 0, (("run.noted.1", b"{}"),))], key=f"k{number}")
    monkeypatch.undo()
    return postgres_url


def migrated(server: PostgresServer, url: str) -> list[tuple[object, ...]]:
    schema = parse_address(url).schema
    return server.execute(f"SELECT version FROM {schema}.migrations ORDER BY 1")


def test_an_older_ledger_is_led_to_this_schema_and_keeps_its_keys(
    postgres_server: PostgresServer, old: str
) -> None:
    with open_postgres(parse_address(old)) as store:
        assert [row.key for row in store.key_rows()] == ["k2", "k1"]
        assert store.answer("k1") is not None
    assert migrated(postgres_server, old) == [(1,), (2,), (3,)]
    assert verify_postgres(parse_address(old)).problems == ()


def test_a_look_leaves_an_older_ledger_as_it_is(postgres_server: PostgresServer, old: str) -> None:
    assert read_rows(old) == []
    assert migrated(postgres_server, old) == [(1,)]
