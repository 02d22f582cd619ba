"""Copies of a ledger on PostgreSQL by the server's own programs, `pg_dump` and `pg_restore`.

They are found on the PATH and must be of the server's major version or a newer one. A password
goes to them in the environment, where other users do not see it, and never as an argument.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import psycopg
from psycopg import sql

from watchkeeper.adapters.store.backup import BackupProblem
from watchkeeper.adapters.store.postgres_address import Address, parse_address, without_password
from watchkeeper.adapters.store.postgres_link import LIMITS, Connection, Links
from watchkeeper.adapters.store.postgres_schema import marks_of, schema_version
from watchkeeper.adapters.store.postgres_verify import verify_postgres
from watchkeeper.event_store import StoreFailure

PROGRAM_LIMIT = timedelta(hours=6)
"""One run of `pg_dump` or `pg_restore`: some 100 GB. The server's own time limits do not hold."""

LOCK_WAIT = timedelta(seconds=30)
"""What `pg_dump` waits for somebody who changes tables, such as a migration."""

ARCHIVE_BEGINS = b"PGDMP"
"""The first bytes of an archive of `pg_dump -Fc`."""

_NAME_KEPT = 25
"""Characters of a schema's name in the one of its kept copy, which a URL must be able to name."""

_SCHEMA_ENTRY = re.compile(r"^\d+; \d+ \d+ SCHEMA - (\S+)", re.MULTILINE)


def back_up_postgres(url: str, to: Path) -> int:
    """Copy a ledger that may be in use into an archive, whole or not at all.

    What is proved, as by `verify`, and what is copied are one snapshot. Nobody waits for it.

    Args:
        url: The ledger.
        to: The archive; must not exist.

    Returns:
        The number of events in it.

    Raises:
        BackupProblem: The file exists, or the ledger is broken; nothing was kept.
        StoreFailure: The server or the program failed; the message says what to do.
    """
    if to.exists():
        raise BackupProblem(f"{to} exists: name a new file, or move that one away")
    if not to.parent.is_dir():
        raise BackupProblem(f"{to.parent} is no folder: create it, or name another file")
    address = parse_address(url)
    dump, look = _program("pg_dump"), _program("pg_restore")
    new = to.with_name(f"{to.name}.new")
    new.unlink(missing_ok=True)
    links = Links(address, LIMITS)
    try:
        links.prepare(create=False)
        with links.connect() as connection:
            snapshot = _snapshot(connection)
            report = verify_postgres(address, snapshot=snapshot)
            if report.problems:
                first = report.problems[0].message
                raise BackupProblem(f"{address.shown} is broken, so no copy was kept: {first}")
            _run(
                links.where, address,
                (dump, "--format=custom", f"--schema={address.schema}", f"--snapshot={snapshot}",
                 f"--lock-wait-timeout={int(LOCK_WAIT.total_seconds() * 1000)}", "--no-password",
                 f"--file={new}", f"--dbname={without_password(address.url)}"),
            )  # fmt: skip
        # Everything is unpacked once: a disk that lost a part of it is found now.
        _unpacked(address, look, new)
        with new.open("rb") as file:
            os.fsync(file.fileno())
        new.replace(to)
    except psycopg.Error as error:
        raise links.failure(error, "back up", "No copy was kept.") from error
    except OSError as error:
        raise StoreFailure(f"{to}: the copy could not be written: {error}") from error
    finally:
        with suppress(OSError):
            new.unlink(missing_ok=True)
        links.close()
    return report.events


def restore_postgres(url: str, copy: Path, stamp: str) -> tuple[int, str | None]:
    """Put an archive in the place of a ledger that nobody uses; the old one is kept beside it.

    The ledger that is there is renamed, and the archive put in its place in one transaction. A
    crash between the two leaves no ledger, which every command tells; the same restore again then
    goes on.

    Args:
        url: The ledger, or where one is to be.
        copy: Made by `back_up_postgres`, or by `pg_dump -Fc` of the same schema.
        stamp: The time, of digits; for the name of the old one.

    Returns:
        The number of events, and the schema that the old ledger is in now; none without one.

    Raises:
        BackupProblem: The archive is not of this schema or broken, or the ledger is in use.
            Nothing was changed.
        StoreFailure: The server or the program failed; the message says what is there now.
    """
    address = parse_address(url)
    program = _program("pg_restore")
    links = Links(address, LIMITS, alone=True)
    try:
        _refuse_other_schema(links.where, address, program, copy)
        _unpacked(address, program, copy)
        with links.connect() as connection:
            _refuse_in_use(connection, address)
            _stay(connection)
            kept = _moved_away(connection, address.schema, stamp)
            try:
                _run(
                    links.where, address,
                    (program, "--single-transaction", "--exit-on-error", "--no-owner",
                     "--no-privileges", "--no-password",
                     f"--dbname={without_password(address.url)}", str(copy)),
                )  # fmt: skip
                report = verify_postgres(address, alone=True)
                if report.problems:
                    first = report.problems[0].message
                    raise BackupProblem(f"{copy} is broken, nothing was changed: {first}")
            except BaseException:
                try:
                    _moved_back(connection, address.schema, kept)
                except psycopg.Error as error:
                    raise links.failure(error, "restore", _left(address.schema, kept)) from error
                raise
    except psycopg.Error as error:
        raise links.failure(error, "restore", "Nothing was restored.") from error
    finally:
        links.close()
    return report.events, kept


def _snapshot(connection: Connection) -> str:
    """Begin a transaction whose view of the ledger others may share, for as long as it is open."""
    connection.execute("SET idle_in_transaction_session_timeout = 0")
    connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    row = connection.execute("SELECT pg_export_snapshot()").fetchone()
    assert row is not None, "a function returns a row"
    return str(row[0])


def _program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise StoreFailure(
            f"{name} was not found on this machine. Nothing was changed. Install PostgreSQL's "
            "client programs, of the server's version or newer (Debian: `apt-get install "
            "postgresql-client`). Without them `watchkeeper ledger export -o FILE.jsonl.gz` copies "
            "the whole ledger, and `watchkeeper ledger import` puts it into an empty one."
        )
    return found


def _run(where: str, address: Address, command: Sequence[str]) -> None:
    """Run one of the programs to its end; its output is for nobody.

    Raises:
        StoreFailure: It failed, or took too long.
    """
    _said(where, address, command, subprocess.DEVNULL)


def _unpacked(address: Address, program: str, copy: Path) -> None:
    """Read an archive whole.

    Raises:
        BackupProblem: It is damaged.
    """
    try:
        _run(str(copy), address, (program, "--file=-", str(copy)))
    except StoreFailure as error:
        raise BackupProblem(f"the archive is damaged, nothing was changed: {error}") from error


def _said(where: str, address: Address, command: Sequence[str], output: int) -> str:
    name = Path(command[0]).name
    seconds = str(int(LIMITS.connect.total_seconds()))
    environ = {**os.environ, "PGAPPNAME": name, "PGCONNECT_TIMEOUT": seconds, "LC_ALL": "C.UTF-8"}
    if address.password:
        environ["PGPASSWORD"] = address.password
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.PIPE, env=environ,
            text=True, errors="replace", timeout=PROGRAM_LIMIT.total_seconds(), check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        hours = PROGRAM_LIMIT / timedelta(hours=1)
        raise StoreFailure(
            f"{where}: {name} took more than {hours:.0f} h and was ended."
        ) from error
    except OSError as error:
        raise StoreFailure(f"{where}: {name} could not be started: {error}") from error
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if "rror" in line or "FATAL" in line]
        why = (lines or done.stderr.splitlines() or [f"exit code {done.returncode}"])[0]
        if "version mismatch" in done.stderr:
            why += " (install the client programs of the server's version)"
        if address.password:
            why = why.replace(address.password, "***")
        raise StoreFailure(f"{where}: {why.removeprefix(f'{name}: ').removeprefix('error: ')}")
    return done.stdout or ""


def _refuse_other_schema(where: str, address: Address, program: str, copy: Path) -> None:
    try:
        with copy.open("rb") as file:
            begins = file.read(len(ARCHIVE_BEGINS))
    except OSError as error:
        raise BackupProblem(f"{copy} cannot be read: {error}: nothing was changed") from error
    if begins != ARCHIVE_BEGINS:
        raise BackupProblem(
            f"{copy} is no archive of `pg_dump -Fc`, nothing was changed. A copy of a ledger in a "
            "file, or an export, is moved by `watchkeeper ledger export` and `ledger import`"
        )
    listed = _said(where, address, (program, "--list", str(copy)), subprocess.PIPE)
    schemas = sorted(set(_SCHEMA_ENTRY.findall(listed)))
    if schemas != [address.schema]:
        found = ", ".join(schemas) or "none"
        raise BackupProblem(
            f"{copy} holds the schemas: {found}; expected only {address.schema}, nothing was "
            "changed. Restore another one by `pg_restore` into an empty database, and move it by "
            "`watchkeeper ledger export` and `ledger import`"
        )


def _refuse_in_use(connection: Connection, address: Address) -> None:
    """Have the ledger alone until the connection ends; refuse while others have it open."""
    lock = marks_of(address.schema).use_lock
    if connection.execute("SELECT pg_try_advisory_lock(%s)", (lock,)).fetchone() == (True,):
        return
    rows = connection.execute(_USERS, (lock, lock)).fetchall()
    who = ", ".join(f"backend {pid} from {host}" for pid, host in rows)
    raise BackupProblem(
        f"{address.shown} is in use ({who}): end all watches and commands that use it, on every "
        "host, then try again. Nothing was changed"
    )


_USERS = """SELECT l.pid, coalesce(host(a.client_addr), 'the server''s host')
FROM pg_locks AS l LEFT JOIN pg_stat_activity AS a USING (pid)
WHERE l.locktype = 'advisory' AND l.objsubid = 1 AND l.granted
    AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND l.classid::bigint = (%s::bigint >> 32) & 4294967295
    AND l.objid::bigint = %s::bigint & 4294967295
ORDER BY l.pid"""


def _moved_away(connection: Connection, schema: str, stamp: str) -> str | None:
    there = connection.execute(
        "SELECT 1 FROM pg_namespace WHERE nspname = %s", (schema,)
    ).fetchone()
    if there is None:
        return None
    if schema_version(connection) is None:
        raise BackupProblem(
            f"the schema {schema} is there and holds no ledger: drop it or name another one. "
            "Nothing was changed"
        )
    kept = f"{schema[:_NAME_KEPT]}_before_{stamp}"
    connection.execute(_rename(schema, kept))
    return kept


def _moved_back(connection: Connection, schema: str, kept: str | None) -> None:
    """Undo: what was restored and found broken goes, and the old ledger comes back."""
    with connection.transaction():
        connection.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(_named(schema)))
        if kept is not None:
            connection.execute(_rename(kept, schema))


def _left(schema: str, kept: str | None) -> str:
    if kept is None:
        return "There was no ledger before."
    return (
        f"The ledger that was there could not be put back: it is whole, in the schema {kept}. "
        f"Restore again, or put it back by `ALTER SCHEMA {kept} RENAME TO {schema}`."
    )


def _stay(connection: Connection) -> None:
    """Keep the connection, and its lock, while another program works; since PostgreSQL 14."""
    connection.execute(
        "SELECT set_config(name, '0', false) FROM pg_settings WHERE name = 'idle_session_timeout'"
    )


def _rename(schema: str, to: str) -> sql.Composed:
    return sql.SQL("ALTER SCHEMA {} RENAME TO {}").format(_named(schema), _named(to))


def _named(schema: str) -> sql.Identifier:
    return sql.Identifier(schema)
