"""Chooses a ledger's store: the file in the home, or a PostgreSQL server.

The PostgreSQL client is imported only if a server is configured.
"""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from watchkeeper.adapters.ledger_choice import postgres_part
from watchkeeper.adapters.ledger_gone import no_ledger
from watchkeeper.adapters.store.postgres_address import parse_address
from watchkeeper.adapters.store.sqlite import open_at_rest, open_store
from watchkeeper.ports.event_store import EventStore, StatusRow, StoreFailure


@dataclass(frozen=True, slots=True)
class OpenLedger:
    """An open ledger.

    Attributes:
        store: As the service knows it.
        at_rest: It is read as it lies, on a mount that cannot be written.
    """

    store: EventStore
    at_rest: bool = False


@contextmanager
def open_ledger(
    chosen: str, file: Path, *, create: bool = False, reading: bool = False
) -> Generator[OpenLedger, None, None]:
    """Open a ledger for the length of a block.

    Args:
        chosen: URL of a PostgreSQL server; empty for the file.
        file: The file in the home.
        create: Create a missing file, or a missing schema on the server. Without this, a mistyped
        name cannot begin a second ledger.
        reading: Nothing will be stored, so a file on a read-only mount is accepted.

    Raises:
        StoreFailure: It could not be opened; the message says what to do.
    """
    if not chosen:
        if not create and not file.exists():
            raise StoreFailure(no_ledger(file.parent) or f"{file}: there is no ledger.")
        resting = open_at_rest(file) if reading else None
        with resting or open_store(file) as store:
            yield OpenLedger(store, at_rest=resting is not None)
        return
    address = parse_address(chosen)
    with postgres_part("postgres", "open_postgres", chosen)(address, create=create) as store:
        yield OpenLedger(store)


def read_at_rest(ledger: Path) -> str:
    """Return a note that a ledger on a read-only mount is read, and how far to trust it."""
    return f"{ledger}: read without locks, because its mount is read-only and nobody writes to it"


def rows_at_rest(file: Path) -> list[StatusRow] | None:
    """Return the status rows of a read-only file; None if it is not one."""
    store = open_at_rest(file)
    if store is None:
        return None
    with store:
        return store.status_rows()
