"""Backups of a ledger on PostgreSQL, made by the server's own `pg_dump`."""

import os
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import psycopg

from watchkeeper.adapters.store.backup import BackupProblem, LedgerBroken
from watchkeeper.adapters.store.postgres_address import parse_address, without_password
from watchkeeper.adapters.store.postgres_guard import Connection
from watchkeeper.adapters.store.postgres_link import LIMITS, Links
from watchkeeper.adapters.store.postgres_programs import found_program, refuse_damaged, run_program
from watchkeeper.adapters.store.postgres_verify import verify_postgres
from watchkeeper.ports.event_store import StoreFailure

LOCK_WAIT = timedelta(seconds=30)
"""How long `pg_dump` waits for a process that changes tables, such as a migration."""


def back_up_postgres(url: str, to: Path) -> int:
    """Copy a ledger that may be in use into an archive, whole or not at all.

    The verified and the copied data are one snapshot. No other process waits for it.

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
        raise BackupProblem(f"{to} exists: choose a new name, or move the old file")
    if not to.parent.is_dir():
        raise BackupProblem(f"{to.parent} is not a folder: create it, or choose another file")
    address = parse_address(url)
    dump, look = found_program("pg_dump"), found_program("pg_restore")
    new = to.with_name(f"{to.name}.new")
    new.unlink(missing_ok=True)
    links = Links(address, LIMITS)
    try:
        links.prepare(create=False)
        # Everything that was ever recorded: for its owner, wherever it is put.
        os.close(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        with links.connect() as connection:
            snapshot = _snapshot(connection)
            report = verify_postgres(address, snapshot=snapshot)
            if report.problems:
                first = report.problems[0].message
                raise LedgerBroken(f"{address.shown} is broken, so no copy was kept: {first}")
            run_program(
                links.where, address,
                (dump, "--format=custom", f"--schema={address.schema}", f"--snapshot={snapshot}",
                 f"--lock-wait-timeout={int(LOCK_WAIT.total_seconds() * 1000)}", "--no-password",
                 f"--file={new}", f"--dbname={without_password(address.url)}"),
            )  # fmt: skip
        # Everything is unpacked once: a disk that lost a part of it is found now.
        refuse_damaged(address, look, new)
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


def _snapshot(connection: Connection) -> str:
    """Begin a transaction whose snapshot others may share while it is open."""
    connection.execute("SET idle_in_transaction_session_timeout = 0")
    connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    row = connection.execute("SELECT pg_export_snapshot()").fetchone()
    assert row is not None, "a function returns a row"
    return str(row[0])
