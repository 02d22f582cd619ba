"""The events of signals: bound to a run, late, kept, or quarantined."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import ClassVar, Literal

from watchkeeper.domain.run.fact import Fact
from watchkeeper.domain.values.basic import Slug
from watchkeeper.domain.values.observation.signals import Claim, Claims, Heard, Short, Signal


class SignalReceived(Fact):
    """A signal was bound to the run. It is a claim, which the next check compares with sources.

    Attributes:
        signal: As parsed and scrubbed.
        instance: The instance that the signal names; empty for the whole run.
        bound_by: The clue that identified the run.
        coalesced: How many signals of its source it represents, if the source sent too many in a
            minute; else 0.
    """

    topic: ClassVar[str] = "run.signal_received.1"
    signal: Signal
    instance: str = ""
    bound_by: Short
    coalesced: int = 0


class SignalCameLate(Fact):
    """A signal was bound to a finished run. It is stored outside the run's history.

    Attributes:
        signal: As parsed and scrubbed.
        bound_by: The clue that identified the run.
    """

    topic: ClassVar[str] = "effects.signal_came_late.1"
    signal: Signal
    bound_by: Short


class SignalKept(Fact):
    """A signal could not be bound to a single known run. It may be bound later.

    Attributes:
        signal: As parsed and scrubbed.
        why: `unbound` if no clue names a run, `ambiguous` if clues name several, `inventory` if it
            only links machines and jobs.
        candidates: The runs of an ambiguous signal.
    """

    topic: ClassVar[str] = "signals.kept.1"
    signal: Signal
    why: Literal["unbound", "ambiguous", "inventory"]
    candidates: tuple[Slug, ...] = ()


class SignalBound(Fact):
    """A kept signal was bound to a run and is in that run's history from now on.

    Attributes:
        signal: `<source>/<key>` of the kept signal.
        run: The run's slug.
        by: The clue, or `a person`.
    """

    topic: ClassVar[str] = "signals.bound.1"
    signal: str
    run: Slug
    by: Short


class MessageQuarantined(Fact):
    """An unreadable message was quarantined and acknowledged, so that it is not sent again.

    Attributes:
        quarantine: Its name, such as `quarantine-3`.
        transport: The transport, such as a subscription.
        message_id: The transport's id of the message.
        reason: Why it cannot be read.
        attributes: Its attributes, scrubbed and shortened.
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
    """A quarantined message was processed again, after a fix.

    Attributes:
        quarantine: Its name.
        outcome: The outcome, such as `recorded` or `quarantined`.
        reason: The reason in words.
    """

    topic: ClassVar[str] = "signals.replayed.1"
    quarantine: str
    outcome: Short
    reason: Short = ""


class SignalsDismissed(Fact):
    """A person dismissed kept signals or quarantined messages.

    Attributes:
        names: Their names; empty if `source` is given.
        source: The source whose kept signals are all dismissed; empty if names are given.
        reason: The person's words.
    """

    topic: ClassVar[str] = "signals.dismissed.1"
    names: tuple[str, ...] = ()
    source: Short = ""
    reason: Short


HeardEvent = SignalReceived
"""The signal events of a run."""

SignalBoxEvent = (
    SignalKept | SignalBound | MessageQuarantined | QuarantineReplayed | SignalsDismissed
)


CHECK_GAP = timedelta(seconds=5)
"""The shortest time between two checks, however many signals request one."""


@dataclass(frozen=True, slots=True)
class SignalsState:
    """The claims of signals about a run.

    Attributes:
        claims: The newest claim for each subject.
        recent_counts: How many signals each source had recorded in its newest minute.
        check_requested_at: When the newest signal that requests a check was recorded.
    """

    claims: Claims = field(default_factory=dict[str, Claim])
    recent_counts: Heard = field(default_factory=dict[str, tuple[datetime, int]])
    check_requested_at: datetime | None = None
