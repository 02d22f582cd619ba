"""How the kept views of a home are, for `status`, `doctor` and the health endpoint. No client."""

import json
import sqlite3
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

from watchkeeper import clock
from watchkeeper.adapters.views_file import FILE, glance
from watchkeeper.projections.lag import Lag, lag_document, lags, silent
from watchkeeper.views import ViewsFailure

_BUSY_S = 5.0

NEXT_EVENT = "SELECT state FROM events WHERE id > ? ORDER BY id LIMIT 1"
"""Read from the file itself, so that `status` imports neither store nor events."""


def read_lags(home: Path, newest: int, recorded_at: Callable[[int], datetime | None]) -> list[Lag]:
    """Return how far each view of a home is; none where no watch has begun any.

    Raises:
        ViewsFailure: They cannot be read.
    """
    seen = glance(home.expanduser() / FILE)
    if seen is None:
        return []
    builds, parked, beats = seen
    waiting = Counter(one.build for one in parked)
    return lags(builds, waiting, newest, recorded_at, clock.now(), followed=bool(beats))


def view_problems(home: Path, found: list[Lag]) -> list[str]:
    """Return a sentence for each view and each tailer that somebody has to look at."""
    seen = glance(home.expanduser() / FILE)
    beats = seen[2] if seen is not None else []
    told = [silent(one.holder, one.at, one.error, clock.now()) for one in beats]
    said = [f"{one.title}: {one.says}" for one in found if not one.well]
    return [*said, *(text for text in told if text)]


def told_of_file(home: Path) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the views that need someone, for programs and in sentences; of an SQLite ledger."""
    ledger = home.expanduser() / "ledger.db"
    try:
        uri = f"{ledger.absolute().as_uri()}?mode=ro"
        with closing(sqlite3.connect(uri, uri=True, timeout=_BUSY_S)) as connection:
            newest = connection.execute("SELECT max(id) FROM events").fetchone()[0] or 0

            def recorded_at(position: int) -> datetime | None:
                row = connection.execute(NEXT_EVENT, (position,)).fetchone()
                return None if row is None else time_recorded(row[0])

            found = read_lags(home, newest, recorded_at)
        ill = [lag_document(one) for one in found if not one.well]
        return ill, view_problems(home, found)
    except (ViewsFailure, sqlite3.Error) as error:
        return [], [f"views: {error}"]


def time_recorded(state: bytes) -> datetime | None:
    """Return when an event was recorded, from its bytes; none when they do not tell."""
    try:
        return datetime.fromisoformat(json.loads(state)["recorded_at"])
    except (ValueError, KeyError, TypeError):
        return None
