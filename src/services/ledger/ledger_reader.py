"""Reads runs, histories, effects and unbound signals. Imports no rule."""

from threading import Lock

from watchkeeper.domain.run.envelope import Event, decode
from watchkeeper.domain.run.outbox.effects import Effects, effects_stream, evolve_effects
from watchkeeper.domain.run.run import Run, Unreadable
from watchkeeper.domain.run.unbound_signals import SIGNALS, UnboundSignals, evolve_unbound
from watchkeeper.ports.event_store import EventStore
from watchkeeper.services.ledger.fast_fold import fold_history
from watchkeeper.services.ledger.state_cache import STATES_MAX, StateCache


class LedgerReader:
    """Reads one event store. Safe to use from several threads.

    Args:
        store: The event store.
        states_max: The most folded states kept in memory, for runs and for effects each.
    """

    def __init__(self, store: EventStore, *, states_max: int = STATES_MAX) -> None:
        """Start with empty caches. A state is folded when it is first requested."""
        self.store = store
        self._runs: StateCache[Run | Unreadable] = StateCache(states_max)
        self._effects: StateCache[Effects] = StateCache(states_max)
        self._box = UnboundSignals()
        self._lock = Lock()

    def slugs(self) -> list[str]:
        """Return the names of all runs, sorted."""
        return [name.removeprefix("run/") for name in self.store.streams("run/")]

    def run(self, slug: str) -> Run | Unreadable:
        """Return a run's current state, as recorded by any process."""
        known = self._runs.get(slug) or Run(slug)
        if isinstance(known, Unreadable):
            return known
        return self._runs.keep(slug, fold_history(self.store, known).run)

    def history(self, slug: str, *, after: int = 0) -> list[Event]:
        """Return the events of a run after a version, oldest first; by default all of them.

        Raises:
            Undecodable: One of them cannot be read by this code.
        """
        return self._events(run_stream(slug), after)

    def effects(self, slug: str) -> Effects:
        """Return the state of a run's effects."""
        effects = self._effects.get(slug) or Effects()
        for event in self._events(effects_stream(slug), after=effects.version):
            effects = evolve_effects(effects, event)
        return self._effects.keep(slug, effects)

    def history_and_head(self, slug: str) -> tuple[list[Event], str]:
        """Return all events of a run, and the chain's head at the last of them.

        Returns:
            The events, and the head as `<version> sha256:<hex>`.

        Raises:
            Undecodable: One of them cannot be read by this code.
        """
        stored = self.store.read(run_stream(slug))
        events = [decode(r.stream, r.version, r.topic, r.state) for r in stored]
        head = f"{stored[-1].version} sha256:{stored[-1].hash.hex()}" if stored else ""
        return events, head

    def head_at(self, slug: str, version: int) -> str:
        """Return the chain's head at an event, as `<version> sha256:<hex>`."""
        [recorded] = self.store.read(run_stream(slug), after=version - 1, limit=1)
        return f"{recorded.version} sha256:{recorded.hash.hex()}"

    def box(self) -> UnboundSignals:
        """Return the signals that are in no run's history."""
        with self._lock:
            box = self._box
        events = self._events(SIGNALS, after=box.version)
        if not events:
            return box
        box = evolve_unbound(box, events)
        with self._lock:
            if box.version > self._box.version:
                self._box = box
        return box

    def _events(self, stream: str, after: int = 0) -> list[Event]:
        return [
            decode(stream, recorded.version, recorded.topic, recorded.state)
            for recorded in self.store.read(stream, after=after)
        ]


def run_stream(slug: str) -> str:
    """Return the stream of a run."""
    return f"run/{slug}"
