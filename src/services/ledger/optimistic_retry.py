"""Retries a decision after conflicting writes by other processes."""

from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from threading import Lock

from watchkeeper.ports.event_store import VersionConflict

AGAIN_MAX = 3
"""The number of retries after conflicts with other writers.

Threads of one process take turns, so only other processes cause conflicts, for example a watch or a
person's command. The last attempt keeps other writers out, so that a constant writer cannot block
it forever.
"""

TURNS = 1_024
"""The number of locks. Two runs may share one: then one waits for the other, which is harmless."""

ATTEMPTS = range(AGAIN_MAX + 1)


def contended(what: str) -> VersionConflict:
    """Return the error for a decision that lost every attempt."""
    return VersionConflict(
        f"{what}: other writers came first {len(ATTEMPTS)} times in a row. Nothing was stored. "
        "Try again; if it stays so, run `watchkeeper verify`."
    )


class Turns:
    """Lets the threads of this process decide about the same run one at a time.

    Without it, the second of two threads that decide about one run would have to retry.
    """

    def __init__(self) -> None:
        """Start with all locks free."""
        self._locks = tuple(Lock() for _ in range(TURNS))

    @contextmanager
    def of(self, *whats: str) -> Generator[None, None, None]:
        """Wait for this thread's turn, and hold it for the length of a block."""
        with ExitStack() as held:
            # Always in the same order, to avoid a deadlock.
            for index in sorted({hash(what) % TURNS for what in whats}):
                held.enter_context(self._locks[index])
            yield
