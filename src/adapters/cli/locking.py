"""Another process keeps the ledger to itself: all can be read, and nothing recorded. No client."""

from datetime import timedelta
from pathlib import Path
from typing import Any

from watchkeeper.adapters.ledger_choice import postgres_part
from watchkeeper.adapters.load import load
from watchkeeper.adapters.watched import is_watched
from watchkeeper.ports.event_store import EventStore, StoreFailure

_LIMIT = timedelta(seconds=3)
"""How long whoever has the ledger is waited for: an append takes milliseconds."""


def why_locked(store: EventStore) -> str:
    """Say why nothing can be appended to an open ledger; empty where it can."""
    try:
        # As a watch asks that waits for it (`away`): what is locked can be read all the while.
        store.append([])
    except StoreFailure as error:
        return str(error)
    return ""


def locked_of_home(home: Path, chosen: str) -> str:
    """Say why nothing is recorded though a watch runs; empty where something can be, or none runs.

    It imports the store, and may take some seconds: for a home whose checks are late.

    Args:
        home: Its folder.
        chosen: URL of the server that keeps its ledger; empty for its file.
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
