"""A cache of folded states: most recently used, never an older version.

A cached state only saves work. Later events are read on top of it, and the store refuses an append
that was decided on a stale state.
"""

from collections import OrderedDict
from threading import Lock
from typing import Generic, Protocol, TypeVar

STATES_MAX = 10_000
"""The most states kept. A run's state takes 50 to 200 kB, and 0.3 MB after many checks, mostly for
its newest checks. There are no snapshots on disk. A process reads and folds 5,000 events in 0.1 s
and 50,000 in 1 s, once; see docs/maintainers/performance.md.
"""


class Versioned(Protocol):
    """A state that knows its version."""

    @property
    def version(self) -> int:
        """The version of the newest event in it."""
        ...


State = TypeVar("State", bound=Versioned)


class StateCache(Generic[State]):
    """States by name. Any thread may call any method.

    Args:
        most: The most states kept. The least recently used state is dropped first.
    """

    def __init__(self, most: int = STATES_MAX) -> None:
        """Start empty."""
        self._most = most
        self._lock = Lock()
        self._states: OrderedDict[str, State] = OrderedDict()

    def get(self, name: str) -> State | None:
        """Return the cached state, or None."""
        with self._lock:
            state = self._states.get(name)
            if state is not None:
                self._states.move_to_end(name)
            return state

    def keep(self, name: str, state: State) -> State:
        """Store a state unless a newer one is cached; return the newer of the two."""
        with self._lock:
            kept = self._states.get(name)
            if kept is None or kept.version <= state.version:
                self._states[name] = kept = state
            self._states.move_to_end(name)
            if len(self._states) > self._most:
                self._states.popitem(last=False)
            return kept

    def evict(self, name: str) -> None:
        """Drop a state. A missing state is no error."""
        with self._lock:
            self._states.pop(name, None)

    def __len__(self) -> int:
        """Return how many states are cached."""
        with self._lock:
            return len(self._states)
