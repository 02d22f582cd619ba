"""Loads a run, decides, and appends the result once."""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import reduce
from threading import RLock

from watchkeeper import clock
from watchkeeper.domain.rules.decide import decide
from watchkeeper.domain.rules.launch.roots import (
    ROOTS,
    Roots,
    claims_for,
    evolve_roots,
    touches_roots,
)
from watchkeeper.domain.rules.permits.commands import PeopleCommand
from watchkeeper.domain.rules.permits.standing_waivers import (
    PEOPLE,
    PeopleState,
    decide_people,
    evolve_people,
)
from watchkeeper.domain.rules.shared.refusals import Refusal, Refused
from watchkeeper.domain.rules.table import RunCommand
from watchkeeper.domain.run.envelope import Event
from watchkeeper.domain.run.events import EffectEvent, RunEvent
from watchkeeper.domain.run.evolve.evolve import evolve
from watchkeeper.domain.run.launch import LaunchRequested
from watchkeeper.domain.run.outbox.effects import Effects, effects_stream, evolve_effects
from watchkeeper.domain.run.run import Run, Unreadable
from watchkeeper.domain.run.signals import SignalBoxEvent
from watchkeeper.domain.run.unbound_signals import SIGNALS, UnboundSignals
from watchkeeper.domain.values.people import Actor
from watchkeeper.domain.values.secrets.scrubbing import Scrubber
from watchkeeper.ports.event_store import Appended, EventStore, VersionConflict, Write
from watchkeeper.services.ledger.ledger_reader import LedgerReader, run_stream
from watchkeeper.services.ledger.optimistic_retry import ATTEMPTS, Turns, contended
from watchkeeper.services.ledger.scrub_and_encode import Cause, digest_of, fix_bytes
from watchkeeper.services.ledger.state_cache import STATES_MAX
from watchkeeper.services.ledger.status_rows import rows_of_effects, rows_of_run


@dataclass(frozen=True, slots=True)
class Handled:
    """The outcome of an accepted command.

    Attributes:
        events: The recorded events; empty if the command adds nothing to the history.
        run: The run after it.
        repeated: The idempotency key was known: these are the events of the first time.
    """

    events: tuple[Event, ...]
    run: Run
    repeated: bool = False


class Ledger(LedgerReader):
    """Runs, output roots and effects, on one event store. Safe to use from several threads.

    Args:
        store: The event store.
        scrubber: Removes secrets before bytes are fixed; the only place where this happens.
        states_max: The most folded states kept in memory, for runs and for effects each.
    """

    def __init__(
        self, store: EventStore, scrubber: Scrubber, *, states_max: int = STATES_MAX
    ) -> None:
        """Start with empty caches. A state is folded when it is first requested."""
        super().__init__(store, states_max=states_max)
        self.scrubber = scrubber
        self._roots = Roots()
        self._turns = Turns()
        # All runs claim roots on the one stream `roots`, so threads take turns.
        self._claiming = RLock()

    # --- Reading -----------------------------------------------------------------------------

    def roots(self) -> Roots:
        """Return the claimed output roots."""
        with self._lock:
            roots = self._roots
        for event in self._events(ROOTS, after=roots.version):
            roots = evolve_roots(roots, event)
        with self._lock:
            self._roots = roots
        return roots

    def people(self) -> PeopleState:
        """Return the state that applies to all runs: the standing waivers."""
        people = PeopleState()
        for event in self._events(PEOPLE):
            people = evolve_people(people, event)
        return people

    # --- Writing -----------------------------------------------------------------------------

    def handle(
        self, slug: str, command: RunCommand, *, key: str | None = None
    ) -> Handled | Refused:
        """Handle one command; return the recorded events or the refusal.

        Args:
            slug: The run.
            command: The command.
            key: A repeated key returns the first answer.

        Raises:
            VersionConflict: Too many conflicts with other writers in a row.
            KeyReused: The key was used with another command.
            StoreFailure: The store failed; nothing of the command is stored.
        """
        with self._turns.of(slug):
            for attempt in ATTEMPTS:
                try:
                    with self._alone(attempt):
                        answer = self._try(slug, command, key, first=attempt == 0)
                except VersionConflict:
                    self._lost(slug, attempt)
                    continue
                if answer is not None:
                    return answer
        raise contended(slug)

    def _try(
        self, slug: str, command: RunCommand, key: str | None, *, first: bool
    ) -> Handled | Refused | None:
        """Decide once, and append; None if nothing is to append and the state was stale."""
        run = self._cached(slug) if first else self.run(slug)
        if key is not None:
            known = self.store.answer(key, digest=digest_of(command))
            if known is not None:
                return self._first_answer(slug, known)
        if isinstance(run, Unreadable):
            return Refused(Refusal.RUN_UNREADABLE, f"{slug} after event {run.version}: {run.why}")
        outcome = decide(run, command)
        if (isinstance(outcome, Refused) or not outcome) and first and self._stale(run):
            return None  # Without an append, a conflict with other writers would go unnoticed.
        if isinstance(outcome, Refused):
            if outcome.records:
                cause = Cause(command.actor, command.now, None, slug)
                self._append(run, outcome.records, cause, b"")
            return outcome
        if not outcome:
            return Handled((), run)
        cause = Cause(command.actor, command.now, key, slug)
        return self._append(run, outcome, cause, digest_of(command))

    def handle_people(self, command: PeopleCommand) -> tuple[Event, ...] | Refused:
        """Handle a command to the stream `people`, which holds for no single run.

        Raises:
            VersionConflict: Too many conflicts with other writers in a row.
        """
        with self._turns.of(PEOPLE):
            for attempt in ATTEMPTS:
                with suppress(VersionConflict), self._alone(attempt):
                    people = self.people()
                    answer = decide_people(people, command)
                    refused, facts = answer if isinstance(answer, tuple) else (None, answer)
                    if not facts:
                        assert refused is not None, "what is taken is recorded"
                        return refused
                    cause = Cause(command.actor, command.now, None, PEOPLE)
                    write, made = fix_bytes(self.scrubber, PEOPLE, people.version, facts, cause)
                    self.store.append([write])
                    return refused if refused is not None else tuple(made)
        raise contended(PEOPLE)

    def record_box(
        self,
        decide_box: Callable[[UnboundSignals], Sequence[SignalBoxEvent]],
        actor: Actor,
        *,
        key: str | None = None,
    ) -> bool:
        """Record a decision on the signal box; False if the key was known or nothing is new.

        Raises:
            VersionConflict: Too many conflicts with other writers in a row.
        """
        with self._turns.of(SIGNALS):
            for attempt in ATTEMPTS:
                with suppress(VersionConflict), self._alone(attempt):
                    box = self.box()
                    facts = decide_box(box)
                    if not facts:
                        return True
                    cause = Cause(actor, clock.now(), key, SIGNALS)
                    write, _ = fix_bytes(self.scrubber, SIGNALS, box.version, facts, cause)
                    return not self.store.append([write], key=key).repeated
        raise contended(SIGNALS)

    def record_effects(
        self, slug: str, events: Sequence[EffectEvent], actor: Actor, *, key: str | None = None
    ) -> Effects:
        """Record results of effects; they never move the run's own head."""
        return self.record_effects_of({slug: events}, actor, key=key)[slug]

    def record_effects_of(
        self,
        results: Mapping[str, Sequence[EffectEvent]],
        actor: Actor,
        *,
        key: str | None = None,
    ) -> dict[str, Effects]:
        """Record results of effects of several runs in one transaction, by their slugs."""
        with self._turns.of(*map(effects_stream, results)):
            for attempt in ATTEMPTS:
                try:
                    with self._alone(attempt):
                        return self._try_effects(results, actor, key)
                except VersionConflict:
                    for slug in results:
                        self._lost(slug, attempt)
        raise contended(", ".join(results))

    def _try_effects(
        self, results: Mapping[str, Sequence[EffectEvent]], actor: Actor, key: str | None
    ) -> dict[str, Effects]:
        writes: list[Write] = []
        after: dict[str, Effects] = {}
        for slug, events in results.items():
            effects = self.effects(slug)
            cause = Cause(actor, clock.now(), key, slug)
            stream = effects_stream(slug)
            write, made = fix_bytes(self.scrubber, stream, effects.version, events, cause)
            writes.append(write)
            after[slug] = reduce(evolve_effects, made, effects)
        rows = [row for s, e in after.items() for row in rows_of_effects(s, e)]
        if self.store.append(writes, key=key, status=rows).repeated:
            return {slug: self.effects(slug) for slug in results}
        for slug, effects in after.items():
            self._effects.keep(slug, effects)
        return after

    def _append(
        self, run: Run, outcome: Sequence[RunEvent], cause: Cause, digest: bytes
    ) -> Handled | Refused:
        if touches_roots(outcome):
            with self._claiming:
                return self._append_with(self.roots(), run, outcome, cause, digest)
        return self._append_with(None, run, outcome, cause, digest)

    def _append_with(
        self,
        roots: Roots | None,
        run: Run,
        outcome: Sequence[RunEvent],
        cause: Cause,
        digest: bytes,
    ) -> Handled | Refused:
        write, events = fix_bytes(self.scrubber, run_stream(run.slug), run.version, outcome, cause)
        writes = [write]
        root_events: list[Event] = []
        if roots is not None:
            claims = claims_for(roots, run.slug, outcome)
            if isinstance(claims, Refused):
                return claims
            if claims or any(isinstance(e, LaunchRequested) for e in outcome):
                claim_write, root_events = fix_bytes(
                    self.scrubber, ROOTS, roots.version, claims, cause
                )
                writes.append(claim_write)
        after: Run | Unreadable = run
        for event in events:
            after = evolve(after, event)
        assert isinstance(after, Run), f"decided an event that does not fit: {after}"
        rows = rows_of_run(after)
        appended = self.store.append(writes, key=cause.key, digest=digest, status=rows)
        if appended.repeated:
            return self._first_answer(run.slug, appended)
        self._runs.keep(run.slug, after)
        if roots is not None:
            roots = reduce(evolve_roots, root_events, roots)
            with self._lock:
                if roots.version > self._roots.version:
                    self._roots = roots
        return Handled(tuple(events), after)

    def show_unreadable(self, run: Unreadable) -> None:
        """Let `status` list a run with an unreadable history, without adding to it."""
        self.store.append([], status=rows_of_run(run))

    # --- Caches ------------------------------------------------------------------------------

    def _cached(self, slug: str) -> Run | Unreadable:
        return self._runs.get(slug) or self.run(slug)

    @contextmanager
    def _alone(self, attempt: int) -> Generator[None, None, None]:
        """Keep other writers out in the last attempt, so that it cannot conflict."""
        if attempt < ATTEMPTS[-1]:
            yield
            return
        # The same lock order everywhere: a root is claimed before the append.
        with self._claiming, self.store.exclusive():
            yield

    def _lost(self, slug: str, attempt: int) -> None:
        """Handle a conflict: at first, newer events are read on top of the cached state.

        A state that conflicts again is dropped: it may be ahead of a restored store.
        """
        if attempt > 0:
            self._runs.evict(slug)
            self._effects.evict(slug)

    def _stale(self, run: Run) -> bool:
        version, _ = self.store.head(run_stream(run.slug))
        return version > run.version

    def _first_answer(self, slug: str, appended: Appended) -> Handled:
        first, last = appended.versions.get(run_stream(slug), (1, 0))
        events = [e for e in self.history(slug, after=first - 1) if e.version <= last]
        run = self.run(slug)
        assert isinstance(run, Run), "an answered key belongs to a readable run"
        return Handled(tuple(events), run, repeated=True)
