"""The limits of progress for one run.

Each limit comes from the run's contract, or else from its lane.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from types import MappingProxyType

from watchkeeper.domain.values.contract.contract import Contract, Lane, cadence_of
from watchkeeper.domain.values.contract.detect_limits import stated


@dataclass(frozen=True, slots=True)
class LiveLimits:
    """See `LivePart` for what each means."""

    initialising: timedelta
    startup_watchdog: timedelta
    compiling: timedelta
    stall: timedelta
    stall_cadences: int
    tracker_silent: timedelta
    checkpoint_slack: float
    checkpoint_write: timedelta
    disk_warn: float
    disk_alert: float


_NAMES = tuple(LiveLimits.__dataclass_fields__)

_BASE = LiveLimits(
    # Practice pages for 45 min of initialising; its watchdogs are 80 min for a start and 15 min
    # for a step. A cold compile takes 15 to 40 min, and a compiling run is never killed.
    initialising=timedelta(minutes=45),
    startup_watchdog=timedelta(minutes=80),
    compiling=timedelta(minutes=40),
    stall=timedelta(minutes=15),
    stall_cadences=2,
    # Clients retry uploads for minutes after an outage; a run that logs each step is never silent
    # so long.
    tracker_silent=timedelta(hours=2),
    checkpoint_slack=2.0,
    checkpoint_write=timedelta(minutes=30),
    disk_warn=0.2,
    disk_alert=0.1,
)

LANE_LIVE: Mapping[Lane, LiveLimits] = MappingProxyType(
    {
        Lane.HERO: _BASE,
        Lane.DAILY: _BASE,
        # Small and short: a job that has not started within half an hour needs attention.
        Lane.CANARY: replace(_BASE, initialising=timedelta(minutes=30)),
        Lane.ORDINARY: _BASE,
    }
)
"""By lane."""


def live_limits_of(contract: Contract) -> LiveLimits:
    """Return the limits of a run: its contract's, else its lane's."""
    usual, said = LANE_LIVE[contract.lane], contract.live
    return LiveLimits(*stated(said, usual, _NAMES))


def stall_limit(contract: Contract) -> timedelta:
    """Return how long steps must not advance before a run counts as hung."""
    limits = live_limits_of(contract)
    return max(limits.stall, limits.stall_cadences * cadence_of(contract))


def first_check_after(contract: Contract) -> timedelta:
    """Return the wait between a submit and the first check."""
    return min(contract.watch.after_submit, cadence_of(contract))
