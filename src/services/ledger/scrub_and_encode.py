"""Makes the final bytes of new events: envelope, scrubbing, read-back check."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import uuid4

from watchkeeper import clock
from watchkeeper.domain.rules.shared.command import Command
from watchkeeper.domain.rules.signals.commands import ReceiveSignal
from watchkeeper.domain.rules.watch.commands import RecordCheck
from watchkeeper.domain.run.envelope import Envelope, Event, decode, encode
from watchkeeper.domain.run.fact import Fact
from watchkeeper.domain.run.launch import InstanceEnded, InstanceLaunched
from watchkeeper.domain.run.signals import SignalCameLate, SignalKept, SignalReceived
from watchkeeper.domain.values.people import Actor
from watchkeeper.domain.values.secrets.scrubbing import Scrubber, scrub_json
from watchkeeper.ports.event_store import Write


@dataclass(frozen=True, slots=True)
class Cause:
    """The envelope fields that the events of one append share."""

    actor: Actor
    now: datetime
    key: str | None
    correlation: str


def fix_bytes(
    scrubber: Scrubber, stream: str, version: int, facts: Sequence[Fact], cause: Cause
) -> tuple[Write, list[Event]]:
    """Scrub and encode new events, then decode them as later readers will."""
    rows: list[tuple[str, bytes]] = []
    events: list[Event] = []
    recorded_at = clock.now()
    first = uuid4()
    for event_version, fact in enumerate(facts, start=version + 1):
        envelope: Envelope[Fact] = Envelope(
            event_id=uuid4() if events else first,
            occurred_at=_occurred(fact, cause.now),
            recorded_at=recorded_at,
            actor=cause.actor,
            # The first event of an append is the cause of the others.
            cause=str(first) if events else None,
            correlation=cause.correlation,
            key=cause.key,
            data=fact,
        )
        topic, state = scrubbed_bytes(scrubber, envelope)
        rows.append((topic, state))
        # Fold exactly what is stored, so that a scrubbed text reads the same now and later.
        events.append(decode(stream, event_version, topic, state))
    return Write(stream, version, tuple(rows)), events


def scrubbed_bytes(scrubber: Scrubber, envelope: Envelope[Any]) -> tuple[str, bytes]:
    """Return the topic of an envelope's event and the bytes to store, without secrets."""
    topic, state = encode(envelope)
    found = json.loads(state)
    clean, _ = scrub_json(scrubber, found)
    # The counts leave out marks that were there before, so only the text shows a change. NaN is no
    # JSON that is stored, so equal values are the same.
    return topic, state if clean == found else to_json(clean).encode()


def _occurred(fact: Fact, now: datetime) -> datetime:
    """Return when a fact happened outside, by the best known clock."""
    match fact:
        case InstanceLaunched(launched_at=launched_at, adopted=False):
            return launched_at
        case InstanceEnded(job=job) if job.ended_at is not None:
            return job.ended_at
        case (
            SignalReceived(signal=signal) | SignalKept(signal=signal)
            | SignalCameLate(signal=signal)
        ):  # fmt: skip
            return signal.occurred_at
        case _:
            return now


def to_json(value: object) -> str:
    """Return a JSON value as compact text."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def digest_of(command: Command) -> bytes:
    """Return the digest of a command's content without its time, to compare repeated keys.

    Checks and signals are compared by key only. Two schedulers may make the same check at different
    moments. One signal may arrive in several ways.
    """
    content: Mapping[str, Any] = {}
    if not isinstance(command, RecordCheck | ReceiveSignal):
        content = command.model_dump(mode="json", exclude={"now"})
    text = to_json({"command": type(command).__name__, **content})
    return hashlib.sha256(text.encode()).digest()
