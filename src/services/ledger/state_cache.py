"""Folded states that are kept in memory: the most recently used ones, and never an older version.

A kept state is only a head start. What was appended since is read on top of it, and an append that
was decided on a state that is too old is refused by the store.
"""

from collections import OrderedDict
from threading import Lock
from typing import Generic, Protocol, TypeVar

STATES_MAX = 10_000
"""States kept at most. One of a run takes 50 to 200 kB, and 0.3 MB when it has been checked for
long, which is mostly what it remembers of its newest checks. There are no snapshots on disk: 5,000
events are read and folded in a tenth of a second, 50,000 in one, once for each process; see
docs/performance.md.
"""


class Versioned(Protocol):
    """A state that knows how many events it holds."""

    @property
    def version(self) -> int:
        """Of the newest event in it."""
        ...


State = TypeVar("State", bound=Versioned)


class StateCache(Generic[State]):
    """States by the name of what they are of. Any thread may call any method.

    Args:
        most: States kept at most; the one that was used longest ago goes first.
    """

    def __init__(self, most: int = STATES_MAX) -> None:
        """Begin empty."""
        self._most = most
        self._lock = Lock()
        self._states: OrderedDict[str, State] = OrderedDict()

    def get(self, name: str) -> State | None:
        """Return the state that is kept; none when there is none."""
        with self._lock:
            state = self._states.get(name)
            if state is not None:
                self._states.move_to_end(name)
            return state

    def keep(self, name: str, state: State) -> State:
        """Keep a state unless a newer one is kept; return the newer of the two."""
        with self._lock:
            kept = self._states.get(name)
            if kept is None or kept.version <= state.version:
                self._states[name] = kept = state
            self._states.move_to_end(name)
            if len(self._states) > self._most:
                self._states.popitem(last=False)
            return kept

    def evict(self, name: str) -> None:
        """Forget a state; fine when it is not kept."""
        with self._lock:
            self._states.pop(name, None)

    def __len__(self) -> int:
        """Return how many states are kept."""
        with self._lock:
            return len(self._states)
