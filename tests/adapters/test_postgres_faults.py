"""A ledger on a real PostgreSQL server that is restarted, cut, full, slow or silent."""

import os
import random
import shutil
import signal
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from threading import Event, Thread
from time import monotonic

import psycopg
import pytest

from tests.adapters.cut_proxy import CutProxy, cut_proxy
from tests.adapters.store_processes import line_of, worker
from tests.postgres import PostgresServer
from tests.sockets import free_port
from tests.stores import Place, tamper
from watchkeeper.adapters.store import postgres_schema
from watchkeeper.adapters.store.content import ProblemKind
from watchkeeper.adapters.store.postgres import PostgresStore, open_postgres
from watchkeeper.adapters.store.postgres_address import parse_address
from watchkeeper.adapters.store.postgres_link import LIMITS
from watchkeeper.adapters.store.postgres_recorder import PostgresRecorder
from watchkeeper.adapters.store.postgres_schema import marks_of
from watchkeeper.adapters.store.postgres_verify import verify_postgres
from watchkeeper.ports.event_store import (
    Append,
    Appended,
    StatusRow,
    StoreFailure,
    StoreUnavailable,
    VersionConflict,
    Write,
)

pytestmark = pytest.mark.postgres

IMPATIENT = replace(
    LIMITS,
    lock=timedelta(milliseconds=300),
    answer=timedelta(seconds=1),
    reconnect=timedelta(milliseconds=500),
)
KILLS = 10


def write(stream: str, expected: int, *states: bytes) -> Write:
    return Write(stream, expected, tuple(("run.noted.1", state) for state in states or (b"{}",)))


@pytest.fixture
def store(postgres_url: str) -> Iterator[PostgresStore]:
    with open_postgres(parse_address(postgres_url), create=True) as opened:
        yield opened


@pytest.fixture
def proxy(postgres_server: PostgresServer) -> Iterator[CutProxy]:
    with cut_proxy(postgres_server.port) as running:
        yield running


@pytest.fixture
def proxied(
    proxy: CutProxy, postgres_server: PostgresServer, postgres_url: str
) -> Iterator[PostgresStore]:
    """A store that is reached through the proxy."""
    address = parse_address(postgres_url.replace(str(postgres_server.port), str(proxy.port), 1))
    with open_postgres(
        address, limits=replace(LIMITS, answer=timedelta(seconds=3)), create=True
    ) as opened:
        opened.append([write("run/old", 0)])
        yield opened


def assert_intact(url: str, events: int) -> None:
    report = verify_postgres(parse_address(url))
    assert (report.problems, report.events) == ((), events)


# --- Cut connections ------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["k", None])
@pytest.mark.parametrize("moment", ["before", "after"])
def test_an_append_whose_connection_is_cut_is_stored_once_and_answered(
    proxied: PostgresStore, proxy: CutProxy, postgres_url: str, moment: str, key: str | None
) -> None:
    """Trap 13: the commit is done, its answer is lost, and the same again would conflict."""
    (proxy.cut_before if moment == "before" else proxy.cut_after)(b"cut here")
    writes = [write("run/a", 0, b"cut here", b"2"), write("run/old", 1, b"3")]
    appended = proxied.append(writes, key=key, status=[StatusRow("a", "run", "{}")])
    assert appended == Appended({"run/a": (1, 2), "run/old": (2, 2)})
    assert proxy.cuts == 1
    assert [event.state for event in proxied.read("run/a")] == [b"cut here", b"2"]
    assert proxied.newest() == 4
    assert_intact(postgres_url, 4)


def test_each_append_of_a_batch_that_was_cut_gets_its_own_answer(
    proxied: PostgresStore, proxy: CutProxy, postgres_url: str
) -> None:
    proxy.cut_after(b"cut here")
    stored, conflict, repeated = proxied.append_batch(
        [
            Append([write("run/a", 0, b"cut here")], key="one"),
            Append([write("run/old", 0, b"behind")]),
            Append([write("run/a", 0, b"again")], key="one"),
        ]
    )
    assert stored == Appended({"run/a": (1, 1)})
    assert isinstance(conflict, VersionConflict)
    assert repeated == Appended({"run/a": (1, 1)}, repeated=True)
    assert_intact(postgres_url, 2)


def test_another_s_conflict_after_a_cut_stays_a_conflict(
    proxied: PostgresStore, proxy: CutProxy, store: PostgresStore
) -> None:
    store.append([write("run/a", 0, b"theirs")])
    proxy.cut_before(b"cut here")
    with pytest.raises(VersionConflict):
        proxied.append([write("run/a", 0, b"cut here")])


def test_when_nobody_answers_any_more_it_is_unknown_and_the_same_key_settles_it(
    postgres_server: PostgresServer, proxy: CutProxy, postgres_url: str
) -> None:
    address = parse_address(postgres_url.replace(str(postgres_server.port), str(proxy.port), 1))
    with open_postgres(address, limits=IMPATIENT, create=True) as store:
        store.append([write("run/old", 0)])
        proxy.cut_after(b"cut here")
        proxy.refuse()
        with pytest.raises(StoreFailure, match="It is unknown whether it was stored: repeat"):
            store.append([write("run/a", 0, b"cut here")], key="k", digest=b"d")
        with pytest.raises(StoreFailure, match="Nothing was stored") as known:
            store.append([write("run/b", 0)])
        assert "unknown" not in str(known.value)
        proxy.recover()
        again = store.append([write("run/a", 0, b"fresh ids")], key="k", digest=b"d")
        assert again == Appended({"run/a": (1, 1)}, repeated=True)
    assert_intact(postgres_url, 2)


def test_a_server_that_says_nothing_any_more_is_cut_off_within_the_limit(
    postgres_server: PostgresServer, proxy: CutProxy, postgres_url: str
) -> None:
    address = parse_address(postgres_url.replace(str(postgres_server.port), str(proxy.port), 1))
    with open_postgres(address, limits=IMPATIENT, create=True) as store:
        store.append([write("run/old", 0)])
        proxy.silence()
        started = monotonic()
        with pytest.raises(StoreFailure, match="unknown whether it was stored"):
            store.append([write("run/a", 0)], key="k")
        assert monotonic() - started < 15
        proxy.recover()
        assert store.append([write("run/a", 0)], key="k").versions == {"run/a": (1, 1)}


# --- Restarts -------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT, signal.SIGKILL])
def test_a_server_restarted_in_mid_append_loses_and_doubles_nothing(
    postgres_to_stop: PostgresServer, how: signal.Signals
) -> None:
    url = f"{postgres_to_stop.url}#again"
    number, restarted = 4, Event()
    with open_postgres(parse_address(url), create=True) as store:
        answered: list[list[int]] = [[] for _ in range(number)]

        def append(name: int) -> None:
            index = 0
            while index < 30 or not restarted.is_set():
                state = f"{name} {index}".encode()
                # Odd ones have no key: their bytes tell whether they were stored.
                key = f"{name} {index}" if index % 2 == 0 else None
                done = store.append([write(f"run/{name}", index, state)], key=key)
                assert done == Appended({f"run/{name}": (index + 1, index + 1)})
                answered[name].append(index)
                index += 1

        with ThreadPoolExecutor(number) as pool:
            appending = [pool.submit(append, name) for name in range(number)]
            for _ in range(2):
                before = sum(map(len, answered))
                assert _until(lambda before=before: sum(map(len, answered)) > before + 20)
                postgres_to_stop.restart(how)
            restarted.set()
            for each in appending:
                each.result(timeout=120)
        for name in range(number):
            states = [event.state.decode() for event in store.read(f"run/{name}")]
            assert states == [f"{name} {index}" for index in answered[name]]
    assert_intact(url, sum(map(len, answered)))


def _until(condition: "object", limit_s: float = 60) -> bool:
    deadline = monotonic() + limit_s
    assert callable(condition)
    while not condition():
        if monotonic() > deadline:
            return False
        Event().wait(0.01)
    return True


def test_waiting_and_subscribing_go_on_after_a_restart(postgres_to_stop: PostgresServer) -> None:
    with (
        open_postgres(parse_address(f"{postgres_to_stop.url}#again"), create=True) as store,
        PostgresRecorder(store).subscribe() as subscription,
        ThreadPoolExecutor(1) as pool,
    ):
        store.append([write("run/a", 0)])
        assert next(subscription).originator_version == 1
        waiting = pool.submit(store.wait, after=1, limit=timedelta(seconds=60))
        postgres_to_stop.restart(signal.SIGQUIT)
        store.append([write("run/a", 1)])
        assert waiting.result(timeout=60)
        assert next(subscription).originator_version == 2


def test_a_lost_listening_connection_is_opened_again(
    store: PostgresStore, postgres_server: PostgresServer
) -> None:
    """Trap 9: with the library's recorder the subscription ends, or hangs in silence."""
    with PostgresRecorder(store).subscribe() as subscription:
        assert _until(lambda: _listeners(postgres_server, store))
        for index in range(3):
            lost = store.feed.reconnected
            for pid in _listeners(postgres_server, store):
                postgres_server.execute(f"SELECT pg_terminate_backend({pid})")
            assert _until(lambda lost=lost: store.feed.reconnected > lost)
            store.append([write("run/a", index)])
            assert next(subscription).originator_version == index + 1
            assert _until(lambda: _listeners(postgres_server, store))


def _listeners(server: PostgresServer, store: PostgresStore) -> list[int]:
    channel = store.links.marks.channel
    rows = server.execute(f"SELECT pid FROM pg_stat_activity WHERE query LIKE 'LISTEN%{channel}%'")
    return [int(str(pid)) for (pid,) in rows]


def test_an_idle_transaction_of_a_stopped_process_does_not_hold_up_the_others_for_ever(
    store: PostgresStore,
) -> None:
    [(idle,)] = store.links.read("ask", "SHOW idle_in_transaction_session_timeout", ())
    [(lock,)] = store.links.read("ask", "SHOW lock_timeout", ())
    [(statement,)] = store.links.read("ask", "SHOW statement_timeout", ())
    [(name,)] = store.links.read("ask", "SHOW application_name", ())
    assert (idle, lock, statement, name) == ("1min", "10s", "30s", "watchkeeper")


@pytest.mark.parametrize("restart", [False, True])
def test_whatever_append_returned_is_there_after_a_kill(
    postgres_to_stop: PostgresServer, restart: bool
) -> None:
    """The appending process, and in turn the whole server, is killed at any moment."""
    place = Place(f"{postgres_to_stop.url}#killed")
    chosen = random.Random(7)
    effects = 0
    for _ in range(3 if restart else KILLS):
        with worker("write_for_ever", place.text, "run/a") as process:
            said = [line_of(process) for _ in range(chosen.randint(1, 40))]
            if restart:
                postgres_to_stop.stop(signal.SIGKILL)
            process.send_signal(signal.SIGKILL)
            assert process.stdout is not None
            said += [line for line in process.stdout.read().split("\n")[:-1] if line]
            process.wait(timeout=60)
        if restart:
            postgres_to_stop.start()
        version_said, effects_said, pid, index = map(int, said[-1].split())
        with place.open() as store:
            # A backend may still be about to commit what its dead client sent.
            store.append([])
            version, effects = store.head("run/a")[0], store.head("effects/run/a")[0]
            assert version == 2 * effects
            assert effects in (effects_said, effects_said + 1)
            assert store.answer(f"{pid} {index}") == Appended(
                {
                    "run/a": (version_said - 1, version_said),
                    "effects/run/a": (effects_said, effects_said),
                },
                repeated=True,
            )
        place.assert_intact(3 * effects)


# --- Refusals of the server -----------------------------------------------------------------------


def test_a_server_that_is_gone_at_the_start_is_said_at_once() -> None:
    port = free_port()
    started = monotonic()
    with pytest.raises(StoreFailure) as refused:
        open_postgres(parse_address(f"postgresql://keeper:s3cr3t-pw@127.0.0.1:{port}/fleet#team"))
    said = str(refused.value)
    assert said.startswith(f"PostgreSQL postgresql://keeper@127.0.0.1:{port}/fleet#team: connect")
    assert "Connection refused" in said
    assert "Nothing was stored. Check that the server runs" in said
    assert "s3cr3t-pw" not in said
    assert monotonic() - started < 5


@pytest.mark.parametrize(
    ("user", "database", "says"),
    [
        ("nobody", "postgres", 'role "nobody" does not exist. Nothing was stored. Create the role'),
        ("test", "nowhere", 'database "nowhere" does not exist. Nothing was stored. Create the'),
        ("sworn", "postgres", "Nothing was stored. Set PGPASSWORD"),
    ],
)
def test_who_cannot_connect_is_told_what_to_do(
    postgres_server: PostgresServer, user: str, database: str, says: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.delenv("PGPASSWORD", raising=False)
    monkeypatch.setenv("PGPASSFILE", os.devnull)
    url = postgres_server.url_at(postgres_server.port, user=user, database=database)
    with pytest.raises(StoreFailure) as refused:
        open_postgres(parse_address(url), create=True)
    assert says in str(refused.value)


@pytest.mark.parametrize("create", [False, True])
def test_a_role_that_may_not_use_the_schema_is_not_told_that_there_is_no_ledger(
    postgres_server: PostgresServer, postgres_url: str, create: bool
) -> None:
    open_postgres(parse_address(postgres_url), create=True).close()
    schema = parse_address(postgres_url).schema
    postgres_server.execute("DROP ROLE IF EXISTS barred")
    postgres_server.execute("CREATE ROLE barred LOGIN")
    url = f"{postgres_server.url_at(postgres_server.port, user='barred')}#{schema}"
    with pytest.raises(StoreFailure) as refused:
        open_postgres(parse_address(url), create=create)
    said = str(refused.value)
    assert f"the role barred may not use the schema {schema}. Nothing was stored." in said
    assert f'GRANT USAGE ON SCHEMA "{schema}" TO "barred"' in said


@pytest.mark.parametrize("way", ["url", "environment", "passfile"])
def test_a_password_comes_from_the_url_the_environment_or_a_file_and_is_never_shown(
    postgres_server: PostgresServer, way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = f"sworn_{way}"
    postgres_server.execute("DROP SCHEMA IF EXISTS sworn CASCADE")
    for statement in (
        "DO $$ BEGIN CREATE ROLE sworn LOGIN PASSWORD 's3cr3t-pw'; "
        "EXCEPTION WHEN duplicate_object THEN NULL; END $$",
        f"CREATE SCHEMA {schema} AUTHORIZATION sworn",
    ):
        postgres_server.execute(statement)
    monkeypatch.delenv("PGPASSWORD", raising=False)
    user = "sworn"
    if way == "url":
        user = "sworn:s3cr3t-pw"
    elif way == "environment":
        monkeypatch.setenv("PGPASSWORD", "s3cr3t-pw")
    else:
        (tmp_path / "pass").write_text(f"127.0.0.1:{postgres_server.port}:*:sworn:s3cr3t-pw\n")
        (tmp_path / "pass").chmod(0o600)
        monkeypatch.setenv("PGPASSFILE", str(tmp_path / "pass"))
    address = parse_address(f"{postgres_server.url_at(postgres_server.port, user=user)}#{schema}")
    # The schema is there and empty, and its owner may not create others in the database.
    with open_postgres(address, create=True) as store:
        store.append([write("run/a", 0)])
        with pytest.raises(StoreFailure) as refused:
            store.links.read("ask", "SELECT * FROM nothing_of_this_name", ())
    assert "s3cr3t-pw" not in str(refused.value) + repr(address) + address.shown
    assert "sworn@127.0.0.1" in str(refused.value)
    postgres_server.execute(f"DROP SCHEMA {schema} CASCADE")


def test_a_database_that_is_read_only_is_said_and_nothing_is_stored(
    postgres_to_stop: PostgresServer,
) -> None:
    with open_postgres(parse_address(f"{postgres_to_stop.url}#team"), create=True) as store:
        store.append([write("run/a", 0)])
        postgres_to_stop.execute("ALTER DATABASE postgres SET default_transaction_read_only = on")
        for (pid,) in postgres_to_stop.execute(
            "SELECT pid FROM pg_stat_activity WHERE application_name = 'watchkeeper'"
        ):
            postgres_to_stop.execute(f"SET default_transaction_read_only = off; "
                                     f"SELECT pg_terminate_backend({pid})")  # fmt: skip
        with pytest.raises(StoreFailure, match=r"read-only transaction.*Name the primary"):
            store.append([write("run/a", 1)], key="k")
        assert (store.head("run/a")[0], store.answer("k")) == (1, None)


def test_a_full_disk_is_said_and_nothing_of_the_append_is_stored(
    postgres_to_stop: PostgresServer,
) -> None:
    small = postgres_to_stop.folder / "small"
    small.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m,mode=0777", "none", str(small)],
        capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    if made.returncode:
        pytest.skip(f"a small disk can't be mounted here: {made.stderr.strip()}")
    if os.geteuid() == 0:
        shutil.chown(small, "postgres")
    try:
        postgres_to_stop.execute(f"CREATE TABLESPACE small LOCATION '{small}'")
        url = f"{postgres_to_stop.url}?options=-cdefault_tablespace%3Dsmall#full"
        with open_postgres(parse_address(url), create=True) as store:
            stored: list[int] = []
            with pytest.raises(StoreFailure) as refused:
                _fill(store, stored)
            version = len(stored)
            assert "No space left on device" in str(refused.value)
            assert "Nothing was stored. Free space on the server's disk" in str(refused.value)
            assert (store.head("run/a")[0], store.answer(str(version))) == (version, None)
            assert version > 10
        assert_intact(url, version)
        postgres_to_stop.execute('DROP SCHEMA "full" CASCADE')
    finally:
        postgres_to_stop.stop()
        subprocess.run(["umount", str(small)], timeout=30, check=True)


def _fill(store: PostgresStore, stored: list[int]) -> None:
    for version in range(1000):
        store.append([write("run/a", version, os.urandom(20_000))], key=str(version))
        stored.append(version)


def test_a_lock_that_somebody_holds_is_said_within_the_limit(
    store: PostgresStore, postgres_url: str, postgres_server: PostgresServer
) -> None:
    store.append([write("run/a", 0)])
    address = parse_address(postgres_url)
    with (
        psycopg.connect(postgres_server.url) as holder,
        open_postgres(address, limits=IMPATIENT) as other,
    ):
        holder.execute("SELECT pg_advisory_lock(%s)", (marks_of(address.schema).append_lock,))
        with pytest.raises(
            StoreUnavailable, match=r"lock timeout. Nothing was stored. Another process"
        ):
            other.append([write("run/a", 1)], key="k")
        assert (other.head("run/a")[0], other.answer("k")) == (1, None)
    assert store.append([write("run/a", 1)], key="k").versions == {"run/a": (2, 2)}


def test_text_that_postgresql_cannot_hold_is_refused_and_nothing_is_stored(
    store: PostgresStore,
) -> None:
    with pytest.raises(StoreFailure, match=r"0x00. Nothing was stored. A text holds"):
        store.append([write("run/a", 0)], key="zero \0 byte")
    assert store.newest() == 0


# --- Schema ---------------------------------------------------------------------------------------


def test_eight_processes_that_start_at_once_make_one_ledger(postgres_url: str) -> None:
    """Trap 5: with the library 1 to 6 of 8 fail with `tuple concurrently updated`."""
    with ExitStack() as stack:
        started = [stack.enter_context(worker("try_all", postgres_url)) for _ in range(8)]
        said = [process.communicate(timeout=120)[0].strip() for process in started]
    # They append to one stream without trying again: one may be told of a conflict, none of more.
    assert {line.partition(":")[0] for line in said} <= {"stored", "conflict"}
    report = verify_postgres(parse_address(postgres_url))
    assert (report.problems, report.events) == ((), said.count("stored"))


def test_a_migration_runs_once_whoever_starts_at_the_same_moment(
    store: PostgresStore, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = (*postgres_schema.MIGRATIONS, ("CREATE TABLE later (id integer)",))
    monkeypatch.setattr(postgres_schema, "MIGRATIONS", more)
    with ThreadPoolExecutor(8) as pool:
        opened = list(pool.map(open_postgres, [parse_address(postgres_url)] * 8))
    for each in opened:
        each.close()
    rows = store.links.read("ask", "SELECT version FROM migrations ORDER BY 1", ())
    assert rows == [(number,) for number in range(1, len(more) + 1)]


def test_a_schema_of_a_newer_watchkeeper_is_refused(
    store: PostgresStore, postgres_url: str
) -> None:
    store.append([write("run/a", 0)])
    with store.links.borrowed() as connection:
        connection.execute("INSERT INTO migrations (version) VALUES (999)")
    for act in (open_postgres, verify_postgres):
        with pytest.raises(StoreFailure, match=r"newer watchkeeper .schema 999, this one knows 3"):
            act(parse_address(postgres_url))


def test_a_ledger_is_made_only_when_asked_for(postgres_url: str) -> None:
    with pytest.raises(StoreFailure, match=r"no ledger\. Nothing was stored.*init"):
        open_postgres(parse_address(postgres_url))


def test_a_schema_of_something_else_is_left_alone(
    postgres_url: str, postgres_server: PostgresServer
) -> None:
    schema = parse_address(postgres_url).schema
    postgres_server.execute(f"CREATE SCHEMA {schema}")
    postgres_server.execute(f"CREATE TABLE {schema}.theirs (id integer)")
    with pytest.raises(StoreFailure, match="belongs to something else: it has 'theirs'"):
        open_postgres(parse_address(postgres_url), create=True)


def test_two_ledgers_in_one_database_do_not_mix(
    store: PostgresStore, postgres_url: str, postgres_server: PostgresServer
) -> None:
    address = parse_address(f"{postgres_url}_other")
    try:
        with open_postgres(address, create=True) as other:
            other.append([write("run/a", 0)], key="k", status=[StatusRow("a", "run", "{}")])
            assert (store.newest(), store.answer("k"), store.status_rows()) == (0, None, [])
            assert not store.wait(after=0, limit=timedelta(milliseconds=100))
            store.append([write("run/a", 0)])
            assert (store.newest(), other.newest()) == (1, 1)
    finally:
        postgres_server.execute(f"DROP SCHEMA {address.schema} CASCADE")


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE events SET state = ''",
        "DELETE FROM events",
        "TRUNCATE events CASCADE",
        "UPDATE streams SET name = 'run/b'",
        "DELETE FROM keys",
        "UPDATE topics SET name = 'x'",
        "DELETE FROM migrations",
        "UPDATE counter SET position = 0",
        "DELETE FROM counter",
        "SET session_replication_role = replica; DELETE FROM events",
    ],
)
def test_rows_of_record_can_neither_be_changed_nor_deleted(
    store: PostgresStore, postgres_url: str, statement: str
) -> None:
    store.append([write("run/a", 0)], key="k")
    address = parse_address(postgres_url)
    with psycopg.connect(address.url, autocommit=True) as connection:
        connection.execute(f"SET search_path = {address.schema}".encode())
        with pytest.raises(psycopg.errors.RestrictViolation):
            connection.execute(statement.encode())
    assert_intact(postgres_url, 1)


TAMPERINGS = {
    "bytes": ("UPDATE events SET state = '{}'::bytea || ' ' WHERE id = 2", ProblemKind.CHAIN),
    "topic": ("UPDATE topics SET name = 'run.other.1'", ProblemKind.CHAIN),
    "hash": ("UPDATE events SET hash = sha256('x') WHERE id = 2", ProblemKind.CHAIN),
    "swapped": (
        "UPDATE events SET state = CASE id WHEN 1 THEN 'b'::bytea ELSE 'a' END WHERE id < 3",
        ProblemKind.CHAIN,
    ),
    "removed": ("DELETE FROM events WHERE id = 2", ProblemKind.POSITION),
    "newest": ("DELETE FROM events WHERE id = 3", ProblemKind.POSITION),
    "counter": ("UPDATE counter SET position = 7", ProblemKind.POSITION),
    "key": ("UPDATE keys SET position = 1", ProblemKind.KEY),
    "answer": ("UPDATE keys SET answer = '{\"run/a\":[1,9]}'", ProblemKind.KEY),
    "constraint": ("ALTER TABLE events DROP CONSTRAINT events_hash_check", ProblemKind.SCHEMA),
    "column": ("ALTER TABLE keys ADD COLUMN more text", ProblemKind.SCHEMA),
    "function": (
        "CREATE OR REPLACE FUNCTION keep_rows() RETURNS trigger LANGUAGE plpgsql "
        "AS 'BEGIN RETURN NEW; END'",
        ProblemKind.SCHEMA,
    ),
    "another trigger": (
        "CREATE TRIGGER sly BEFORE INSERT ON events FOR EACH ROW EXECUTE FUNCTION keep_rows()",
        ProblemKind.SCHEMA,
    ),
    "gone": ("DROP TABLE keys", ProblemKind.SCHEMA),
}


@pytest.mark.parametrize("how", list(TAMPERINGS))
def test_verify_finds_what_was_changed(store: PostgresStore, postgres_url: str, how: str) -> None:
    store.append([write("run/a", 0, b"a", b"b", b"c")], key="k")
    assert_intact(postgres_url, 3)
    statement, kind = TAMPERINGS[how]
    if how == "gone":
        store.close()
    tamper(Place(postgres_url), statement) if how != "gone" else _drop(postgres_url, statement)
    found = verify_postgres(parse_address(postgres_url)).problems
    assert kind in {problem.kind for problem in found}, found


def _drop(url: str, statement: str) -> None:
    address = parse_address(url)
    with psycopg.connect(address.url, autocommit=True) as connection:
        connection.execute(f"SET search_path = {address.schema}".encode())
        connection.execute(statement.encode())


def test_verify_finds_guards_that_are_off(store: PostgresStore, postgres_url: str) -> None:
    store.append([write("run/a", 0)])
    _drop(postgres_url, "ALTER TABLE events DISABLE TRIGGER events_kept")
    [problem] = verify_postgres(parse_address(postgres_url)).problems
    assert problem.message == (
        "The trigger events_kept of events is not as watchkeeper creates it, or is off."
    )


def test_a_dump_restores_to_the_same_ledger_and_appends_go_on(
    store: PostgresStore, postgres_url: str, postgres_to_stop: PostgresServer, tmp_path: Path
) -> None:
    store.append([write("run/a", 0, b"1", b"2"), write("roots", 0)], key="k")
    address = parse_address(postgres_url)
    dump = tmp_path / "ledger.dump"
    _tool("pg_dump", "-Fc", "-n", address.schema, "-f", str(dump), "-d", address.url)
    _tool("pg_restore", "--no-owner", "-d", postgres_to_stop.url, str(dump))
    restored = f"{postgres_to_stop.url}#{address.schema}"
    assert_intact(restored, 3)
    with open_postgres(parse_address(restored)) as again:
        assert again.read_all() == store.read_all()
        assert again.append([write("run/a", 0)], key="k").repeated
        again.append([write("run/a", 2)])
        assert again.newest() == 4
    assert_intact(restored, 4)


def _tool(name: str, *arguments: str) -> None:
    found = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    program = str(found[-1]) if found else shutil.which(name)
    if program is None:
        pytest.skip(f"{name} is not installed")
    subprocess.run([program, *arguments], check=True, timeout=60, capture_output=True)


def test_reading_goes_on_while_an_append_waits(store: PostgresStore) -> None:
    store.append([write("run/a", 0)])
    with store.links.borrowed() as connection:
        connection.execute("SELECT pg_advisory_lock(%s)", (store.links.marks.append_lock,))
        appending = Thread(target=store.append, args=([write("run/a", 1)],))
        appending.start()
        appending.join(0.2)
        assert appending.is_alive()
        assert store.read("run/a")[0].version == 1
        connection.execute("SELECT pg_advisory_unlock(%s)", (store.links.marks.append_lock,))
    appending.join(60)
    assert store.newest() == 2
