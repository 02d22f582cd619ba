"""State of the logbook fold: text that only grows, and facts for later lines.

A pushed entry must never change. So the fold keeps text instead of editable entries, and every
function here appends to it. `Facts` holds what later lines need.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta, tzinfo
from enum import Enum, IntEnum

from watchkeeper.domain.run.ends import FailureClassified
from watchkeeper.domain.run.launch import LaunchRequested, PreflightRecorded
from watchkeeper.domain.run.seal import SealVerified
from watchkeeper.domain.run.watch import CheckRecorded, Holder
from watchkeeper.domain.values.basic import CheckpointKind, JobFacts
from watchkeeper.domain.values.check import Progress
from watchkeeper.domain.values.contract.contract import Contract, cadence_of
from watchkeeper.projections.figures import stamp
from watchkeeper.projections.quoting import bullet
from watchkeeper.projections.series import Series, grown


class Key(IntEnum):
    """The lines of an entry, in the order of the procedure."""

    NOTHING = 0
    STATUS = 1
    EVIDENCE = 2
    DECISION = 3
    NEXT = 4


class Kind(Enum):
    """The subject of an entry. It decides which later events may still add lines."""

    CHECKS = "one line for each check"
    LAUNCH = "a launch under way; each of its steps is one line"
    END = "an instance that ended, was refused or blocked; a decision follows"
    FINDING = "a finding; a question may follow"
    ANSWER = "an answered question; a decision may follow"
    COMPLETE = "complete: nothing is added"


@dataclass(frozen=True, slots=True)
class Last:
    """The last entry, the only one that may still grow.

    Attributes:
        title: For a running entry of checks: the common title of its lines.
        day: The day of its newest time, as YYYY-MM-DD in the contract's zone.
        written: The last prescribed line that was written.
        shown: The evidence that its lines already show, to avoid repetition.
    """

    kind: Kind = Kind.COMPLETE
    title: str = ""
    day: str = ""
    written: Key = Key.NOTHING
    shown: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Seen:
    """A checkpoint as the store listed it."""

    kind: CheckpointKind
    written_at: datetime | None


@dataclass(frozen=True, slots=True)
class Current:
    """The newest instance.

    Attributes:
        request: The launch request and its rule.
        launched_at: None until the orchestrator is known to have it.
        training_at: The time of the first check with a step after its start.
        ended_at: The best known time of its end.
        job: The last state from the orchestrator.
        progress: The newest step seen.
        moved_at: The check at which that step was first seen.
    """

    request: LaunchRequested
    launched_at: datetime | None = None
    training_at: datetime | None = None
    ended_at: datetime | None = None
    job: JobFacts | None = None
    progress: Progress | None = None
    moved_at: datetime | None = None

    @property
    def name(self) -> str:
        """Its short name, for example `i1`."""
        return self.request.plan.instance


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts of earlier events that later lines need.

    Attributes:
        preflight: The newest preflight, for the next launch.
        remarks: Warnings and inferred values that are in the logbook, each with its rule.
        approvals: The givers of approvals and consents, by name.
        stated: The last text and instance of each bullet of launched instances, by label.
        first_launched_at: When the first instance was launched.
        ends: How many instances ended badly.
        down_since: When the newest failed instance ended.
        check: The newest check, with its time.
        healthy_at: The newest healthy check.
        checkpoints: The newest checkpoints listed as complete, by step.
        failures: All failures so far, oldest first.
        judged: Whether a decision stated cause and outlook of the newest failure.
        obstacle: The failure that training has not got past yet.
        stop_asked: The instance that a human asked to stop, and the event; else empty and 0.
        relaunch_asked: The instance whose relaunch or rollback a human asked for; else empty.
        relaunch_version: The event of that request.
        left: Why the newest rejected lineage was left; else empty.
        lineage: The head's line about the run's ancestors; else empty.
        holder: Who holds the watch.
        lost: Spans of lost time: start-up and repeated work.
        lost_known: Whether all such spans are known.
        verified: The verification behind the seal.
        state: What holds now, in words; empty while the newest check shows it.
        alerts: Open alerts by kind, in words.
        questions: Open questions, each with the command that answers it.
        buffering: Sources of which the logbook already says that they buffer.
    """

    contract: Contract | None = None
    preflight: PreflightRecorded | None = None
    remarks: Mapping[str, str] = field(default_factory=dict[str, str])
    approvals: Mapping[str, str] = field(default_factory=dict[str, str])
    stated: Mapping[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    current: Current | None = None
    first_launched_at: datetime | None = None
    ends: int = 0
    down_since: datetime | None = None
    check: CheckRecorded | None = None
    checked_at: datetime | None = None
    healthy_at: datetime | None = None
    checkpoints: Mapping[int, Seen] = field(default_factory=dict[int, Seen])
    failures: tuple[FailureClassified, ...] = ()
    judged: bool = False
    obstacle: FailureClassified | None = None
    stop_asked: str = ""
    stop_version: int = 0
    relaunch_asked: str = ""
    relaunch_version: int = 0
    left: str = ""
    lineage: str = ""
    holder: Holder | None = None
    lost: tuple[tuple[datetime, datetime], ...] = ()
    lost_known: bool = True
    verified: SealVerified | None = None
    state: str = ""
    alerts: Mapping[str, str] = field(default_factory=dict[str, str])
    questions: Mapping[str, str] = field(default_factory=dict[str, str])
    buffering: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Mark:
    """An event's time and short name, for corrections that refer to it."""

    at: datetime
    word: str


@dataclass(frozen=True, slots=True)
class Logbook:
    """A run's logbook, folded from its events.

    Attributes:
        version: The newest event folded in.
        recorded_at: When that event was recorded.
        zone: The contract's; every time in the file is written in it.
        title: The title of the file.
        head: The run contract. Like the title and the state, it shows current values.
        instances: The text of the launched instances, in pieces.
        entries: The text of the event log, in pieces.
        marks: One for each event.
    """

    version: int = 0
    recorded_at: datetime | None = None
    zone: tzinfo = UTC
    title: str = ""
    head: str = ""
    instances: Series[str] = field(default_factory=Series[str])
    entries: Series[str] = field(default_factory=Series[str])
    marks: Series[Mark] = field(default_factory=Series[Mark])
    last: Last = field(default_factory=Last)
    facts: Facts = field(default_factory=Facts)


def heading(book: Logbook, at: datetime, title: str) -> str:
    """Return the heading of an entry or an instance."""
    return f"### {stamp(at, book.zone)} - {title}\n"


def opened(book: Logbook, kind: Kind, at: datetime, title: str) -> Logbook:
    """Open a new entry in the event log.

    Args:
        book: The logbook.
        kind: The subject of the entry.
        at: Its time.
        title: One line without outside markup.
    """
    apart = "\n" if len(book.entries) else ""
    last = Last(kind, title, _day(book, at), Key.NOTHING)
    text = apart + heading(book, at, title)
    return replace(book, entries=grown(book.entries, text), last=last)


def said(
    book: Logbook, key: Key, text: str, items: Iterable[str] = (), *, shown: tuple[str, ...] = ()
) -> Logbook:
    """Add a prescribed line to the last entry; add nothing if there is no text.

    Args:
        book: The logbook.
        key: The line. It must not come before lines that are already written.
        text: One line; outside text in it is quoted.
        items: A list below it. One item without a text becomes the text.
        shown: The recorded evidence that it shows.
    """
    listed = [item for item in items if item]
    if not text and len(listed) == 1:
        text = listed.pop()
    if not text and not listed:
        return book
    assert key > book.last.written, f"{key.name} after {book.last.written.name} in one entry"
    label = f"{key.name.capitalize()}:"
    lines = bullet(f"{label} {text}" if text else label)
    lines += "".join(bullet(item, depth=1) for item in listed)
    last = replace(book.last, written=key, shown=book.last.shown + shown)
    return replace(book, entries=grown(book.entries, lines), last=last)


def ticked(book: Logbook, title: str, at: datetime, text: str) -> Logbook:
    """Add a check's line to the running entry with that title, or open a new entry."""
    if book.last.kind is not Kind.CHECKS or book.last.title != title:
        book = opened(book, Kind.CHECKS, at, title)
    return _timed(book, at, text, depth=0)


def step(book: Logbook, title: str, at: datetime, text: str) -> Logbook:
    """Add a step to the list of the launch under way, or open the entry of a launch."""
    if book.last.kind is not Kind.LAUNCH:
        title = f"{title} (continued)" if len(book.entries) else title
        book = opened(book, Kind.LAUNCH, at, title)
    if book.last.written < Key.EVIDENCE:
        last = replace(book.last, written=Key.EVIDENCE)
        book = replace(book, entries=grown(book.entries, "- Evidence:\n"), last=last)
    return _timed(book, at, text, depth=1)


def _timed(book: Logbook, at: datetime, text: str, depth: int) -> Logbook:
    day = _day(book, at)
    when = clock_time(book, at) if day == book.last.day else f"{day} {clock_time(book, at)}"
    line = bullet(f"{when} {text}", depth)
    last = replace(book.last, day=day)
    return replace(book, entries=grown(book.entries, line), last=last)


def with_state(book: Logbook, words: str) -> Logbook:
    """Set what the line under the title says; empty for what the newest check shows."""
    return replace(book, facts=replace(book.facts, state=words))


def over(book: Logbook, words: str) -> Logbook:
    """Set the state of a run that is over: nothing is open any more."""
    facts = replace(book.facts, state=words, alerts={}, questions={}, holder=None)
    return replace(book, facts=facts)


def takes(book: Logbook, key: Key, *kinds: Kind) -> bool:
    """Say whether the last entry is of one of these kinds and may still take this line."""
    return book.last.kind in kinds and key > book.last.written


def clock_time(book: Logbook, at: datetime) -> str:
    """Write a time of day, with seconds if checks are less than a minute apart."""
    contract = book.facts.contract
    close = contract is not None and cadence_of(contract) < timedelta(minutes=1)
    return at.astimezone(book.zone).strftime("%H:%M:%S" if close else "%H:%M")


def exact_time(book: Logbook, at: datetime) -> str:
    """Write a time of day to the second."""
    return at.astimezone(book.zone).strftime("%H:%M:%S")


def _day(book: Logbook, at: datetime) -> str:
    return at.astimezone(book.zone).strftime("%Y-%m-%d")
