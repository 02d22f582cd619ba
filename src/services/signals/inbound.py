"""The one way in for signals: parse, deduplicate, bind, append, then answer.

A transport acknowledges a message only after `take` returned. So every acknowledged message is in
the ledger. A repeated message changes nothing.
"""

import hashlib
import logging
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from enum import StrEnum
from threading import Lock

from eventsourcing.persistence import ApplicationRecorder

from watchkeeper import clock
from watchkeeper.domain.rules.shared.refusals import Refused
from watchkeeper.domain.rules.signals.binding import (
    FAN_OUT,
    PASSING,
    Bound,
    Registry,
    adds_meeting,
    bind,
    evolve_registry,
)
from watchkeeper.domain.rules.signals.commands import ReceiveSignal
from watchkeeper.domain.rules.signals.receiving import over_limit
from watchkeeper.domain.run.envelope import Undecodable, decode
from watchkeeper.domain.run.signals import (
    MessageQuarantined,
    QuarantineReplayed,
    SignalBound,
    SignalBoxEvent,
    SignalCameLate,
    SignalKept,
)
from watchkeeper.domain.run.unbound_signals import KEPT_MAX, UnboundSignals, signal_name
from watchkeeper.domain.values.observation.signals import (
    MESSAGE_BYTES_MAX,
    RECORDED_A_MINUTE,
    Delivery,
    Heard,
    Ignored,
    Parsed,
    Poison,
    Signal,
    SignalKind,
    in_minute,
)
from watchkeeper.domain.values.people import Actor
from watchkeeper.domain.values.secrets.scrubbing import Scrubber, scrub
from watchkeeper.ports.sources import Evidence
from watchkeeper.projections.views.bindings import TOPICS
from watchkeeper.services.ledger.ledger import Handled, Ledger
from watchkeeper.services.ledger.ledger_feed import Tailer
from watchkeeper.services.signals.binding_snapshot import Known
from watchkeeper.services.signals.quarantine import kept_of, size_of

log = logging.getLogger(__name__)

TEXT_MAX = 300
ATTRIBUTES_MAX = 32
INBOX = Actor(principal="watchkeeper", kind="service")

Parse = Callable[[Delivery, Scrubber], Parsed]
"""Parses a message, and removes secrets before any text is cut."""


class Outcome(StrEnum):
    """The outcome of a message. Only after the last one must it be sent again.

    A coalesced message is only counted: its source sent too many in this minute.
    """

    RECORDED = "recorded"
    KNOWN = "known"
    LATE = "late"
    KEPT = "kept"
    COALESCED = "coalesced"
    COUNTED = "counted"
    QUARANTINED = "quarantined"


class Inbox:
    """Takes messages from any transport, from any thread, one at a time.

    Args:
        ledger: The ledger that records signals.
        recorder: The ledger, to follow the appends of others.
        evidence: The store for the bytes of unreadable messages.
        parse: Parses a message.
        known: Returns the known bindings and their position; by default the whole ledger is read.
    """

    def __init__(
        self,
        ledger: Ledger,
        recorder: ApplicationRecorder,
        evidence: Evidence,
        parse: Parse,
        known: Callable[[], Known] = Known,
    ) -> None:
        """Start without bindings. The first message loads them and reads on in the ledger."""
        self._ledger = ledger
        self._evidence = evidence
        self._parse = parse
        self._tailer = Tailer(recorder, ledger.store)
        self._registry = Registry()
        self._known: Callable[[], Known] | None = known
        self._held: dict[tuple[str, str], ReceiveSignal] = {}
        self._behind: datetime | None = None
        self._lock = Lock()
        self.counts: Counter[str] = Counter()

    def take(self, delivery: Delivery) -> Outcome:
        """Record one message; after the return it may be acknowledged.

        Raises:
            StoreFailure: The ledger failed. The message must be sent again.
            VersionConflict: Too many conflicts with other writers. It must be sent again.
        """
        parsed = self._read(delivery)
        if isinstance(parsed, Poison):
            outcome = self._quarantine(delivery, parsed.reason)
        else:
            self.record_due()
            with self._lock:
                outcome = self._settle(parsed)
        self.counts[outcome.value] += 1
        return outcome

    def record_due(self) -> int:
        """Record the held signals of minutes that are over; return their number."""
        with self._lock:
            return self._record_held(clock.now().replace(second=0, microsecond=0))

    def flush(self) -> int:
        """Record all held signals, as at the end of a batch; return their number."""
        with self._lock:
            return self._record_held(clock.now() + timedelta(minutes=1))

    def bind_kept(self) -> int:
        """Retry kept signals, since more may be known now; return how many found a run."""
        with self._lock:
            self._catch_up()
            return self._bind_kept()

    def bind_by_hand(self, name: str, run: str, actor: Actor) -> Outcome | Refused:
        """Bind a kept signal to a run at a person's request.

        Args:
            name: `<source>/<key>` of the kept signal.
            run: The slug of an existing run.
            actor: The person.

        Raises:
            KeyError: No such signal is kept.
        """
        with self._lock:
            kept = self._ledger.box().kept[name]
            return self._move(kept.signal, Bound(run, "a person"), actor)

    def replay(self, quarantine: str, message: Delivery, actor: Actor) -> Outcome:
        """Retry a quarantined message after a fix, and record the outcome.

        Args:
            quarantine: Its name.
            message: The message as kept.
            actor: The person who asks for it.
        """
        parsed = self._read(message)
        with self._lock:
            outcome, reason = Outcome.QUARANTINED, ""
            if isinstance(parsed, Poison):
                reason = parsed.reason
            else:
                outcome = self._settle(parsed)
            event = QuarantineReplayed(
                quarantine=quarantine, outcome=outcome.value, reason=reason[:TEXT_MAX]
            )
            self._ledger.record_box(lambda _: [event], actor)
            return outcome

    # --- One message -------------------------------------------------------------------------

    def _read(self, delivery: Delivery) -> Parsed:
        if size_of(delivery) > MESSAGE_BYTES_MAX:
            return Poison(f"{size_of(delivery)} bytes; a message has at most {MESSAGE_BYTES_MAX}")
        try:
            return self._parse(delivery, self._ledger.scrubber)
        except Exception as error:
            # A parser that fails on foreign bytes is our bug. The message is kept until the fix.
            log.exception("%s %s: the parser failed", delivery.transport, delivery.message_id)
            return Poison(f"internal error, please report: {type(error).__name__}: {error}")

    def _settle(self, parsed: tuple[Signal, ...] | Ignored) -> Outcome:
        if isinstance(parsed, Ignored):
            self.counts[f"counted: {parsed.reason}"] += 1
            return Outcome.COUNTED
        self._catch_up()
        outcomes = [self._signal(signal) for signal in parsed]
        # The most informative of several outcomes counts for the message.
        order = list(Outcome)
        return min(outcomes, key=order.index, default=Outcome.COUNTED)

    def _signal(self, signal: Signal) -> Outcome:
        bound = bind(self._registry, signal)
        if len(bound) > 1 and signal.kind not in FAN_OUT:
            return self._keep(signal, "ambiguous", bound)
        if not bound and signal.kind in PASSING:
            self.counts["counted: of no run"] += 1
            return Outcome.COUNTED
        if not bound:
            why = "inventory" if signal.kind is SignalKind.IDENTITY else "unbound"
            return self._keep(signal, why, ())
        outcomes = [self._to_run(signal, one, INBOX) for one in bound]
        return min(outcomes, key=list(Outcome).index)

    def _hold(self, command: ReceiveSignal, run: str) -> Outcome:
        """Count a signal over the limit; the newest is recorded for all when its minute ends."""
        key = (run, command.signal.source)
        number = self._held[key].coalesced + 1 if key in self._held else 1
        if number == 1:
            log.warning("%s: too many signals from %s, some are only counted", *key)
        self._held[key] = command.model_copy(update={"coalesced": number})
        return Outcome.COALESCED

    def _record_held(self, before: datetime) -> int:
        """Record the signals held before a time: the newest of each source and run."""
        done = 0
        for (run, source), held in list(self._held.items()):
            if held.now >= before:
                continue
            key = _key(held.signal, run)
            if self._ledger.store.answer(key) is None:
                again = held.model_copy(update={"now": clock.now()})
                handled = self._ledger.handle(run, again, key=key)
                done += isinstance(handled, Handled) and bool(handled.events)
            del self._held[run, source]
        if self._behind is not None and self._behind < before:
            self._behind = None
            self._bind_kept()
        return done

    def _to_run(
        self, signal: Signal, bound: Bound, actor: Actor, *, arrives: bool = True
    ) -> Outcome:
        key = _key(signal, bound.run)
        if self._ledger.store.answer(key) is not None:
            # The ledger would answer the same, but would read the run's whole history first.
            return Outcome.KNOWN
        command = ReceiveSignal(
            now=clock.now(),
            actor=actor,
            signal=signal,
            instance=bound.instance,
            bound_by=bound.by[:TEXT_MAX],
        )
        handled = self._ledger.handle(bound.run, command, key=key)
        if isinstance(handled, Refused):
            return self._late(signal, bound, handled)
        if handled.repeated:
            return Outcome.KNOWN
        if not handled.events and over_limit(handled.run, command):
            return self._hold(command, bound.run) if arrives else Outcome.COALESCED
        if not handled.events:
            self._remember_links(signal)
            return Outcome.KNOWN
        return Outcome.RECORDED

    def _remember_links(self, signal: Signal) -> None:
        """Learn the links of a signal even if its claim is not newer.

        Otherwise the binding of other signals would depend on the order of arrival.
        """
        if not adds_meeting(self._registry, signal):
            return
        kept = SignalKept(signal=signal, why="inventory")
        self._ledger.record_box(lambda _: [kept], INBOX, key=f"{_key(signal, '')}/links")

    def _late(self, signal: Signal, bound: Bound, refused: Refused) -> Outcome:
        log.info("%s: %s came late: %s", bound.run, signal_name(signal), refused.sentence)
        event = SignalCameLate(signal=signal, bound_by=bound.by[:TEXT_MAX])
        key = f"{_key(signal, bound.run)}/late"
        if self._ledger.store.answer(key) is not None:
            return Outcome.KNOWN
        if self._is_full(self._ledger.effects(bound.run).heard, signal):
            return Outcome.COALESCED
        self._ledger.record_effects(bound.run, [event], INBOX, key=key)
        return Outcome.LATE

    def _is_full(self, heard: Heard, signal: Signal) -> bool:
        full = in_minute(heard, signal.source, clock.now()) >= RECORDED_A_MINUTE
        if full:
            log.info("too many signals from %s: %s is only counted", signal.source, signal.key)
        return full

    def _keep(self, signal: Signal, why: str, bound: tuple[Bound, ...]) -> Outcome:
        kept = SignalKept.model_validate(
            {
                "signal": signal.model_dump(),
                "why": why,
                "candidates": sorted({one.run for one in bound}),
            }
        )
        key = _key(signal, "")
        waits = why != "inventory" and self._ledger.store.answer(key) is None
        if waits and self._is_full(self._ledger.box().heard, signal):
            return Outcome.COALESCED
        fresh = self._ledger.record_box(lambda _: [kept], INBOX, key=key)
        return Outcome.KEPT if fresh else Outcome.KNOWN

    def _quarantine(self, delivery: Delivery, reason: str) -> Outcome:
        scrubber = self._ledger.scrubber
        content, around = kept_of(delivery, scrubber)
        digest = hashlib.sha256(content).hexdigest()
        # Stored before the event that names it, so that no crash leaves a digest without content.
        self._evidence.keep(digest, content)
        shown = sorted(around.items())[:ATTRIBUTES_MAX]
        why = scrub(scrubber, reason).text[:TEXT_MAX]

        def quarantined(box: UnboundSignals) -> list[SignalBoxEvent]:
            return [
                MessageQuarantined(
                    quarantine=f"quarantine-{box.quarantined_total + 1}",
                    transport=delivery.transport[:TEXT_MAX],
                    message_id=delivery.message_id[:TEXT_MAX],
                    reason=why,
                    attributes={name[:TEXT_MAX]: str(v)[:TEXT_MAX] for name, v in shown},
                    digest=digest,
                    size=size_of(delivery),
                )
            ]

        fresh = self._ledger.record_box(quarantined, INBOX, key=f"quarantine/{digest}")
        log.warning("%s %s: quarantined: %s", delivery.transport, delivery.message_id, why)
        return Outcome.QUARANTINED if fresh else Outcome.KNOWN

    # --- What is known -----------------------------------------------------------------------

    def _catch_up(self) -> None:
        before = self._registry
        if self._known is not None:
            known = self._known()
            self._registry, self._tailer.position = known.registry, known.position
            self._known = None
        for page in self._tailer.pages():
            for stored in page:
                if stored.topic not in TOPICS:
                    continue
                stream = str(stored.originator_id)
                try:
                    event = decode(
                        stream, stored.originator_version, stored.topic, bytes(stored.state)
                    )
                except Undecodable as error:
                    log.warning("%s %s: %s", stream, stored.originator_version, error)
                    continue
                self._registry = evolve_registry(self._registry, event)
        if self._registry.shape != before.shape:
            self._bind_kept()

    def _bind_kept(self) -> int:
        found = 0
        for kept in list(self._ledger.box().kept.values())[-KEPT_MAX:]:
            bound = bind(self._registry, kept.signal)
            if len(bound) != 1:
                continue
            outcome = self._move(kept.signal, bound[0], INBOX)
            found += not isinstance(outcome, Refused) and outcome is not Outcome.COALESCED
        return found

    def _move(self, signal: Signal, bound: Bound, actor: Actor) -> Outcome | Refused:
        """Move a kept signal to its run; after a crash between the appends, it is repeated."""
        outcome = self._to_run(signal, bound, actor, arrives=False)
        if outcome is Outcome.COALESCED:
            self._behind = clock.now()
            return outcome  # It stays in the box and is retried in a later minute.
        event = SignalBound(signal=signal_name(signal), run=bound.run, by=bound.by[:TEXT_MAX])
        key = f"{_key(signal, bound.run)}/bound"
        self._ledger.record_box(lambda _: [event], actor, key=key)
        return outcome


def _key(signal: Signal, run: str) -> str:
    """Return the idempotency key of a signal, for one run or for the box.

    A digest, since keys are stored with the events and are not scrubbed.
    """
    name = hashlib.sha256(f"{signal.source}\n{signal.key}".encode()).hexdigest()
    return f"signal/{name[:40]}/{run}"
