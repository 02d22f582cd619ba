"""Names of streams and topics, which a connection to PostgreSQL is told once."""

from collections.abc import Iterator

import pytest

from tests.postgres import PostgresServer
from watchkeeper.adapters.store import postgres_names
from watchkeeper.adapters.store.postgres import PostgresStore, open_postgres
from watchkeeper.adapters.store.postgres_address import parse_address
from watchkeeper.ports.event_store import StoreFailure, Write

pytestmark = pytest.mark.postgres


@pytest.fixture
def store(postgres_url: str) -> Iterator[PostgresStore]:
    with open_postgres(parse_address(postgres_url), create=True) as opened:
        yield opened


def put(store: PostgresStore, stream: str, topic: str) -> None:
    version, _ = store.head(stream)
    store.append([Write(stream, version, ((topic, b"{}"),))])


def seen(store: PostgresStore) -> list[tuple[str, str]]:
    """Return stream and topic of each event, by all three ways that a page is read."""
    found = [(event.stream, event.topic) for event in store.read_all()]
    assert [(event.stream, event.topic) for event in store.skim(["run.a.1"])] == found
    for stream, _ in found:
        topics = [event.topic for event in store.read(stream)]
        assert topics == [topic for name, topic in found if name == stream]
    return found


def test_names_that_another_process_brings_are_found(
    store: PostgresStore, postgres_url: str
) -> None:
    put(store, "run/a", "run.a.1")
    assert seen(store) == [("run/a", "run.a.1")]
    with open_postgres(parse_address(postgres_url)) as other:
        put(other, "run/b", "run.b.1")
        put(other, "run/a", "run.b.1")
    assert seen(store) == [("run/a", "run.a.1"), ("run/b", "run.b.1"), ("run/a", "run.b.1")]


def test_names_end_with_the_connection_that_gave_them(
    store: PostgresStore, postgres_server: PostgresServer, postgres_url: str
) -> None:
    """Another ledger in its place may give the same numbers to other names."""
    put(store, "run/a", "run.a.1")
    assert seen(store) == [("run/a", "run.a.1")]
    schema = parse_address(postgres_url).schema
    # As a restore does: it has the ledger alone, so no connection is left.
    postgres_server.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE application_name = 'watchkeeper'"
    )
    postgres_server.execute(f"DROP SCHEMA {schema} CASCADE")
    with open_postgres(parse_address(postgres_url), create=True) as other:
        put(other, "run/b", "run.b.1")
        put(other, "run/a", "run.a.1")
    assert seen(store) == [("run/b", "run.b.1"), ("run/a", "run.a.1")]


def test_more_names_than_are_kept_are_asked_for_anew(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_names, "KEPT", 2)
    expected: list[tuple[str, str]] = []
    for number in range(5):
        put(store, f"run/{number}", f"run.{number}.1")
        expected.append((f"run/{number}", f"run.{number}.1"))
        assert seen(store) == expected
    page = store.read_all(after=2, limit=2)
    assert [(event.stream, event.topic) for event in page] == expected[2:4]


@pytest.mark.parametrize("table", ["topics", "streams"])
def test_an_event_without_a_name_is_never_left_out(
    store: PostgresStore, postgres_server: PostgresServer, postgres_url: str, table: str
) -> None:
    """A join would leave it out, and a follower would pass it without a word."""
    put(store, "run/a", "run.a.1")
    put(store, "run/b", "run.b.1")
    schema = parse_address(postgres_url).schema
    postgres_server.execute(
        f"SET session_replication_role = replica; ALTER TABLE {schema}.{table} DISABLE TRIGGER "
        f"USER; DELETE FROM {schema}.{table} WHERE id = 2"
    )
    with pytest.raises(StoreFailure, match=r"number 2, which has no name.*`watchkeeper verify`"):
        store.read_all()
    assert [event.stream for event in store.read_all(limit=1)] == ["run/a"]
