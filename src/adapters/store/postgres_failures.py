"""Explains PostgreSQL's errors: where, what failed, what is stored, what to do."""

from collections.abc import Generator
from contextlib import contextmanager

import psycopg

from watchkeeper.ports.event_store import NoFreeConnection, StoreFailure, StoreUnavailable

NOTHING_STORED = "Nothing was stored."

_ADVICE = {
    "22021": "A text holds a zero byte, which PostgreSQL cannot keep: leave it out.",
    "25006": "The server takes no writes now: it is a standby or was set to read only. Name "
    "the primary, or wait until this one is promoted.",
    "3D000": "Create the database first: `createdb`, or `CREATE DATABASE`.",
    "3F000": "Its schema is missing: restore a backup, or create an empty one with "
    "`watchkeeper init --store`.",
    "42501": "Its role lacks a right. It should own the schema: `ALTER SCHEMA ... OWNER TO`.",
    "42883": "Its schema is missing or damaged: run `watchkeeper verify`, and restore a backup.",
    "42P01": "Its schema is missing or damaged: run `watchkeeper verify`, and restore a backup.",
    "53100": "Free space on the server's disk, then try again.",
    "53200": "The server is out of memory: look at its log, then try again.",
    "53300": "The server has no free connection: close some, or raise max_connections.",
    "55P03": "Another process holds its lock: find it with `SELECT * FROM pg_locks WHERE "
    "locktype = 'advisory'` and stop it, then try again.",
    "57014": "It took too long: look at the server's load, then try again.",
    "57P03": "The server is starting or stopping: try again.",
    "XX001": "The server's files are damaged: stop everything that writes, and restore a backup.",
    "XX002": "The server's indexes are damaged: stop everything that writes; REINDEX, or restore "
    "a backup.",
}
"""By SQLSTATE, https://www.postgresql.org/docs/current/errcodes-appendix.html."""

_CONNECT_ADVICE = (
    (
        ("password", "authentication failed", "fe_sendauth"),
        "Set PGPASSWORD, or a line in ~/.pgpass, for this user.",
    ),
    (
        ("does not exist",),
        "Create the role and the database first: see the operators' guide, `PostgreSQL`.",
    ),
    (("too many c", "remaining connection slots"), _ADVICE["53300"]),
    (("starting up", "shutting down", "recovery"), _ADVICE["57P03"]),
    (("no pg_hba.conf entry",), "Allow this user and host in the server's pg_hba.conf."),
    (("SSL", "certificate"), "Check `sslmode` and the certificates that the URL names."),
)
"""Errors while connecting have no SQLSTATE in psycopg, only the server's words."""

_UNREACHED = "Check that the server runs and that this machine reaches it, then try again."

_WAIT = (_UNREACHED, _ADVICE["53300"], _ADVICE["57P03"])
"""Advice if the server is down for now, and nothing is wrong with the request."""

_LOCKED = "55P03"

_LOST_CLASSES = ("08", "57P0", "40003")
"""After one of these the connection is lost; whether a commit succeeded is unknown."""


def is_lost(error: psycopg.Error) -> bool:
    """Return whether the connection is lost, so that the outcome of its work is unknown.

    Any other error was sent by a server that rolled back.
    """
    if error.sqlstate is None:
        # Raised by the client: the server said nothing. What the client itself refuses to send,
        # such as a text with a zero byte, is a DataError or a ProgrammingError.
        return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
    return error.sqlstate.startswith(_LOST_CLASSES)


def failure(
    error: psycopg.Error, where: str, doing: str, *, outcome: str = NOTHING_STORED
) -> StoreFailure:
    """Put an error of PostgreSQL or of its client into a sentence.

    Args:
        error: What was raised.
        where: The ledger, in words that hold no secret.
        doing: What was under way, such as `append`.
        outcome: What is stored now.
    """
    said = _first_line(error)
    advice = _advice(error, said)
    # A wrong password on connecting looks the same; an earlier connection had the right one.
    # While it connects, who holds a lock restores a ledger, and that is not to be waited for.
    locked = error.sqlstate == _LOCKED and doing != "connect"
    away = locked or (is_lost(error) and (doing != "connect" or advice in _WAIT))
    kind = StoreUnavailable if away else StoreFailure
    if away and advice == _ADVICE["53300"]:
        kind = NoFreeConnection
    return kind(f"{where}: {doing} failed: {said}. {outcome} {advice}")


@contextmanager
def failures_named(where: str, doing: str) -> Generator[None, None, None]:
    """Turn every error of PostgreSQL inside the block into a `StoreFailure`."""
    try:
        yield
    except psycopg.Error as error:
        raise failure(error, where, doing) from error


def _first_line(error: psycopg.Error) -> str:
    primary = error.diag.message_primary
    if primary:
        return primary.rstrip(".")
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    # Of several addresses each has a line; the server's own words are at the end of the first.
    return (lines[0] if lines else type(error).__name__).rstrip(".")


def _advice(error: psycopg.Error, said: str) -> str:
    if error.sqlstate in _ADVICE:
        return _ADVICE[error.sqlstate]
    if isinstance(error, psycopg.OperationalError) and error.sqlstate is None:
        for words, advice in _CONNECT_ADVICE:
            if any(word in said for word in words):
                return advice
        return _UNREACHED
    if is_lost(error):
        return _UNREACHED
    return "Try again; if it fails again, run `watchkeeper verify`."
