"""The plain recorders of `eventsourcing` can neither read nor write a ledger."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from eventsourcing.application import Application
from eventsourcing.persistence import (
    InfrastructureFactory,
    OperationalError,
    ProgrammingError,
    StoredEvent,
)
from eventsourcing.utils import Environment

from tests.postgres import PostgresServer
from watchkeeper.adapters.store import postgres_schema
from watchkeeper.adapters.store.postgres import open_postgres
from watchkeeper.adapters.store.postgres_address import Address, parse_address
from watchkeeper.adapters.store.postgres_schema import REFUSALS_SINCE
from watchkeeper.adapters.store.postgres_verify import verify_postgres
from watchkeeper.adapters.store.rest import rest_path
from watchkeeper.adapters.store.schema import OLD_REFUSAL, REFUSALS, schema_objects
from watchkeeper.adapters.store.sqlite import open_store
from watchkeeper.adapters.store.verify import verify_store
from watchkeeper.ports.event_store import Write

SAYS = "open it with PERSISTENCE_MODULE=watchkeeper.eventsourcing"


def write(path: Path, stream: str) -> None:
    with open_store(path) as store:
        store.append([Write(stream, 0, (("t.1", b"{}"),))])


def age(path: Path) -> None:
    """Give a file what older releases wrote in place of the views."""
    with closing(sqlite3.connect(path)) as connection:
        for _, name in REFUSALS:
            connection.execute(f"DROP VIEW {name}")
        for statement in OLD_REFUSAL.values():
            connection.execute(statement)
    rest_path(path).unlink()


@pytest.fixture(params=[False, True], ids=["new", "older"])
def plain(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    """The environment of the plain recorders, on a ledger."""
    path = tmp_path / "ledger.db"
    write(path, "run/a")
    if request.param:
        age(path)
        assert not verify_store(path).problems
        write(path, "run/b")
    return {"PERSISTENCE_MODULE": "eventsourcing.sqlite", "SQLITE_DBNAME": str(path)}


ACTS: tuple[Callable[[Any], object], ...] = (
    lambda app: list(app.events.get(uuid4())),
    lambda app: app.notification_log["1,10"],
    lambda app: app.recorder.select_notifications(start=1, limit=10),
    lambda app: app.recorder.max_notification_id(),
    lambda app: app.repository.get(uuid4()),
    lambda app: app.recorder.insert_events([StoredEvent(uuid4(), 1, "t.1", b"{}")]),
)


def test_no_act_of_a_plain_application_reads_or_writes_a_ledger(plain: dict[str, str]) -> None:
    app = Application[Any](env=plain | {"IS_SNAPSHOTTING_ENABLED": "y"})
    for act in ACTS:
        with pytest.raises(OperationalError, match=SAYS):
            act(app)
    assert app.snapshots is not None
    with pytest.raises(OperationalError, match=SAYS):
        list(app.snapshots.get(uuid4()))
    app.close()
    assert not verify_store(Path(plain["SQLITE_DBNAME"])).problems


def test_opening_a_ledger_with_a_plain_follower_is_refused(plain: dict[str, str]) -> None:
    factory = InfrastructureFactory[Any].construct(Environment(env=plain))
    for make in (factory.tracking_recorder, factory.process_recorder):
        with pytest.raises(OperationalError, match=SAYS):
            make()
    factory.close()
    assert not verify_store(Path(plain["SQLITE_DBNAME"])).problems


def test_the_first_append_to_an_older_file_makes_it_refuse(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    write(path, "run/a")
    age(path)
    write(path, "run/b")
    with closing(sqlite3.connect(path)) as connection:
        objects = schema_objects(connection)
    assert REFUSALS.items() <= objects.items()
    assert not OLD_REFUSAL.keys() & objects.keys()


# --- PostgreSQL ---------------------------------------------------------------------------------

SERVER_SAYS = r"a ledger: set PERSISTENCE_MODULE=watchkeeper\.eventsourcing"
ID_TYPES = pytest.mark.parametrize("id_type", ["uuid", "text"])


def env_of(server: PostgresServer, address: Address, id_type: str) -> dict[str, str]:
    """The environment of the plain recorders, on a ledger's schema."""
    return {
        "PERSISTENCE_MODULE": "eventsourcing.postgres",
        "POSTGRES_DBNAME": "postgres",
        "POSTGRES_HOST": "127.0.0.1",
        "POSTGRES_PORT": str(server.port),
        "POSTGRES_USER": "test",
        "POSTGRES_PASSWORD": "-",
        "POSTGRES_SCHEMA": address.schema,
        "POSTGRES_ORIGINATOR_ID_TYPE": id_type,
        "ORIGINATOR_ID_TYPE": id_type,
    }


def relations(server: PostgresServer, address: Address) -> list[tuple[object, ...]]:
    return server.execute(
        "SELECT relname FROM pg_class WHERE relnamespace = "
        f"'{address.schema}'::regnamespace ORDER BY 1"
    )


@pytest.mark.postgres
@ID_TYPES
def test_opening_a_ledger_on_a_server_with_a_plain_recorder_is_refused(
    postgres_server: PostgresServer, postgres_url: str, id_type: str
) -> None:
    address = parse_address(postgres_url)
    with open_postgres(address, create=True) as store:
        store.append([Write("run/a", 0, (("run.noted.1", b"{}"),))])
    env, before = env_of(postgres_server, address, id_type), relations(postgres_server, address)
    with pytest.raises(ProgrammingError, match=SERVER_SAYS):
        Application[Any](env=env)
    factory = InfrastructureFactory[Any].construct(Environment(env=env))
    for make in (factory.application_recorder, factory.process_recorder):
        with pytest.raises(ProgrammingError, match=SERVER_SAYS):
            make()
    factory.close()
    assert relations(postgres_server, address) == before
    assert verify_postgres(address).problems == ()


@pytest.mark.postgres
@ID_TYPES
def test_an_older_ledger_refuses_from_the_next_opening_to_write(
    postgres_server: PostgresServer,
    postgres_url: str,
    id_type: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    address = parse_address(postgres_url)
    env = env_of(postgres_server, address, id_type)
    older = postgres_schema.MIGRATIONS[: REFUSALS_SINCE - 1]
    monkeypatch.setattr(postgres_schema, "MIGRATIONS", older)
    open_postgres(address, create=True).close()
    assert verify_postgres(address).problems == ()
    # What a plain recorder left there before does not keep the ledger from being opened.
    Application[Any](env=env).close()
    monkeypatch.undo()
    open_postgres(address).close()
    with pytest.raises(ProgrammingError, match=SERVER_SAYS):
        Application[Any](env=env)
    assert verify_postgres(address).problems == ()
