"""Waits while the ledger is unavailable, and does nothing meanwhile.

For example, its server is restarting, or another process, such as a backup, holds a lock on its
file.
"""

import logging
from datetime import timedelta
from threading import Event as Signal

from watchkeeper import clock
from watchkeeper.ports.event_store import EventStore, StoreUnavailable
from watchkeeper.projections.figures import elapsed

log = logging.getLogger(__name__)

RETRY_FIRST = timedelta(seconds=1)
RETRY_LONGEST = timedelta(seconds=25)
"""The longest wait between retries: with jitter, a ledger that is back is seen in 30 s."""

RETRY_JITTER = 0.2

REPORT_EVERY = timedelta(minutes=1)
"""The time between two log messages during an outage."""

LOOK_EVERY = timedelta(milliseconds=100)
"""How long a stop of the process may be delayed."""


def wait_until_back(store: EventStore, stop: Signal, error: StoreUnavailable) -> bool:
    """Wait until a ledger is back; False if the process stops first.

    Args:
        store: The ledger.
        stop: Set when the process stops.
        error: The error that revealed the outage.

    Raises:
        StoreFailure: The ledger has a fault that waiting cannot fix.
    """
    log.warning("the ledger is away, and nothing is done until it is back: %s", error)
    since, next_report = clock.Timer(), clock.Deadline.after(REPORT_EVERY)
    backoff = clock.ExponentialBackoff(RETRY_FIRST, RETRY_LONGEST, factor=2, jitter=RETRY_JITTER)
    while _wait(stop, backoff.next_wait()):
        try:
            store.newest()
            # A locked file can still be read, so an empty append tests writing as well.
            store.append([])
        except StoreUnavailable as still_away:
            if next_report.expired():
                duration = elapsed(since.elapsed())
                log.warning("the ledger is still away, for %s: %s", duration, still_away)
                next_report = clock.Deadline.after(REPORT_EVERY)
            continue
        log.warning("the ledger is back after %s: the watch continues", elapsed(since.elapsed()))
        return True
    return False


def _wait(stop: Signal, wait: timedelta) -> bool:
    """Wait, and return False if the process stops. It polls: not every signal ends a wait."""
    deadline = clock.Deadline.after(wait)
    while not deadline.expired():
        if stop.is_set():
            return False
        clock.sleep(min(LOOK_EVERY, deadline.remaining()))
    return not stop.is_set()
