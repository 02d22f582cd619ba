"""Signals: claims from outside about what happened, before they are judged.

A signal is a claim, not a fact. A run keeps the newest claim for each subject, by the time outside.
So late, repeated or reordered signals change nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Annotated

from pydantic import AwareDatetime, Field, StringConstraints

from watchkeeper.domain.values.basic import Value

CLAIMS_MAX = 256
"""Claims of one family remembered in a run's state: the newest; older ones stay in the events. Each
family has its own limit, so that a thousand dead processes do not displace a deleted checkpoint."""

RECORDED_A_MINUTE = 60
"""How many signals of one source a run records in a minute. The last one represents the others."""

MESSAGE_BYTES_MAX = 10_000_000
"""Pub/Sub takes messages of 10 MB at most."""

Heard = Mapping[str, tuple[datetime, int]]
"""By source: the newest minute in which signals were recorded, and how many."""

Short = Annotated[str, StringConstraints(max_length=300)]
"""A text from outside, cut to a bounded length: a line, a name or a path."""

Key = Annotated[str, StringConstraints(min_length=1, max_length=600)]


class SignalKind(StrEnum):
    """What a signal claims."""

    CHECKPOINT_WRITTEN = "checkpoint_written"
    CHECKPOINT_GONE = "checkpoint_gone"
    CHECKPOINT_REPLACED = "checkpoint_replaced"
    JOB_STATE = "job_state"
    PROCESS_DIED = "process_died"
    TASK_STATE = "task_state"
    NODE_STARTING = "node_starting"
    NODE_UP = "node_up"
    NODE_LOST = "node_lost"
    NODE_PREEMPTED = "node_preempted"
    HARDWARE_FAILED = "hardware_failed"
    MAINTENANCE_PLANNED = "maintenance_planned"
    MAINTENANCE_STARTED = "maintenance_started"
    MAINTENANCE_OVER = "maintenance_over"
    CAPACITY_REFUSED = "capacity_refused"
    CAPACITY_WAITING = "capacity_waiting"
    CAPACITY_GRANTED = "capacity_granted"
    CAPACITY_LOST = "capacity_lost"
    INCIDENT_OPENED = "incident_opened"
    INCIDENT_CLOSED = "incident_closed"
    SOURCE_UNREACHABLE = "source_unreachable"
    SOURCE_REACHABLE = "source_reachable"
    LOG_ALARM = "log_alarm"
    LOG_PROGRESS = "log_progress"
    LOG_CHECKPOINT = "log_checkpoint"
    TRACKER_NAMED = "tracker_named"
    TRACKER_STATE = "tracker_state"
    TRACKER_ALERT = "tracker_alert"
    IDENTITY = "identity"
    COMMENT = "comment"
    COMMENT_CHANGED = "comment_changed"
    BRANCH_PUSHED = "branch_pushed"
    TAG_PUSHED = "tag_pushed"
    HISTORY_REWRITTEN = "history_rewritten"
    BUDGET = "budget"
    TICK = "tick"
    OTHER = "other"


URGENT = frozenset(
    {
        SignalKind.CHECKPOINT_WRITTEN,
        SignalKind.CHECKPOINT_GONE,
        SignalKind.JOB_STATE,
        SignalKind.PROCESS_DIED,
        SignalKind.TASK_STATE,
        SignalKind.NODE_LOST,
        SignalKind.NODE_PREEMPTED,
        SignalKind.HARDWARE_FAILED,
        SignalKind.MAINTENANCE_STARTED,
        SignalKind.CAPACITY_LOST,
        SignalKind.CAPACITY_GRANTED,
        SignalKind.LOG_ALARM,
        SignalKind.TRACKER_STATE,
        SignalKind.TRACKER_ALERT,
    }
)
"""Kinds that bring the next check of a live run forward: the check then asks the sources."""

NOTABLE = frozenset(
    {
        SignalKind.CHECKPOINT_GONE,
        SignalKind.PROCESS_DIED,
        SignalKind.NODE_LOST,
        SignalKind.NODE_PREEMPTED,
        SignalKind.HARDWARE_FAILED,
        SignalKind.MAINTENANCE_PLANNED,
        SignalKind.MAINTENANCE_STARTED,
        SignalKind.MAINTENANCE_OVER,
        SignalKind.CAPACITY_REFUSED,
        SignalKind.CAPACITY_LOST,
        SignalKind.CAPACITY_GRANTED,
        SignalKind.INCIDENT_OPENED,
        SignalKind.INCIDENT_CLOSED,
        SignalKind.SOURCE_UNREACHABLE,
        SignalKind.SOURCE_REACHABLE,
        SignalKind.LOG_ALARM,
        SignalKind.TRACKER_ALERT,
        SignalKind.COMMENT_CHANGED,
        SignalKind.HISTORY_REWRITTEN,
    }
)
"""Kinds with an entry of their own in the logbook; checks or events cover the rest."""

_FAMILIES: Mapping[str, tuple[SignalKind, ...]] = MappingProxyType(
    {
        # At equal times the later name wins, which is safer to believe.
        "checkpoint": (SignalKind.CHECKPOINT_WRITTEN, SignalKind.CHECKPOINT_GONE),
        "node": (
            SignalKind.NODE_STARTING,
            SignalKind.NODE_UP,
            SignalKind.NODE_LOST,
            SignalKind.HARDWARE_FAILED,
            SignalKind.NODE_PREEMPTED,
        ),
        "maintenance": (
            SignalKind.MAINTENANCE_PLANNED,
            SignalKind.MAINTENANCE_STARTED,
            SignalKind.MAINTENANCE_OVER,
        ),
        "capacity": (
            SignalKind.CAPACITY_WAITING,
            SignalKind.CAPACITY_GRANTED,
            SignalKind.CAPACITY_REFUSED,
            SignalKind.CAPACITY_LOST,
        ),
        "incident": (SignalKind.INCIDENT_OPENED, SignalKind.INCIDENT_CLOSED),
        "source": (SignalKind.SOURCE_REACHABLE, SignalKind.SOURCE_UNREACHABLE),
        "comment": (SignalKind.COMMENT, SignalKind.COMMENT_CHANGED),
        "ref": (SignalKind.BRANCH_PUSHED, SignalKind.TAG_PUSHED, SignalKind.HISTORY_REWRITTEN),
    }
)
"""Kinds about one subject, of which only the newest counts. Any other kind is its own family."""

_PLACES: Mapping[SignalKind, tuple[str, int]] = MappingProxyType(
    {kind: (family, rank) for family, kinds in _FAMILIES.items() for rank, kind in enumerate(kinds)}
)


class Signal(Value):
    """One message from outside, parsed and scrubbed.

    Attributes:
        source: The source of the natural keys, such as `gcs`, `logging` or `ray_job`.
        key: Its identity at the source, not the transport's message id.
        kind: What it claims.
        subject: Its subject: a checkpoint's folder, a node, a submission or an incident.
        summary: One line for people.
        clues: Clues for binding, each as `<space>:<name>`, such as `submission:hero-i2`; the
            strongest first.
        facts: Details by name, as text.
        occurred_at: When it happened, by the source.
        published_at: When the transport accepted it; null if unknown.
        received_at: When watchkeeper received it.
    """

    source: Short
    key: Key
    kind: SignalKind
    subject: Short = ""
    summary: Short
    clues: Annotated[tuple[Key, ...], Field(max_length=24)] = ()
    facts: Annotated[dict[str, Short], Field(max_length=24)] = {}
    occurred_at: AwareDatetime
    published_at: AwareDatetime | None = None
    received_at: AwareDatetime


@dataclass(frozen=True, slots=True)
class Delivery:
    """One message as a transport brought it.

    Attributes:
        transport: The transport, such as a subscription's name.
        message_id: The transport's message id. It is no identity, since one fact may come in
            several messages.
        data: Its bytes; empty if everything is in the attributes.
        attributes: The attributes of the message.
        published_at: When the transport accepted it; null if unknown.
        received_at: When watchkeeper received it.
        attempt: The number of the delivery attempt, if the transport counts.
    """

    transport: str
    message_id: str
    data: bytes
    attributes: Mapping[str, str]
    published_at: datetime | None
    received_at: datetime
    attempt: int | None = None


@dataclass(frozen=True, slots=True)
class Ignored:
    """A message without useful content. It is only counted."""

    reason: str


@dataclass(frozen=True, slots=True)
class Poison:
    """A message that cannot be read. It is quarantined with its bytes."""

    reason: str


Parsed = tuple[Signal, ...] | Ignored | Poison
"""The result of parsing a message: some transports pack several signals into one."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The newest claim about one subject.

    Attributes:
        kind: The kind of claim.
        subject: The subject.
        at: When it happened outside.
        summary: One line for people.
        source: The source.
        key: The signal's natural key.
    """

    kind: SignalKind
    subject: str
    at: datetime
    summary: str
    source: str
    key: str


Claims = Mapping[str, Claim]
"""The newest claim by subject; the key includes the family."""


def subject_key(kind: SignalKind, subject: str) -> str:
    """Return the key under which a claim is remembered.

    >>> subject_key(SignalKind.NODE_LOST, "n1") == subject_key(SignalKind.NODE_PREEMPTED, "n1")
    True
    """
    family, _ = _PLACES.get(kind, (kind.value, 0))
    return f"{family}:{subject}"


def claim_of(signal: Signal) -> Claim:
    """Return what a signal claims."""
    return Claim(
        signal.kind, signal.subject, signal.occurred_at, signal.summary, signal.source, signal.key
    )


def in_minute(heard: Heard, source: str, at: datetime) -> int:
    """Return how many signals of a source were recorded in the minute of a time."""
    minute, number = heard.get(source, (at, 0))
    return number if minute == at.replace(second=0, microsecond=0) else 0


def hear(heard: Heard, source: str, at: datetime) -> Heard:
    """Count one more signal of a source as recorded."""
    minute = at.replace(second=0, microsecond=0)
    return {**heard, source: (minute, in_minute(heard, source, at) + 1)}


def absorb(claims: Claims, claim: Claim) -> Claims:
    """Return the claims with one more added; unchanged if it is not newer.

    The outcome is the same for any order of the same claims.
    """
    name = subject_key(claim.kind, claim.subject)
    known = claims.get(name)
    if known is not None and _strength(known) >= _strength(claim):
        return claims
    grown = {**claims, name: claim}
    if len(grown) <= CLAIMS_MAX:
        return grown
    family = name.partition(":")[0]
    kin = [item for item in grown.items() if item[0].partition(":")[0] == family]
    if len(kin) <= CLAIMS_MAX:
        return grown
    oldest = min(kin, key=lambda item: (item[1].at, item[0]))[0]
    left = {kept: one for kept, one in grown.items() if kept != oldest}
    return claims if oldest == name else left


def _strength(claim: Claim) -> tuple[datetime, int, str, str]:
    _, rank = _PLACES.get(claim.kind, ("", 0))
    return claim.at, rank, claim.source, claim.key
