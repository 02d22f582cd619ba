"""`ledger backup` and `restore` where the ledger is on a server: by pg_dump and pg_restore."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from tests.command_line import Cli
from tests.histories import told
from tests.postgres import PostgresServer
from tests.stores import Place, store_at, tamper
from watchkeeper import clock
from watchkeeper.adapters.store.postgres_address import parse_address
from watchkeeper.ports.event_store import Write

WATCHKEEPER = Path(sys.executable).with_name("watchkeeper")

pytestmark = [
    pytest.mark.postgres,
    pytest.mark.parametrize("chosen_store", [pytest.param("postgresql")], indirect=True),
]


@pytest.fixture
def on_server(
    cli_without_home: Cli, postgres_url: str, monkeypatch: pytest.MonkeyPatch, chosen_store: str
) -> Cli:
    """A home whose ledger is on the server, with two runs in it."""
    monkeypatch.delenv("WATCHKEEPER_STORE")
    assert cli_without_home("--store", postgres_url, "init", "--human", "dri").code == 0
    with Place(postgres_url).ledger() as opened:
        told(opened.store, ["held", "crash_loop"])
    return cli_without_home


def test_a_backup_is_made_in_use_and_can_be_put_back(
    on_server: Cli, home: Path, tmp_path: Path, postgres_server: PostgresServer, postgres_url: str
) -> None:
    cli, copy = on_server, tmp_path / "ledger.dump"
    with store_at(home) as store:
        before = store.read_all(limit=10**6)
        made = cli("ledger", "backup", str(copy), "--json")
        assert (made.code, made.json["events"]) == (0, len(before))
        store.append([Write("run/after", 0, (("t", b"{}"),))], key="after")
        held = cli("ledger", "restore", str(copy))
        assert (held.code, "is in use (backend " in held.said) == (3, True), held.said
        assert store.newest() == len(before) + 1
    assert cli("ledger", "catch-up").code == 0
    assert cli("ledger", "backup", str(copy)).code == 4  # It exists.
    done = cli("ledger", "restore", str(copy), "--json")
    assert (done.code, done.json["events"]) == (0, len(before)), done.said
    kept = done.json["kept"].removeprefix("the schema ")
    with Place(f"{postgres_server.url}#{kept}").ledger() as old:
        assert old.store.newest() == len(before) + 1
    with store_at(home) as store:
        assert store.read_all(limit=10**6) == before
        assert store.answer("after") is None
        store.append([Write("run/after", 0, (("t", b"{}"),))])
    Place(postgres_url).assert_intact(len(before) + 1)
    assert cli("ledger", "catch-up").code == 0
    assert list(tmp_path.glob("*.new")) == []
    postgres_server.drop({kept})


def test_a_ledger_that_was_moved_away_is_told_of_and_a_restore_goes_on(
    on_server: Cli, tmp_path: Path, postgres_server: PostgresServer, postgres_url: str
) -> None:
    cli, copy = on_server, tmp_path / "ledger.dump"
    assert cli("ledger", "backup", str(copy)).code == 0
    # As a crash of the first versions left it: the old ledger is renamed, and none is there.
    schema = parse_address(postgres_url).schema
    away = f"{schema}_before_20261120_030000"
    postgres_server.execute(f"ALTER SCHEMA {schema} RENAME TO {away}")
    for words in (["status"], ["doctor"], ["watch", "--until-idle"], ["init"]):
        said = cli("--store", postgres_url, *words)
        assert said.code != 0
        assert f"into the schema {away}, and nothing replaced it" in said.said, words
        assert "`watchkeeper ledger restore FILE`" in said.said
        assert f"`ALTER SCHEMA {away} RENAME TO {schema}`" in said.said
    done = cli("ledger", "restore", str(copy), "--json")
    assert (done.code, done.json["kept"]) == (0, None)
    assert cli("verify", "--offline").code == 0
    postgres_server.drop({away})


def stand_in(place: Path, name: str, lines: str) -> None:
    """A program of PostgreSQL with something before or after it; `$real` is the real one."""
    script = place / name
    script.write_text(f"#!/bin/sh\nreal={shutil.which(name)}\n{lines}\n")
    script.chmod(0o755)


def pausing(place: Path, seconds: float, then: str = "") -> None:
    """A `pg_restore` that takes a while before it unpacks for the server, and then may fail."""
    wait = f'case "$*" in *--no-owner*) sleep {seconds}; {then} ;; esac'
    stand_in(place, "pg_restore", f'{wait}\nexec $real "$@"')


def reached(mark: Path) -> bool:
    return clock.ExponentialBackoff(maximum=timedelta(milliseconds=100)).wait_until(
        mark.exists, timedelta(seconds=60)
    )


UNPACKING = 'case "$*" in *--no-owner*) $real "$@"; touch $MARK; cat $FIFO >/dev/null ;; esac'
"""Everything was given to the server, and nothing of it is committed."""

UNPACKED = '$real "$@"; code=$?; touch $MARK; cat $FIFO >/dev/null; exit $code'
"""The copy is on the server, under a name of its own."""


@pytest.mark.parametrize(
    ("program", "lines", "copied"),
    [
        pytest.param("pg_restore", UNPACKING, False, id="while it is unpacked"),
        pytest.param("psql", UNPACKED, True, id="before it is put in place"),
    ],
)
def test_a_restore_that_is_killed_leaves_the_ledger_and_is_told_of(
    on_server: Cli,
    home: Path,
    tmp_path: Path,
    postgres_server: PostgresServer,
    postgres_url: str,
    monkeypatch: pytest.MonkeyPatch,
    program: str,
    lines: str,
    copied: bool,
) -> None:
    cli, copy, schema = on_server, tmp_path / "ledger.dump", parse_address(postgres_url).schema
    assert cli("ledger", "backup", str(copy)).code == 0
    with store_at(home) as store:
        store.append([Write("run/after", 0, (("t", b"{}"),))])
        newest = store.newest()
    mark, fifo, programs = tmp_path / "reached", tmp_path / "held", tmp_path / "programs"
    os.mkfifo(fifo)
    programs.mkdir()
    stand_in(programs, program, f'{lines}\nexec $real "$@"')
    restoring = subprocess.Popen(
        [WATCHKEEPER, "ledger", "restore", str(copy)],
        env={
            **os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "MARK": str(mark), "FIFO": str(fifo),
        },
        start_new_session=True,
    )  # fmt: skip
    assert reached(mark)
    # The command alone; its programs notice when they next read or write.
    restoring.kill()
    restoring.wait(timeout=60)
    fifo.write_bytes(b"")
    # What was begun is rolled back, and the ledger is free again.
    asked = (
        "SELECT count(*) FROM pg_stat_activity WHERE application_name IN ('psql', 'watchkeeper')"
    )
    clock.ExponentialBackoff(maximum=timedelta(milliseconds=100)).wait_until_or_raise(
        lambda: postgres_server.execute(asked) == [(0,)], timedelta(seconds=30), "psql ends"
    )
    with store_at(home) as store:
        assert store.newest() == newest
        store.append([Write("run/after", 1, (("t", b"{}"),))])
    there = set(postgres_server.execute("SELECT nspname FROM pg_namespace"))
    assert ((f"{schema}_restoring",) in there) is copied
    assert not {name for (name,) in there if str(name).startswith(f"{schema}_before")}
    checks = {row["check"]: row for row in cli("doctor", "--json").json["checks"]}
    assert ("restore" in checks) is copied
    if copied:
        assert not checks["restore"]["ok"]
        assert f"its unused copy is in the schema {schema}_restoring" in checks["restore"]["says"]
        assert "`watchkeeper ledger restore FILE` again" in checks["restore"]["says"]
    done = cli("ledger", "restore", str(copy), "--json")
    assert (done.code, done.json["events"]) == (0, newest - 1), done.said
    kept = done.json["kept"].removeprefix("the schema ")
    assert (f"{schema}_restoring",) not in postgres_server.execute(
        "SELECT nspname FROM pg_namespace"
    )
    assert "restore" not in {row["check"] for row in cli("doctor", "--json").json["checks"]}
    assert cli("verify", "--offline").code == 0
    postgres_server.drop({kept})


def test_a_schema_that_only_has_the_name_of_a_copy_is_never_removed(
    on_server: Cli, tmp_path: Path, postgres_server: PostgresServer, postgres_url: str
) -> None:
    cli, copy, schema = on_server, tmp_path / "ledger.dump", parse_address(postgres_url).schema
    assert cli("ledger", "backup", str(copy)).code == 0
    postgres_server.execute(f"CREATE SCHEMA {schema}_restoring")
    postgres_server.execute(f"CREATE TABLE {schema}_restoring.migrations (theirs int)")
    said = cli("ledger", "restore", str(copy))
    assert said.code == 2
    assert f'schema "{schema}_restoring" already exists' in said.said
    assert "Nothing was restored" in said.said
    assert cli("verify", "--offline").code == 0
    postgres_server.drop({f"{schema}_restoring"})


def test_a_restore_whose_connection_is_lost_changes_nothing(
    on_server: Cli,
    home: Path,
    tmp_path: Path,
    postgres_server: PostgresServer,
    postgres_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cli, copy = on_server, tmp_path / "ledger.dump"
    assert cli("ledger", "backup", str(copy)).code == 0
    with store_at(home) as store:
        store.append([Write("run/after", 0, (("t", b"{}"),))])
        newest = store.newest()
    # As where the server restarts in the middle of it: the lock that keeps others out is gone.
    ours = "pg_stat_activity where application_name = 'watchkeeper'"
    cut = f"select pg_terminate_backend(pid) from {ours}"
    pausing(tmp_path, 0, f'psql -q -d {postgres_server.url} -c "{cut}" >/dev/null')
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    done = cli("ledger", "restore", str(copy))
    assert done.code == 2, done.said
    assert "Nothing was restored, and the ledger is unchanged" in done.said
    with store_at(home) as store:
        assert store.newest() == newest


@pytest.fixture
def roles(postgres_server: PostgresServer, postgres_url: str) -> Iterator[str]:
    """The beginning of the names of three roles: `_owner`, `_reader` and `_odd "one"`."""
    name = f"r{parse_address(postgres_url).schema}"
    for role in ("owner", "reader", 'odd ""one""'):
        postgres_server.execute(f'CREATE ROLE "{name}_{role}" LOGIN')
    yield name
    for role in ("owner", "reader", 'odd ""one""'):
        quoted = f'"{name}_{role}"'
        if postgres_server.execute(f"SELECT 1 FROM pg_roles WHERE rolname = '{name}_owner'"):
            postgres_server.execute(f"DROP OWNED BY {quoted} CASCADE")
            postgres_server.execute(f"DROP ROLE {quoted}")


RIGHTS = """SELECT kind, name, owner,
    (SELECT array_agg(one ORDER BY one COLLATE "C") FROM unnest(acl) AS one)
FROM (SELECT 'schema' AS kind, '' AS name, pg_get_userbyid(nspowner)::text AS owner,
    nspacl::text[] AS acl
FROM pg_namespace WHERE nspname = '{schema}'
UNION ALL SELECT relkind::text, relname::text, pg_get_userbyid(relowner)::text, relacl::text[]
FROM pg_class WHERE relnamespace = '{schema}'::regnamespace AND relkind = 'r'
UNION ALL SELECT 'column', attname::text, '', attacl::text[] FROM pg_attribute
JOIN pg_class ON attrelid = pg_class.oid AND relnamespace = '{schema}'::regnamespace
WHERE attacl IS NOT NULL
UNION ALL SELECT 'function', proname::text, pg_get_userbyid(proowner)::text, proacl::text[]
FROM pg_proc WHERE pronamespace = '{schema}'::regnamespace
UNION ALL SELECT 'default', defaclobjtype::text, pg_get_userbyid(defaclrole)::text,
    defaclacl::text[]
FROM pg_default_acl WHERE defaclnamespace = '{schema}'::regnamespace) AS things ORDER BY 1, 2, 3"""


def give_rights(server: PostgresServer, schema: str, roles: str) -> None:
    owner, reader, odd = (f'"{roles}_{role}"' for role in ("owner", "reader", 'odd ""one""'))
    tables = [
        name
        for (name,) in server.execute(
            f"SELECT relname FROM pg_class WHERE relnamespace = '{schema}'::regnamespace "
            "AND relkind = 'r'"
        )
    ]
    functions = [
        name
        for (name,) in server.execute(
            f"SELECT proname FROM pg_proc WHERE pronamespace = '{schema}'::regnamespace"
        )
    ]
    for statement in (
        f"ALTER SCHEMA {schema} OWNER TO {owner}",
        *(f"ALTER TABLE {schema}.{table} OWNER TO {owner}" for table in tables),
        *(f"ALTER FUNCTION {schema}.{function} OWNER TO {owner}" for function in functions),
        f"GRANT USAGE ON SCHEMA {schema} TO {reader}, {odd}",
        f"GRANT SELECT ON {schema}.events, {schema}.streams TO {reader}",
        f"GRANT SELECT ON {schema}.status TO {reader} WITH GRANT OPTION",
        f"GRANT SELECT (id, version) ON {schema}.events TO {odd}",
        f"REVOKE ALL ON FUNCTION {schema}.keep_rows() FROM PUBLIC",
        f"REVOKE TRUNCATE ON {schema}.events FROM {owner}",
        f"ALTER DEFAULT PRIVILEGES FOR ROLE {owner} IN SCHEMA {schema} "
        f"GRANT SELECT ON TABLES TO {reader}",
        f"COMMENT ON SCHEMA {schema} IS 'ours'",
    ):
        server.execute(statement)


@pytest.mark.parametrize("by_owner", [False, True], ids=["by a superuser", "by its owner"])
def test_owner_and_rights_are_those_of_the_ledger_that_was_there(
    on_server: Cli,
    tmp_path: Path,
    postgres_server: PostgresServer,
    postgres_url: str,
    roles: str,
    by_owner: bool,
) -> None:
    cli, copy, schema = on_server, tmp_path / "ledger.dump", parse_address(postgres_url).schema
    assert cli("ledger", "backup", str(copy)).code == 0
    give_rights(postgres_server, schema, roles)
    postgres_server.execute(f"CREATE VIEW {schema}.weekly AS SELECT 1")
    postgres_server.execute(f'GRANT SELECT ON {schema}.weekly TO "{roles}_reader"')
    asked = RIGHTS.format(schema=schema)
    before = postgres_server.execute(asked)
    as_owner = f"{postgres_server.url_at(postgres_server.port, user=f'{roles}_owner')}#{schema}"
    postgres_server.execute(f'GRANT CREATE ON DATABASE postgres TO "{roles}_owner"')
    who = as_owner if by_owner else postgres_url
    done = cli("--store", who, "ledger", "restore", str(copy), "--json")
    assert (done.code, done.json["not_granted"]) == (0, []), done.said
    assert done.json["roles"] == [f'"{roles}_odd ""one"""', f"{roles}_reader"]
    assert done.json["not_there"] == ["weekly"]
    assert postgres_server.execute(asked) == before
    kept = done.json["kept"].removeprefix("the schema ")
    said = "SELECT obj_description(oid, 'pg_namespace') FROM pg_namespace WHERE nspname = '{}'"
    assert postgres_server.execute(said.format(schema)) == [("ours",)]
    with Place(as_owner).ledger() as opened:
        opened.store.append([Write("run/after", 0, (("t", b"{}"),))])
    Place(postgres_url).assert_intact(done.json["events"] + 1)
    postgres_server.drop({kept})


def test_a_lost_ledger_comes_back_with_the_rights_in_the_archive_and_what_lacks_is_said(
    on_server: Cli, tmp_path: Path, postgres_server: PostgresServer, postgres_url: str, roles: str
) -> None:
    cli, copy, schema = on_server, tmp_path / "ledger.dump", parse_address(postgres_url).schema
    give_rights(postgres_server, schema, roles)
    assert cli("ledger", "backup", str(copy)).code == 0
    asked = RIGHTS.format(schema=schema)
    before = postgres_server.execute(asked)
    postgres_server.drop({schema})
    done = cli("ledger", "restore", str(copy), "--json")
    assert (done.code, done.json["kept"], done.json["not_granted"]) == (0, None, []), done.said
    assert postgres_server.execute(asked) == before
    # Elsewhere, where a role does not exist.
    postgres_server.drop({schema})
    postgres_server.execute(f'DROP ROLE "{roles}_reader"')
    done = cli("ledger", "restore", str(copy))
    assert done.code == 0, done.said
    assert "these rights could not be restored" in done.said
    assert f"GRANT SELECT ON TABLE {schema}.events TO {roles}_reader;" in done.said
    assert f'-- role "{roles}_reader" does not exist' in done.said
    assert f'rights as before for: "{roles}_odd ""one"""' in done.said
    assert cli("verify", "--offline").code == 0
    postgres_server.execute(f'CREATE ROLE "{roles}_reader"')


def test_an_archive_that_is_not_read_to_its_end_changes_nothing(
    on_server: Cli, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli, copy = on_server, tmp_path / "ledger.dump"
    assert cli("ledger", "backup", str(copy)).code == 0
    with store_at(home) as store:
        store.append([Write("run/after", 0, (("t", b"{}"),))])
        newest = store.newest()
    # All that the ledger needs has come, and still nobody knows what is missing.
    fails = 'case "$*" in *--no-owner*) $real "$@"; echo error: torn >&2; exit 1 ;; esac'
    stand_in(tmp_path, "pg_restore", f'{fails}\nexec $real "$@"')
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    done = cli("ledger", "restore", str(copy))
    assert (done.code, "torn. Nothing was restored" in done.said) == (2, True), done.said
    with store_at(home) as store:
        assert store.newest() == newest


def test_a_long_restore_keeps_the_ledger_to_itself_on_a_server_that_ends_idle_sessions(
    on_server: Cli, tmp_path: Path, postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli, copy = on_server, tmp_path / "ledger.dump"
    assert cli("ledger", "backup", str(copy)).code == 0
    pausing(tmp_path, 1.5, "exit 1")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    postgres_server.execute("ALTER DATABASE postgres SET idle_session_timeout = '500ms'")
    try:
        done = cli("ledger", "restore", str(copy))
    finally:
        postgres_server.execute("ALTER DATABASE postgres RESET idle_session_timeout")
    assert "could not be put back" not in done.said
    assert cli("verify", "--offline").code == 0


def test_what_is_no_whole_copy_of_this_ledger_is_refused_and_nothing_is_changed(
    on_server: Cli, home: Path, tmp_path: Path, postgres_server: PostgresServer
) -> None:
    cli, copy = on_server, tmp_path / "ledger.dump"
    assert cli("ledger", "backup", str(copy)).code == 0
    with store_at(home) as store:
        before = store.read_all(limit=10**6)
    torn, other, text = tmp_path / "torn", tmp_path / "other", tmp_path / "text"
    whole = copy.read_bytes()
    torn.write_bytes(whole[: len(whole) * 3 // 4])
    text.write_text("{}")
    postgres_server.execute("CREATE SCHEMA t_another")
    subprocess.run(
        ["pg_dump", "-Fc", "-n", "t_another", "-f", other, "-d", postgres_server.url],
        check=True, timeout=60,
    )  # fmt: skip
    for path, code, says in (
        (torn, 4, "the archive is damaged"),
        (other, 4, "t_another"),
        (text, 4, "is not an archive"),
        (tmp_path / "missing", 4, "cannot be read"),
    ):
        said = cli("ledger", "restore", str(path))
        assert (said.code, says in said.said) == (code, True), said.said
    wrong = cli("--store", "sqlite", "ledger", "restore", str(copy))
    assert (wrong.code, "ledger on PostgreSQL" in wrong.said) == (4, True)
    with store_at(home) as store:
        assert store.read_all(limit=10**6) == before
    postgres_server.drop({"t_another"})


def test_a_broken_ledger_is_not_copied_and_a_broken_copy_goes_again(
    on_server: Cli, home: Path, tmp_path: Path, postgres_url: str
) -> None:
    cli, copy, by_hand = on_server, tmp_path / "ledger.dump", tmp_path / "hand.dump"
    address = parse_address(postgres_url)
    tamper(Place(postgres_url), "UPDATE events SET state = 'x' WHERE id = 3")
    said = cli("ledger", "backup", str(copy))
    assert (said.code, "is broken, so no copy was kept" in said.said) == (1, True), said.said
    assert not copy.exists()
    subprocess.run(
        ["pg_dump", "-Fc", "-n", address.schema, "-f", by_hand, "-d", address.url],
        check=True, timeout=60,
    )  # fmt: skip
    tamper(Place(postgres_url), "DELETE FROM keys")
    put = cli("ledger", "restore", str(by_hand))
    assert (put.code, "is broken, nothing was changed" in put.said) == (4, True), put.said
    with store_at(home) as store:
        assert list(store.key_rows()) == []  # What was there is back.


def test_without_the_client_programs_it_is_said_what_to_do(
    on_server: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    said = on_server("ledger", "backup", str(tmp_path / "copy"))
    assert said.code == 2
    assert "pg_dump was not found" in said.said
    assert "ledger export" in said.said
