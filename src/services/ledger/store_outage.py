"""Waits for a ledger that is away, and does nothing meanwhile.

Its server is restarted, or another process, such as a backup, keeps its file locked.
"""

import logging
from datetime import timedelta
from threading import Event as Signal

from watchkeeper import clock
from watchkeeper.ports.event_store import EventStore, StoreAway
from watchkeeper.projections.figures import elapsed

log = logging.getLogger(__name__)

RETRY_FIRST = timedelta(seconds=1)
RETRY_LONGEST = timedelta(seconds=25)
RETRY_JITTER = 0.2
"""A ledger that is back is seen within half a minute."""

TELL_EVERY = timedelta(minutes=1)
"""Between two words that it is still away."""

LOOK_EVERY = timedelta(milliseconds=100)
"""How long the end of the process may have to wait."""


def wait_until_back(store: EventStore, stop: Signal, error: StoreAway) -> bool:
    """Wait until a ledger can be used again; say whether it can, and not the process ends first.

    Args:
        store: The ledger.
        stop: Set when the process ends.
        error: How it was found to be away.

    Raises:
        StoreFailure: Something is wrong with it, which waiting does not mend.
    """
    log.warning("the ledger is away, and nothing is done until it is back: %s", error)
    since, told = clock.Timer(), clock.Deadline.after(TELL_EVERY)
    backoff = clock.ExponentialBackoff(RETRY_FIRST, RETRY_LONGEST, factor=2, jitter=RETRY_JITTER)
    while _wait(stop, backoff.next_wait()):
        try:
            store.newest()
            # What is locked can be read all the while: nothing is appended as everything is.
            store.append([])
        except StoreAway as again:
            if told.expired():
                ago = elapsed(since.elapsed())
                log.warning("the ledger is still away, for %s: %s", ago, again)
                told = clock.Deadline.after(TELL_EVERY)
            continue
        log.warning("the ledger is back after %s: the watch goes on", elapsed(since.elapsed()))
        return True
    return False


def _wait(stop: Signal, wait: timedelta) -> bool:
    """Wait a little; false when the process ends. By looks: not every signal wakes who waits."""
    deadline = clock.Deadline.after(wait)
    while not deadline.expired():
        if stop.is_set():
            return False
        clock.sleep(min(LOOK_EVERY, deadline.remaining()))
    return not stop.is_set()
