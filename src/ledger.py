"""The application service: loads a run, decides, and appends what was decided, once."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from threading import Lock
from typing import Any

from watchkeeper import clock
from watchkeeper.domain.commands import (
    Command,
    PeopleCommand,
    ReceiveSignal,
    RecordCheck,
    RunCommand,
)
from watchkeeper.domain.decide import decide
from watchkeeper.domain.effects import Effects, effects_stream, evolve_effects
from watchkeeper.domain.envelope import Event, Undecodable, decode
from watchkeeper.domain.events import (
    EffectEvent,
    InstanceEnded,
    LaunchRefused,
    LaunchRequested,
    RunEvent,
    SignalBoxEvent,
)
from watchkeeper.domain.evolve import evolve
from watchkeeper.domain.people import Actor
from watchkeeper.domain.refusals import Refusal, Refused
from watchkeeper.domain.roots import ROOTS, Roots, claims_for, evolve_roots
from watchkeeper.domain.secrets import Scrubber
from watchkeeper.domain.signal_box import SIGNALS, SignalBox, evolve_box
from watchkeeper.domain.standing import PEOPLE, People, decide_people, evolve_people
from watchkeeper.domain.state import Run, Unreadable
from watchkeeper.event_store import Appended, EventStore, VersionConflict, Write
from watchkeeper.projections.status_shapes import SHAPES, Shape
from watchkeeper.recording import Cause, fix_bytes, to_json
from watchkeeper.status_building import rows_of_effects, rows_of_run

CONFLICTS_MAX = 8
"""How often a command is decided again after other writers came first.

Writers on one run are a watch and a few people, so even this many conflicts in a row mean that
something is wrong; then the conflict surfaces.
"""


@dataclass(frozen=True, slots=True)
class Handled:
    """A command that was taken.

    Attributes:
        events: What it recorded; none when it adds nothing to the history.
        run: The run after it.
        repeated: The idempotency key was known: these are the events of the first time.
    """

    events: tuple[Event, ...]
    run: Run
    repeated: bool = False


class Ledger:
    """Runs, output roots and effects, on one event store. Safe to use from several threads.

    Args:
        store: Where the bytes lie.
        scrubber: Takes secrets out before bytes are fixed; the one choke point.
    """

    def __init__(self, store: EventStore, scrubber: Scrubber) -> None:
        """Start with empty caches; every state is folded when it is first asked for."""
        self.store = store
        self.scrubber = scrubber
        self.shapes: Sequence[Shape] = SHAPES
        self._runs: dict[str, Run | Unreadable] = {}
        self._effects: dict[str, Effects] = {}
        self._roots = Roots()
        self._box = SignalBox()
        self._lock = Lock()

    # --- Reading -----------------------------------------------------------------------------

    def slugs(self) -> list[str]:
        """Return the names of all runs, sorted."""
        return [name.removeprefix("run/") for name in self.store.streams("run/")]

    def run(self, slug: str) -> Run | Unreadable:
        """Return a run as recorded by now, by any process."""
        with self._lock:
            run = self._runs.get(slug) or Run(slug)
        if isinstance(run, Unreadable):
            return run
        for recorded in self.store.read(run_stream(slug), after=run.version):
            try:
                event = decode(recorded.stream, recorded.version, recorded.topic, recorded.state)
            except Undecodable as error:
                run = Unreadable(slug, recorded.version - 1, str(error))
                break
            run = evolve(run, event)
            if isinstance(run, Unreadable):
                break
        return self._remember(slug, run)

    def history(self, slug: str) -> list[Event]:
        """Return all events of a run, oldest first.

        Raises:
            Undecodable: One of them cannot be read by this code.
        """
        return self._events(run_stream(slug))

    def effects(self, slug: str) -> Effects:
        """Return what became of a run's effects."""
        with self._lock:
            effects = self._effects.get(slug, Effects())
        for event in self._events(effects_stream(slug), after=effects.version):
            effects = evolve_effects(effects, event)
        with self._lock:
            self._effects[slug] = effects
        return effects

    def roots(self) -> Roots:
        """Return which output roots are held."""
        with self._lock:
            roots = self._roots
        for event in self._events(ROOTS, after=roots.version):
            roots = evolve_roots(roots, event)
        with self._lock:
            self._roots = roots
        return roots

    def people(self) -> People:
        """Return what holds for no single run: the standing waivers."""
        people = People()
        for event in self._events(PEOPLE):
            people = evolve_people(people, event)
        return people

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

    # --- Writing -----------------------------------------------------------------------------

    def handle(
        self, slug: str, command: RunCommand, *, key: str | None = None
    ) -> Handled | Refused:
        """Handle one command; return what it recorded, or why not.

        Args:
            slug: The run.
            command: What is asked.
            key: The same key again gets the first answer.

        Raises:
            VersionConflict: Other writers came first too many times in a row.
            KeyReused: The key came again with another command.
            StoreFailure: The store failed; nothing of the command is stored.
        """
        for attempt in range(CONFLICTS_MAX):
            run = self._cached(slug) if attempt == 0 else self.run(slug)
            if key is not None:
                known = self.store.answer(key, digest=_digest_of(command))
                if known is not None:
                    return self._first_answer(slug, known)
            if isinstance(run, Unreadable):
                return Refused(
                    Refusal.RUN_UNREADABLE, f"{slug} after event {run.version}: {run.why}"
                )
            outcome = decide(run, command)
            if (isinstance(outcome, Refused) or not outcome) and attempt == 0 and self._stale(run):
                continue  # No append would show that other writers went on since.
            if isinstance(outcome, Refused):
                if outcome.records and not self._record_attempt(run, outcome, command):
                    continue
                return outcome
            if not outcome:
                return Handled((), run)
            cause = Cause(command.actor, command.now, key, slug)
            try:
                answer = self._append(run, outcome, cause, _digest_of(command))
            except VersionConflict:
                self._forget(slug)
                continue
            return answer
        raise VersionConflict(f"{slug}: other writers came first {CONFLICTS_MAX} times in a row")

    def handle_people(self, command: PeopleCommand) -> tuple[Event, ...] | Refused:
        """Handle a command to the stream `people`, which holds for no single run.

        Raises:
            VersionConflict: Other writers came first too many times in a row.
        """
        for _ in range(CONFLICTS_MAX):
            people = self.people()
            answer = decide_people(people, command)
            refused, facts = answer if isinstance(answer, tuple) else (None, answer)
            if not facts:
                assert refused is not None, "what is taken is recorded"
                return refused
            cause = Cause(command.actor, command.now, None, PEOPLE)
            write, made = fix_bytes(self.scrubber, PEOPLE, people.version, facts, cause)
            try:
                self.store.append([write])
            except VersionConflict:
                continue
            return refused if refused is not None else tuple(made)
        raise VersionConflict(f"{PEOPLE}: other writers came first {CONFLICTS_MAX} times in a row")

    def box(self) -> SignalBox:
        """Return the signals that stand in no run's history."""
        with self._lock:
            box = self._box
        events = self._events(SIGNALS, after=box.version)
        if not events:
            return box
        box = evolve_box(box, events)
        with self._lock:
            if box.version > self._box.version:
                self._box = box
        return box

    def record_box(
        self,
        decide_box: Callable[[SignalBox], Sequence[SignalBoxEvent]],
        actor: Actor,
        *,
        key: str | None = None,
    ) -> bool:
        """Record what is decided on the box; false when the key was known, and nothing is new.

        Raises:
            VersionConflict: Other writers came first too many times in a row.
        """
        for _ in range(CONFLICTS_MAX):
            box = self.box()
            facts = decide_box(box)
            if not facts:
                return True
            cause = Cause(actor, clock.now(), key, SIGNALS)
            write, _ = fix_bytes(self.scrubber, SIGNALS, box.version, facts, cause)
            try:
                return not self.store.append([write], key=key).repeated
            except VersionConflict:
                continue
        raise VersionConflict(f"{SIGNALS}: other writers came first {CONFLICTS_MAX} times in a row")

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
        for _ in range(CONFLICTS_MAX):
            writes: list[Write] = []
            after: dict[str, Effects] = {}
            for slug, events in results.items():
                effects = self.effects(slug)
                cause = Cause(actor, clock.now(), key, slug)
                write, made = fix_bytes(
                    self.scrubber, effects_stream(slug), effects.version, events, cause
                )
                writes.append(write)
                after[slug] = reduce(evolve_effects, made, effects)
            rows = [row for s, e in after.items() for row in rows_of_effects(s, e, self.shapes)]
            try:
                if self.store.append(writes, key=key, status=rows).repeated:
                    return {slug: self.effects(slug) for slug in results}
            except VersionConflict:
                continue
            with self._lock:
                self._effects |= after
            return after
        who = ", ".join(results)
        raise VersionConflict(f"{who}: other writers came first {CONFLICTS_MAX} times in a row")

    def _record_attempt(self, run: Run, refused: Refused, command: Command) -> bool:
        """Record what a refusal leaves on record; false when another writer came first."""
        cause = Cause(command.actor, command.now, None, run.slug)
        try:
            self._append(run, refused.records, cause, b"")
        except VersionConflict:
            self._forget(run.slug)
            return False
        return True

    def _append(
        self, run: Run, outcome: Sequence[RunEvent], cause: Cause, digest: bytes
    ) -> Handled | Refused:
        write, events = fix_bytes(self.scrubber, run_stream(run.slug), run.version, outcome, cause)
        writes = [write]
        roots = Roots()
        root_events: list[Event] = []
        if any(isinstance(e, LaunchRequested | InstanceEnded | LaunchRefused) for e in outcome):
            roots = self.roots()
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
        rows = rows_of_run(after, self.shapes)
        appended = self.store.append(writes, key=cause.key, digest=digest, status=rows)
        if appended.repeated:
            return self._first_answer(run.slug, appended)
        for event in root_events:
            roots = evolve_roots(roots, event)
        with self._lock:
            self._runs[run.slug] = after
            if root_events and roots.version > self._roots.version:
                self._roots = roots
        return Handled(tuple(events), after)

    def show_unreadable(self, run: Unreadable) -> None:
        """Let `status` list a run whose history cannot be read; nothing is added to it."""
        self.store.append([], status=rows_of_run(run, self.shapes))

    # --- Caches ------------------------------------------------------------------------------

    def _events(self, stream: str, after: int = 0) -> list[Event]:
        return [
            decode(stream, recorded.version, recorded.topic, recorded.state)
            for recorded in self.store.read(stream, after=after)
        ]

    def _cached(self, slug: str) -> Run | Unreadable:
        with self._lock:
            run = self._runs.get(slug)
        return run if run is not None else self.run(slug)

    def _stale(self, run: Run) -> bool:
        version, _ = self.store.head(run_stream(run.slug))
        return version > run.version

    def _remember(self, slug: str, run: Run | Unreadable) -> Run | Unreadable:
        with self._lock:
            kept = self._runs.get(slug)
            if kept is None or kept.version <= run.version:
                self._runs[slug] = run
            return self._runs[slug]

    def _forget(self, slug: str) -> None:
        with self._lock:
            self._runs.pop(slug, None)

    def _first_answer(self, slug: str, appended: Appended) -> Handled:
        first, last = appended.versions.get(run_stream(slug), (1, 0))
        events = [e for e in self.history(slug) if first <= e.version <= last]
        run = self.run(slug)
        assert isinstance(run, Run), "an answered key belongs to a readable run"
        return Handled(tuple(events), run, repeated=True)


def run_stream(slug: str) -> str:
    """Return the stream of a run."""
    return f"run/{slug}"


def _digest_of(command: Command) -> bytes:
    """Return what must be the same when a key comes again: what was asked, not when.

    Two schedulers that fire one check read the outside at different moments, and one signal comes
    by several ways at several times, so these are known by their keys alone.
    """
    asked: Mapping[str, Any] = {}
    if not isinstance(command, RecordCheck | ReceiveSignal):
        asked = command.model_dump(mode="json", exclude={"now"})
    text = to_json({"command": type(command).__name__, **asked})
    return hashlib.sha256(text.encode()).digest()
