"""Health of the signal sources: the watch writes it, `status` reads it.

`doctor` reads it, too. It is a file next to the ledger, for people: no rule reads it, and it may be
deleted. Imports no client and no event models, because `status` pays for each import.
"""

import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import datetime, timedelta
from pathlib import Path
from threading import Lock
from typing import Any

from watchkeeper import clock
from watchkeeper.projections.figures import elapsed

FILE = "signals.json"

REPORTED_EVERY = timedelta(seconds=15)
"""The longest time between two writings while the watch lives."""

SILENT_AFTER = timedelta(seconds=90)
"""A file that is older was left by a watch that was killed: six writings are missing."""

_WELL = ("listening", "stopped")


@dataclass(frozen=True, slots=True)
class Source:
    """The health of one subscription.

    Attributes:
        name: Its full name.
        state: `connecting`, `listening`, `unreachable`, `failing` or `stopped`.
        since: When this state began, as ISO 8601.
        says: The reason, if it is not well.
        taken: Messages taken since the watch began.
        unsettled: Messages whose acknowledgement failed: they come again, and change nothing.
        returned: Messages returned because our own side failed.
        last_at: Time of the newest message, as ISO 8601; empty before the first.
        lag_s: Its age by its time of publication; None if it has no such time.
    """

    name: str
    state: str = "connecting"
    since: str = ""
    says: str = ""
    taken: int = 0
    unsettled: int = 0
    returned: int = 0
    last_at: str = ""
    lag_s: float | None = None


@dataclass(slots=True)
class Board:
    """The reports of one process's sources; written as a whole, at a limited rate.

    Args:
        write: Writes the file, whole or not at all.
        say: Called with a warning if the file cannot be written. This failure ends nothing.
    """

    write: Callable[[bytes], None]
    say: Callable[[str], None]
    _sources: dict[str, Source] = field(default_factory=dict[str, Source])
    _written: clock.Timer | None = None
    _lock: Lock = field(default_factory=Lock)

    def state(self, name: str, state: str, says: str = "") -> bool:
        """Record a source's state; return whether it changed."""
        with self._lock:
            known = self._sources.get(name, Source(name))
            changed = known.state != state or name not in self._sources
            since = clock.now().isoformat() if changed else known.since
            self._sources[name] = replace(known, state=state, since=since, says=says)
            if changed or known.says != says:
                self._write()
        return changed

    def took(self, name: str, received_at: datetime, published_at: datetime | None) -> None:
        """Record that a message was taken."""
        with self._lock:
            known = self._sources.get(name, Source(name))
            lag_s = None
            if published_at is not None:
                lag_s = round((received_at - published_at).total_seconds(), 3)
            self._sources[name] = replace(
                known, taken=known.taken + 1, last_at=received_at.isoformat(), lag_s=lag_s
            )
            self._write_if_due()

    def count(self, name: str, *, unsettled: int = 0, returned: int = 0) -> None:
        """Record failed acknowledgements and returned messages."""
        with self._lock:
            known = self._sources.get(name, Source(name))
            self._sources[name] = replace(
                known,
                unsettled=known.unsettled + unsettled,
                returned=known.returned + returned,
            )
            self._write_if_due()

    def beat(self) -> None:
        """Record that the process lives, if a record is due."""
        with self._lock:
            self._write_if_due()

    def source(self, name: str) -> Source:
        """Return the record of a source."""
        with self._lock:
            return self._sources.get(name, Source(name))

    def _write_if_due(self) -> None:
        if self._written is None or self._written.elapsed() >= REPORTED_EVERY:
            self._write()

    def _write(self) -> None:
        document: dict[str, Any] = {
            "written_at": clock.now().isoformat(),
            "pid": os.getpid(),
            "sources": [asdict(source) for source in self._sources.values()],
        }
        self._written = clock.Timer()
        try:
            self.write((json.dumps(document, indent=2) + "\n").encode())
        except OSError as error:
            self.say(f"{FILE} was not written: {error}")


@dataclass(frozen=True, slots=True)
class Reported:
    """The content of the file.

    Attributes:
        sources: Each source.
        written_at: When it was written.
    """

    sources: tuple[Source, ...]
    written_at: datetime


def read_reported(home: Path) -> Reported | None:
    """Return the newest watch's report on its sources; None if missing or unreadable.

    The file is no record: a damaged one is ignored, and the next watch writes it again.
    """
    try:
        document = json.loads((home / FILE).read_text(encoding="utf-8"))
        known = {one.name for one in fields(Source)}
        rows = [{k: v for k, v in row.items() if k in known} for row in document["sources"]]
        written_at = datetime.fromisoformat(document["written_at"])
        return Reported(tuple(Source(**row) for row in rows), written_at)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def sentence(source: Source, reported: Reported, now: datetime) -> tuple[bool, str]:
    """Return whether a source is well, and its health in one line."""
    said = [source.state]
    well = source.state in _WELL
    if source.state != "stopped" and now - reported.written_at > SILENT_AFTER:
        ago = elapsed(now - reported.written_at)
        return False, f"{source.name}: no sign of life for {ago}: the listening watch is gone"
    if source.since:
        said = [f"{source.state} for {elapsed(now - datetime.fromisoformat(source.since))}"]
    if source.says:
        said.append(source.says)
    if source.last_at:
        ago = elapsed(now - datetime.fromisoformat(source.last_at))
        lag = "" if source.lag_s is None else f", {source.lag_s:.3g} s after its publication"
        said.append(f"last message {ago} ago{lag}")
    elif source.state == "listening":
        said.append("no message yet")
    if source.returned:
        said.append(f"{source.returned} returned")
    if source.unsettled:
        said.append(f"{source.unsettled} acknowledgements failed")
    return well, f"{source.name}: {'; '.join(said)}"
