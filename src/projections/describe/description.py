"""How one kind of event reads: its headline, its event line, its logbook entry."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Generic, TypeVar

from watchkeeper.domain.run.envelope import Event
from watchkeeper.domain.run.fact import Fact
from watchkeeper.projections.logbook.state import Key, Kind, Logbook, opened, said
from watchkeeper.projections.quoting import prose, quote

E = TypeVar("E", bound=Fact)


class Headline(StrEnum):
    """The words after `<run>: ` in a commit's subject, the most important first."""

    START_HERO = "start hero-run logbook"
    START = "start run logbook"
    SEALED = "log final seal"
    SEAL_VERIFIED = "log seal verification"
    SEAL_BLOCKED = "log blocked seal"
    SUPERSEDED = "log successor"
    FAILURE = "log failure"
    REFUSED = "log refused launch"
    ROLLBACK = "log rollback"
    RELAUNCH = "log relaunch"
    LAUNCH = "log launch"
    ESCALATION = "log escalation"
    STOP = "log stop"
    FINISH = "log finish"
    MILESTONE = "log milestone"
    HANDOVER = "log handover"
    PLANNED = "log planned act"
    ABANDON = "log abandonment"
    FIX = "log small fix"
    RESUME = "log resume proof"
    REVISION = "log revised cause"
    DECISION = "log decision"
    ANSWER = "log acknowledgement"
    CORRECTION = "log correction"
    NOTE = "log note"
    FINDING = "log finding"
    REVOCATION = "log revocation"
    PROPOSAL = "log proposal"
    APPROVAL = "log approval"
    WAIVER = "log waiver"
    AMENDMENT = "log contract amendment"
    PREFLIGHT = "log preflight"
    CONSENT = "log consent"
    ATTEMPT = "log refused attempt"
    CHECKPOINT = "log rejected checkpoint"
    SIGNAL = "log signal"
    TRACKER = "log tracker link"
    WATCH = "log watch"
    CHECK = "log check"


@dataclass(frozen=True, slots=True)
class NoEntry:
    """An event without a logbook entry of its own.

    Attributes:
        why: One sentence.
    """

    why: str


@dataclass(frozen=True, slots=True)
class Reason:
    """What `why` says of an event by the event alone.

    Attributes:
        headline: The event in a few words; empty for its event line.
        evidence: What it rests on.
    """

    headline: str = ""
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Description(Generic[E]):
    """How events of one type read.

    Attributes:
        event: Their type.
        headline: The headline of its logbook commit; None if it has none.
        line: The event in one line. The caller cuts and quotes it.
        logbook: Adds its entry to the logbook.
        why: Its reason, if the event alone says it.
        block_until: For an event that blocks the run: the events that end the block.
    """

    event: type[E]
    headline: Headline | Callable[[E], Headline | None] | None
    line: Callable[[E], str]
    logbook: Callable[[Logbook, E, Event], Logbook] | NoEntry
    why: Callable[[E], Reason] | None = None
    block_until: tuple[type[Fact], ...] = ()


_OTHER_STREAM = NoEntry("The logbook shows the run's own stream.")


def other_stream(event: type[E], line: Callable[[E], str]) -> Description[E]:
    """Describe an event that is not in a run's own stream, so that no logbook shows it."""
    return Description(event, headline=None, line=line, logbook=_OTHER_STREAM)


def entry(
    book: Logbook,
    event: Event,
    title: str,
    *,
    kind: Kind = Kind.COMPLETE,
    at: datetime | None = None,
    status: str = "",
    rule: str = "",
    evidence: str | Iterable[str] = (),
    decision: str | Iterable[str] = (),
    then: str | Iterable[str] = (),
) -> Logbook:
    """Open an entry with its prescribed lines; a line without text is left out.

    Args:
        book: The logbook.
        event: The event.
        title: One line without outside markup.
        kind: The subject of the entry.
        at: Its time, if that is not the event's.
        status: What holds from here on.
        rule: The rule behind it, for the end of the status.
        evidence: What shows it; several texts are a list.
        decision: What was decided.
        then: What comes next.
    """
    book = opened(book, kind, at or event.at, title)
    behind = f"rule {prose(rule)}, " if rule else ""
    book = said(book, Key.STATUS, f"{status} ({behind}event {event.version})" if status else "")
    for key, said_so in ((Key.EVIDENCE, evidence), (Key.DECISION, decision), (Key.NEXT, then)):
        book = said(book, key, "", [said_so] if isinstance(said_so, str) else said_so)
    return book


def by(event: Event) -> str:
    """Name the actor of an event, with the kind of actor."""
    actor = event.envelope.actor
    return f"{prose(actor.principal)} ({actor.kind})"


def words(text: str) -> str:
    """Quote a person's words; empty for no words."""
    return f"in their words: {quote(text)}" if text.strip() else ""


def slug(event: Event) -> str:
    """Return the run that an event of a run's stream belongs to."""
    return event.stream.removeprefix("run/")


def because(what: str, reason: str) -> str:
    """Return a line with its reason, if there is one."""
    return f"{what}: {reason}" if reason else what


def sha(commit: str) -> str:
    """Shorten a commit's SHA."""
    return commit[:8]
