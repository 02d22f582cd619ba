"""How far the kept views lag behind the ledger, and whether someone must look.

Standard library only, since `status` shows it too.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Protocol

from watchkeeper.projections.figures import count, elapsed

LATE = timedelta(seconds=60)
"""A followed view is level within a second. A view that is this late is no longer followed."""

SILENT = timedelta(seconds=60)
"""A view worker sends a heartbeat every few seconds. After this silence it hangs or was killed."""

STILL = timedelta(minutes=2)
"""An active build moves several times a second."""

BEHIND_MAX = 10_000
"""The events that a view may be behind while no watch runs: some seconds of catching up."""


class AnyBuild(Protocol):
    """The parts of a build that are read; see `watchkeeper.ports.views.Build`."""

    @property
    def name(self) -> str:
        """The projection."""
        ...

    @property
    def version(self) -> int:
        """Of the projection."""
        ...

    @property
    def state(self) -> str:
        """`live` or `building`."""
        ...

    @property
    def position(self) -> int:
        """The newest event that it has seen."""
        ...

    @property
    def moved_at(self) -> datetime:
        """When it last changed."""
        ...

    @property
    def error(self) -> str:
        """Why it is halted."""
        ...


@dataclass(frozen=True, slots=True)
class Lag:
    """One build for display.

    Attributes:
        title: For example `sizes@1`.
        state: `live` or `building`.
        position: The newest event that it has seen.
        newest: The ledger's newest event.
        behind: The number of events that it has not seen.
        behind_s: Seconds since the oldest unseen event was recorded; 0 if it is level.
        share: The finished share, from 0 to 1.
        well: Whether it is healthy, so that nobody must look.
        says: Its state in words.
    """

    title: str
    state: str
    position: int
    newest: int
    behind: int
    behind_s: float
    share: float
    well: bool
    says: str


def lags(
    builds: Sequence[AnyBuild],
    newest: int,
    recorded_at: Callable[[int], datetime | None],
    now: datetime,
    *,
    followed: bool,
) -> list[Lag]:
    """Judge all builds.

    Args:
        builds: The stored builds.
        newest: The ledger's newest position.
        recorded_at: Returns when the first event after a position was recorded.
        now: The time.
        followed: Whether a view worker of this home sent a heartbeat.
    """
    found: list[Lag] = []
    for one in builds:
        behind = max(0, newest - one.position)
        at = recorded_at(one.position) if behind else None
        ago = max(timedelta(0), now - at) if at is not None else timedelta(0)
        well, says = _judged(one, newest, ago, now, followed=followed)
        found.append(
            Lag(
                title=f"{one.name}@{one.version}",
                state=one.state,
                position=one.position,
                newest=newest,
                behind=behind,
                behind_s=round(ago.total_seconds(), 3),
                share=min(1.0, one.position / newest) if newest else 1.0,
                well=well,
                says=says,
            )
        )
    return found


def _judged(
    one: AnyBuild, newest: int, ago: timedelta, now: datetime, *, followed: bool
) -> tuple[bool, str]:
    behind = newest - one.position
    if one.error:
        return False, f"is stopped: {one.error}"
    if behind < 0:
        return False, (
            f"ahead of the ledger by {count(-behind, 'event')}: the ledger was restored; rebuild "
            f"with `watchkeeper ledger rebuild {one.name}`"
        )
    if behind <= 0 and one.state != "building":
        return True, "level"
    late = f"{count(behind, 'event')} behind for {elapsed(ago)}"
    if one.state == "building":
        return _judged_building(one, late, now)
    if followed and ago > LATE:
        return False, f"{late}: the view worker has stopped, see the watch's log"
    if behind > BEHIND_MAX:
        return False, f"{late}: start a watch, or `watchkeeper ledger catch-up`"
    return True, late if followed else f"{late}; no watch runs"


def _judged_building(one: AnyBuild, late: str, now: datetime) -> tuple[bool, str]:
    still = now - one.moved_at
    if abs(still) <= STILL:
        return True, f"{late}, being built"
    how = f"not moved for {elapsed(still)}" if still > STILL else "its last change is in the future"
    what = f"start a watch, or `watchkeeper ledger rebuild {one.name}`"
    return False, f"{late}, being built, and {how}: {what}"


def silent(holder: str, at: datetime, error: str, now: datetime) -> str:
    """Say what is wrong with a view worker; empty if it is healthy."""
    if at - now > SILENT:
        # A live worker sends another heartbeat within seconds, by the current clock.
        return (
            f"worker of {holder}: its last heartbeat is in the future, {at:%F %T}: was it killed?"
        )
    if now - at > SILENT:
        ago = elapsed(now - at)
        return f"worker of {holder} sent no heartbeat for {ago}: was it killed?"
    return f"worker of {holder} is blocked: {error}" if error else ""


def lag_document(lag: Lag) -> dict[str, Any]:
    """Return a build for programs."""
    return {
        "projection": lag.title,
        "state": lag.state,
        "position": lag.position,
        "newest": lag.newest,
        "behind_events": lag.behind,
        "behind_s": lag.behind_s,
        "done": round(lag.share, 4),
        "well": lag.well,
        "says": lag.says,
    }
