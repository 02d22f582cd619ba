"""Replaces a ledger on PostgreSQL with an archive of `pg_dump`, in one step.

The archive knows only the ledger's schema, so it is unpacked there while the ledger has another
name. This happens inside one transaction that ends by exchanging the names, so other processes
always see the ledger. The copy is verified under its own name, and a second transaction puts it in
place. After a crash one of the ledgers is there, whole, and at most a copy that the next restore
removes.
"""

import logging
import re
from dataclasses import dataclass
from pathlib import Path

import psycopg

from watchkeeper.adapters.store.backup import BackupProblem, LedgerInUse
from watchkeeper.adapters.store.postgres_address import Address, parse_address, without_password
from watchkeeper.adapters.store.postgres_failures import is_lost
from watchkeeper.adapters.store.postgres_guard import Connection
from watchkeeper.adapters.store.postgres_link import LIMITS, Links
from watchkeeper.adapters.store.postgres_programs import (
    feed,
    found_program,
    output_of,
    refuse_damaged,
)
from watchkeeper.adapters.store.postgres_rights import (
    Granted,
    grant_as_archived,
    grant_as_before,
    rights_of,
)
from watchkeeper.adapters.store.postgres_schema import marks_of, schema_version
from watchkeeper.adapters.store.postgres_spare import (
    comment,
    copy_comment,
    copy_name,
    drop,
    kept_comment,
    kept_name,
    rename,
    spare,
)
from watchkeeper.adapters.store.postgres_verify import verify_postgres
from watchkeeper.ports.event_store import StoreFailure

ARCHIVE_BEGINS = b"PGDMP"
"""The first bytes of an archive of `pg_dump -Fc`."""

_SCHEMA_ENTRY = re.compile(r"^\d+; \d+ \d+ SCHEMA - (\S+)", re.MULTILINE)

_UNCHANGED = "Nothing was restored, and the ledger is unchanged."

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Restored:
    """The result of a restore.

    Attributes:
        events: The number of events in the ledger now.
        kept: The schema that holds the old ledger now; None if there was no old ledger.
        granted: The rights of other roles that the restored ledger has, and those it lacks.
    """

    events: int
    kept: str | None
    granted: Granted


def restore_postgres(url: str, copy: Path, stamp: str) -> Restored:
    """Replace an unused ledger with an archive; the old one is kept next to it.

    Owner and rights come from the old ledger, else from the archive, for roles that this server
    has.

    Args:
        url: The ledger, or the place for a new one.
        copy: Made by `back_up_postgres`, or by `pg_dump -Fc` of the same schema.
        stamp: The time, of digits; for the name of the old one.

    Raises:
        BackupProblem: The archive is not of this schema or broken, or the ledger is in use.
            Nothing was changed.
        StoreFailure: The server or a program failed; the message says what is there now.
    """
    address = parse_address(url)
    program, psql = found_program("pg_restore"), found_program("psql")
    links = Links(address, LIMITS, alone=True)
    try:
        _refuse_other_schema(links.where, address, program, copy)
        refuse_damaged(address, program, copy)
        with links.connect() as connection:
            _refuse_in_use(connection, address)
            _stay(connection)
            old = _is_there(connection, address.schema)
            _clear(connection, address.schema)
            try:
                _unpack(links.where, address, (program, psql), copy, old=old)
                unpacked = Address(address.url, copy_name(address.schema), address.password)
                report = verify_postgres(unpacked, alone=True)
                if report.problems:
                    first = report.problems[0].message
                    raise BackupProblem(f"{copy} is broken, nothing was changed: {first}")
                archived = () if old else _archived_rights(address, program, copy)
                kept = kept_name(address.schema, stamp) if old else None
                granted = _put(links, connection, address.schema, kept, archived)
            except BaseException:
                _left(connection, address.schema)
                raise
    except psycopg.Error as error:
        raise links.failure(error, "restore", _UNCHANGED) from error
    finally:
        links.close()
    return Restored(report.events, kept, granted)


def _unpack(
    where: str, address: Address, programs: tuple[str, str], copy: Path, *, old: bool
) -> None:
    """Unpack an archive next to the ledger, whole or not at all.

    Raises:
        StoreFailure: The server or a program failed; nothing was changed.
    """
    schema = address.schema
    # PostgreSQL accepts the length of both names, and no other process sees the second.
    parked, away = copy_name(schema), f"{schema}_away"
    begin = ["BEGIN", "SET LOCAL idle_in_transaction_session_timeout = 0"]
    end = [rename(schema, parked).as_string(), copy_comment(schema).as_string()]
    if old:
        begin.append(rename(schema, away).as_string())
        end.append(rename(away, schema).as_string())
    try:
        feed(
            where, address,
            (programs[0], "--file=-", "--no-owner", "--no-privileges", str(copy)),
            (programs[1], "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", "--no-password",
             f"--dbname={without_password(address.url)}"),
            before=_script(begin), after=_script([*end, "COMMIT"]),
        )  # fmt: skip
    except StoreFailure as error:
        raise StoreFailure(f"{error}. {_UNCHANGED}") from error


def _script(statements: list[str]) -> str:
    return "".join(f"{statement};\n" for statement in statements)


def _put(
    links: Links,
    connection: Connection,
    schema: str,
    kept: str | None,
    archived: tuple[str, ...],
) -> Granted:
    """Give the copy the ledger's name and rights, in one transaction.

    Raises:
        StoreFailure: The server failed; the message says what is there now.
    """
    committing = False
    try:
        with connection.transaction():
            before = rights_of(connection, schema)
            if kept is not None:
                connection.execute(rename(schema, kept))
                connection.execute(kept_comment(schema, kept))
            connection.execute(rename(copy_name(schema), schema))
            connection.execute(comment(schema, before.comment))
            if kept is None:
                granted = grant_as_archived(connection, schema, archived)
            else:
                granted = grant_as_before(connection, schema, before)
            committing = True
    except psycopg.Error as error:
        outcome = _UNCHANGED
        if committing and is_lost(error):
            outcome = (
                "It is unknown whether the copy is in place: `watchkeeper verify` shows the "
                "number of events."
            )
        raise links.failure(error, "restore", outcome) from error
    return granted


def _archived_rights(address: Address, program: str, copy: Path) -> tuple[str, ...]:
    said = output_of(str(copy), address, (program, "--file=-", "--schema-only", str(copy)))
    return tuple(found[0] for found in _RIGHT.finditer(said))


_RIGHT = re.compile(
    r"^(?:GRANT |REVOKE |ALTER DEFAULT PRIVILEGES |ALTER [^;]* OWNER TO )[^;]*;$", re.MULTILINE
)
"""Lines of `pg_dump` on owners and rights; each is one line."""


def _left(connection: Connection, schema: str) -> None:
    """Remove the copy; if that fails, `doctor` reports it and the next restore removes it."""
    try:
        _clear(connection, schema)
    except psycopg.Error as error:
        _LOG.warning("the schema %s could not be removed: %s", copy_name(schema), error)


def _clear(connection: Connection, schema: str) -> None:
    """Remove the copy of a restore that was cut short."""
    found = spare(connection, schema).copy
    if found:
        connection.execute(drop(found))


def _refuse_other_schema(where: str, address: Address, program: str, copy: Path) -> None:
    try:
        with copy.open("rb") as file:
            begins = file.read(len(ARCHIVE_BEGINS))
    except OSError as error:
        raise BackupProblem(f"{copy} cannot be read: {error}: nothing was changed") from error
    if begins != ARCHIVE_BEGINS:
        raise BackupProblem(
            f"{copy} is not an archive of `pg_dump -Fc`, nothing was changed. Move a copy of "
            "a ledger in a file, or an export, with `watchkeeper ledger export` and `ledger "
            "import`"
        )
    listed = output_of(where, address, (program, "--list", str(copy)))
    schemas = sorted(set(_SCHEMA_ENTRY.findall(listed)))
    if schemas != [address.schema]:
        found = ", ".join(schemas) or "none"
        raise BackupProblem(
            f"{copy} holds the schemas: {found}; expected only {address.schema}, nothing was "
            "changed. Restore another one with `pg_restore` into an empty database, and "
            "move it with `watchkeeper ledger export` and `ledger import`"
        )


def _refuse_in_use(connection: Connection, address: Address) -> None:
    """Lock the ledger exclusively until the connection ends; refuse while others have it open."""
    lock = marks_of(address.schema).use_lock
    if connection.execute("SELECT pg_try_advisory_lock(%s)", (lock,)).fetchone() == (True,):
        return
    rows = connection.execute(_USERS, (lock, lock)).fetchall()
    who = ", ".join(f"backend {pid} from {host}" for pid, host in rows)
    raise LedgerInUse(
        f"{address.shown} is in use ({who}): stop all watches and commands that use it, on "
        "every host, then try again. Nothing was changed"
    )


_USERS = """SELECT l.pid, coalesce(host(a.client_addr), 'the server''s host')
FROM pg_locks AS l LEFT JOIN pg_stat_activity AS a USING (pid)
WHERE l.locktype = 'advisory' AND l.objsubid = 1 AND l.granted
    AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND l.classid::bigint = (%s::bigint >> 32) & 4294967295
    AND l.objid::bigint = %s::bigint & 4294967295
ORDER BY l.pid"""


def _is_there(connection: Connection, schema: str) -> bool:
    """Return whether there is a ledger that the copy replaces.

    Raises:
        BackupProblem: Its schema is something else's.
    """
    asked = "SELECT 1 FROM pg_namespace WHERE nspname = %s"
    if connection.execute(asked, (schema,)).fetchone() is None:
        return False
    if schema_version(connection) is None:
        raise BackupProblem(
            f"the schema {schema} exists without a ledger: drop it or name another one. "
            "Nothing was changed"
        )
    return True


def _stay(connection: Connection) -> None:
    """Keep the connection, and its lock, while another program works; since PostgreSQL 14."""
    connection.execute(
        "SELECT set_config(name, '0', false) FROM pg_settings WHERE name = 'idle_session_timeout'"
    )
