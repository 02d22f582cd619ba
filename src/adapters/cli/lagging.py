"""How far views lag, for `status`, `doctor` and health. Imports no client."""

import json
import sqlite3
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from watchkeeper import clock
from watchkeeper.adapters.ledger_choice import postgres_part
from watchkeeper.adapters.views_file import FILE, glance
from watchkeeper.ports.event_store import EventStore, StoreFailure
from watchkeeper.ports.views import ViewsFailure
from watchkeeper.projections.views.lag import Lag, lag_document, lags, silent

_BUSY_S = 5.0

NEXT_EVENT = "SELECT state FROM events WHERE id > ? ORDER BY id LIMIT 1"
"""SQL on the file itself, so that `status` imports neither the store nor the events."""


def read_lags(
    home: Path, newest: Callable[[], int], recorded_at: Callable[[int], datetime | None]
) -> list[Lag]:
    """Return the lag of each view of a home; empty if no watch has built any view.

    Args:
        home: The home's folder.
        newest: Returns the ledger's newest position. It is called after the views were read.
            Otherwise a busy view worker could make the views look ahead of the ledger.
        recorded_at: Returns when the first event after a position was recorded.

    Raises:
        ViewsFailure: The views cannot be read.
    """
    seen = glance(home.expanduser() / FILE)
    if seen is None:
        return []
    builds, beats = seen
    return lags(builds, newest(), recorded_at, clock.now(), followed=bool(beats))


def lags_of(store: EventStore, folder: Path) -> list[Lag]:
    """Return the lag of each view in a folder behind an open ledger, for any store."""

    def recorded_at(position: int) -> datetime | None:
        found = store.read_all(after=position, limit=1)
        return time_recorded(found[0].state) if found else None

    return read_lags(folder, store.newest, recorded_at)


def view_problems(home: Path, found: list[Lag]) -> list[str]:
    """Return a sentence for each view and each view worker that needs a person."""
    seen = glance(home.expanduser() / FILE)
    beats = seen[1] if seen is not None else []
    silences = [silent(one.holder, one.at, one.error, clock.now()) for one in beats]
    said = [f"{one.title}: {one.says}" for one in found if not one.well]
    return [*said, *(text for text in silences if text)]


def report_of_home(home: Path, chosen: str) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the views of a home as rows for programs, and their problems as sentences.

    The home is not opened.

    Args:
        home: The home's folder.
        chosen: URL of the server that holds the ledger, or "" for the home's file.
    """
    try:
        if not (home.expanduser() / FILE).exists():
            return [], []
        with _look(home, chosen) as look:
            found = read_lags(home, look.newest, look.recorded_at)
        return [lag_document(one) for one in found], view_problems(home, found)
    except (ViewsFailure, StoreFailure, sqlite3.Error) as error:
        return [], [f"views: {error}"]


@dataclass(frozen=True, slots=True)
class _Look:
    """Reads the newest position and an event's bytes, from a file or from a server."""

    newest: Callable[[], int]
    ask_after: Callable[[int], bytes | None]

    def recorded_at(self, position: int) -> datetime | None:
        state = self.ask_after(position)
        return None if state is None else time_recorded(state)


@contextmanager
def _look(home: Path, chosen: str) -> Generator[_Look, None, None]:
    if chosen:
        with postgres_part("postgres_rows", "looking", chosen)(chosen) as (newest, after):
            yield _Look(newest, after)
        return
    uri = f"{(home.expanduser() / 'ledger.db').absolute().as_uri()}?mode=ro"
    with closing(sqlite3.connect(uri, uri=True, timeout=_BUSY_S)) as connection:

        def first(query: str, *values: int) -> Any:
            row = connection.execute(query, values).fetchone()
            return None if row is None else row[0]

        yield _Look(
            lambda: first("SELECT max(id) FROM events") or 0,
            lambda position: first(NEXT_EVENT, position),
        )


def time_recorded(state: bytes) -> datetime | None:
    """Return when an event was recorded, or `None` if its bytes do not contain it."""
    try:
        return datetime.fromisoformat(json.loads(state)["recorded_at"])
    except (ValueError, KeyError, TypeError):
        return None
