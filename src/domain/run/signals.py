"""The events of signals: bound to a run, late, kept, or quarantined."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import ClassVar, Literal

from watchkeeper.domain.run.fact import Fact
from watchkeeper.domain.values.basic import Slug
from watchkeeper.domain.values.observation.signals import Claim, Claims, Heard, Short, Signal


class SignalReceived(Fact):
    """A signal was bound to the run; a claim that the run holds against what its sources say.

    Attributes:
        signal: As parsed and scrubbed.
        instance: The instance that it speaks of, where it says so; empty for the whole run.
        bound_by: The clue that led here.
        coalesced: How many signals it is the newest of, of a source that sent too many in a minute;
            0 for one by itself.
    """

    topic: ClassVar[str] = "run.signal_received.1"
    signal: Signal
    instance: str = ""
    bound_by: Short
    coalesced: int = 0


class SignalCameLate(Fact):
    """A signal was bound to a run that is over: kept beside its history, which stays as it is.

    Attributes:
        signal: As parsed and scrubbed.
        bound_by: The clue that led there.
    """

    topic: ClassVar[str] = "effects.signal_came_late.1"
    signal: Signal
    bound_by: Short


class SignalKept(Fact):
    """A signal belongs to no single run, or to none that is known yet; it may be bound later.

    Attributes:
        signal: As parsed and scrubbed.
        why: `unbound` when no clue led to a run, `ambiguous` when they led to several, `inventory`
            when it says which machines and jobs belong together.
        candidates: The runs of an ambiguous one.
    """

    topic: ClassVar[str] = "signals.kept.1"
    signal: Signal
    why: Literal["unbound", "ambiguous", "inventory"]
    candidates: tuple[Slug, ...] = ()


class SignalBound(Fact):
    """A kept signal was bound to a run; it stands in that run's history from now on.

    Attributes:
        signal: `<source>/<key>` of the kept one.
        run: Where it stands now.
        by: The clue, or `a person`.
    """

    topic: ClassVar[str] = "signals.bound.1"
    signal: str
    run: Slug
    by: Short


class MessageQuarantined(Fact):
    """A message that cannot be read was put aside, and acknowledged so that it comes no more.

    Attributes:
        quarantine: Its name, such as `quarantine-3`.
        transport: Where it came by, such as a subscription.
        message_id: What the transport called it.
        reason: Why it cannot be read.
        attributes: What stood around it, scrubbed and shortened.
        digest: SHA-256 under which its scrubbed bytes are kept.
        size: Bytes of the message.
    """

    topic: ClassVar[str] = "signals.quarantined.1"
    quarantine: str
    transport: Short
    message_id: Short
    reason: Short
    attributes: dict[str, Short] = {}
    digest: str
    size: int


class QuarantineReplayed(Fact):
    """A quarantined message was tried again, after a fix.

    Attributes:
        quarantine: Its name.
        outcome: What came of it, such as `recorded` or `quarantined`.
        reason: In words.
    """

    topic: ClassVar[str] = "signals.replayed.1"
    quarantine: str
    outcome: Short
    reason: Short = ""


class SignalsDismissed(Fact):
    """A person said that kept signals or quarantined messages need nobody any more.

    Attributes:
        names: Each one's name; empty where `source` is given.
        source: The source whose kept signals are all dismissed; empty where they are named.
        reason: In the person's words.
    """

    topic: ClassVar[str] = "signals.dismissed.1"
    names: tuple[str, ...] = ()
    source: Short = ""
    reason: Short


HeardEvent = SignalReceived
"""What a run hears from outside."""

SignalBoxEvent = (
    SignalKept | SignalBound | MessageQuarantined | QuarantineReplayed | SignalsDismissed
)


CHECK_GAP = timedelta(seconds=5)
"""The least time between a check and the next one that any number of signals brings forward."""


@dataclass(frozen=True, slots=True)
class SignalsState:
    """What signals said about a run.

    Attributes:
        claims: The newest claim for each subject.
        recent_counts: How many signals each source had recorded in its newest minute.
        check_requested_at: When the newest signal that requests a check was recorded.
    """

    claims: Claims = field(default_factory=dict[str, Claim])
    recent_counts: Heard = field(default_factory=dict[str, tuple[datetime, int]])
    check_requested_at: datetime | None = None
