"""How a decision meets other writers: one at a time here, a few times again after others."""

from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from threading import Lock

from watchkeeper.ports.event_store import VersionConflict

AGAIN_MAX = 3
"""How often something is decided again after other writers came first.

Threads of one process take turns, so only other processes can come first: a watch, and commands
that people give. The last time the others are kept out, so that nobody loses for ever to one who
writes without end.
"""

TURNS = 1_024
"""Locks for decisions. Two runs that share one wait for each other, which harms nobody."""

ATTEMPTS = range(AGAIN_MAX + 1)


def contended(what: str) -> VersionConflict:
    """Return the error for who came last each time."""
    return VersionConflict(
        f"{what}: other writers came first {len(ATTEMPTS)} times in a row. Nothing was stored. "
        "Try again; if it stays so, run `watchkeeper verify`."
    )


class Turns:
    """Lets the threads of this process decide on one thing one after another.

    Without it, of two threads that decide on one state the second would always decide again.
    """

    def __init__(self) -> None:
        """Begin with nobody deciding."""
        self._locks = tuple(Lock() for _ in range(TURNS))

    @contextmanager
    def of(self, *whats: str) -> Generator[None, None, None]:
        """Wait until it is this thread's turn, and hold it for the length of a block."""
        with ExitStack() as held:
            # Always in the same order, so that no two wait for each other.
            for place in sorted({hash(what) % TURNS for what in whats}):
                held.enter_context(self._locks[place])
            yield
