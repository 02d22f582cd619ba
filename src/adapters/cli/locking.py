"""Whether another process has locked the ledger. Imports no client."""

from datetime import timedelta
from pathlib import Path
from typing import Any

from watchkeeper.adapters.ledger_choice import postgres_part
from watchkeeper.adapters.load import load
from watchkeeper.adapters.watched import is_watched
from watchkeeper.ports.event_store import EventStore, StoreFailure

_LIMIT = timedelta(seconds=3)
"""How long to wait for the lock. An append takes milliseconds."""


def why_locked(store: EventStore) -> str:
    """Return why nothing can be appended to an open ledger, or ""."""
    try:
        # The same check as in a waiting watch (`away`). A locked ledger can still be read.
        store.append([])
    except StoreFailure as error:
        return str(error)
    return ""


def locked_of_home(home: Path, chosen: str) -> str:
    """Return why a running watch records nothing, or "" if it can record or no watch runs.

    The call imports the store and may take some seconds. Use it only if checks are late.

    Args:
        home: The home's folder.
        chosen: URL of the server that holds the ledger, or "" for the home's file.
    """
    try:
        if not is_watched(home):
            return ""
    except OSError:
        return ""
    try:
        with _opened(home, chosen) as store:
            return why_locked(store)
    except StoreFailure as error:
        return str(error)


def _opened(home: Path, chosen: str) -> Any:
    if not chosen:
        return load("store.sqlite", "open_store")(home / "ledger.db", busy_limit=_LIMIT)
    limits = postgres_part("postgres_link", "Limits", chosen)(lock=_LIMIT, reconnect=timedelta(0))
    address = load("store.postgres_address", "parse_address")(chosen)
    return load("store.postgres", "open_postgres")(address, limits=limits)
