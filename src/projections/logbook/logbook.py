"""The logbook: one run's events as a Markdown file that git keeps.

It is a pure function of events, byte for byte, so every pushed version can be rebuilt. Rendered
text never changes: the fold only appends to its two growing sections. Only the Run Contract at the
head shows current values.
"""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from typing import assert_never
from zoneinfo import ZoneInfo

from watchkeeper.domain.run.checkpoints import CheckpointRejected, CheckpointValidated
from watchkeeper.domain.run.ends import (
    DecisionMade,
    FailureClassified,
    RunAbandoned,
    RunFinished,
    RunStopped,
)
from watchkeeper.domain.run.envelope import Event
from watchkeeper.domain.run.events import HandoverEvent, JudgementEvent, OperatorEvent, RunEvent
from watchkeeper.domain.run.health import FindingCleared, FindingOpened, FindingRaised
from watchkeeper.domain.run.launch import (
    ContractAmended,
    InstanceEnded,
    InstanceLaunched,
    LaunchApproved,
    LaunchRefused,
    LaunchRequested,
    PreflightRecorded,
    RunDrafted,
)
from watchkeeper.domain.run.operator import CorrectionRecorded, NoteAdded, StopRequested
from watchkeeper.domain.run.permits import (
    ActProposed,
    ApprovalRevoked,
    AttemptRefused,
    ConsentGiven,
    ConsentRevoked,
    ConsentUsed,
    ProposalDeclined,
    WaiverGranted,
    WaiverRevoked,
)
from watchkeeper.domain.run.questions import EscalationAcknowledged, EscalationRaised
from watchkeeper.domain.run.seal import RunSealed, SealBlocked, SealVerified
from watchkeeper.domain.run.signals import SignalReceived
from watchkeeper.domain.run.watch import (
    CheckRecorded,
    HistoryLimitPassed,
    TrackerAnnounced,
    WatchReleased,
    WatchTaken,
)
from watchkeeper.projections.describe import logbook_ends as ends
from watchkeeper.projections.describe import logbook_launch as entries
from watchkeeper.projections.describe import logbook_permits as people
from watchkeeper.projections.describe import logbook_seal as seal
from watchkeeper.projections.describe.causes import judgement
from watchkeeper.projections.describe.headlines import short_name
from watchkeeper.projections.describe.logbook_operator import spare
from watchkeeper.projections.describe.logbook_watch import checked
from watchkeeper.projections.describe.signals import signalled
from watchkeeper.projections.logbook.state import Logbook, Mark
from watchkeeper.projections.series import grown

RENDERER = "logbook@1"
"""The renderer version, named in each commit's trailer. A change of any rendered byte needs a new
renderer. The old one is kept too, so that old commits can still be rebuilt."""

EMPTY = Logbook()
"""The logbook before a run's first event."""


def project(book: Logbook, event: Event) -> Logbook:
    """Fold one event of a run's stream; ignore events of other streams."""
    data = event.data
    if not isinstance(data, RunEvent):
        return book
    if isinstance(data, RunDrafted | ContractAmended):
        book = replace(book, zone=ZoneInfo(data.contract.timezone))
    mark = Mark(event.at, short_name(event))
    book = replace(book, version=event.version, marks=grown(book.marks, mark))
    return _entry(book, data, event)


def render(book: Logbook) -> bytes:
    """Return the whole file, with a final newline."""
    parts = [book.head, "\n## Launched Instances\n", *book.instances]
    parts += ["\n## Event Log\n", *book.entries]
    return "".join(parts).encode()


def render_at(
    events: Iterable[Event], version: int | None = None, at: datetime | None = None
) -> bytes:
    """Return the file at an earlier point.

    Args:
        events: The run's history, oldest first.
        version: The last event to include; None for all.
        at: Include only events recorded by then; None for all.
    """
    book = EMPTY
    for event in events:
        if version is not None and event.version > version:
            break
        if at is not None and event.envelope.recorded_at > at:
            break
        book = project(book, event)
    return render(book)


def _entry(book: Logbook, data: RunEvent, event: Event) -> Logbook:
    if isinstance(data, HandoverEvent | OperatorEvent):
        return spare(book, data, event)
    if isinstance(data, JudgementEvent):
        return judgement(book, data, event)
    match data:
        case CheckRecorded():  # The most frequent event comes first.
            return checked(book, data, event.at)
        case CheckpointValidated():
            return book  # The check that saw it reports it.
        case RunDrafted():
            return entries.drafted(book, data, event)
        case ContractAmended():
            return entries.amended(book, data, event)
        case PreflightRecorded():
            return entries.preflight(book, data, event)
        case LaunchApproved():
            return entries.approved(book, data, event)
        case LaunchRequested():
            return entries.requested(book, data, event)
        case InstanceLaunched():
            return entries.launched(book, data, event)
        case LaunchRefused():
            return ends.refused_launch(book, data, event.at, event.version)
        case WatchTaken():
            return entries.watch_taken(book, data, event)
        case WatchReleased():
            return entries.watch_released(book, data, event)
        case FindingOpened():
            return entries.finding_opened(book, data, event)
        case FindingRaised():
            return entries.finding_raised(book, data, event)
        case FindingCleared():
            return entries.finding_cleared(book, data, event)
        case HistoryLimitPassed():
            return entries.history_limit_passed(book, data, event)
        case TrackerAnnounced():
            return entries.tracker_announced(book, data, event)
        case CheckpointRejected():
            return entries.checkpoint_rejected(book, data, event)
        case SignalReceived():
            return signalled(book, data, event)
        case NoteAdded():
            return entries.noted(book, data, event)
        case CorrectionRecorded():
            return entries.corrected(book, data, event)
        case ConsentGiven():
            return entries.consented(book, data, event)
        case StopRequested():
            return entries.stop_asked(book, data, event)
        case (
            ActProposed() | ProposalDeclined() | ConsentUsed() | ConsentRevoked()
            | ApprovalRevoked() | WaiverGranted() | WaiverRevoked() | AttemptRefused()
        ):  # fmt: skip
            return people.permission(book, data, event.stream.removeprefix("run/"), event)
        case _:
            return _ending(book, data, event)


def _ending(
    book: Logbook,
    data: InstanceEnded
    | FailureClassified
    | DecisionMade
    | EscalationRaised
    | EscalationAcknowledged
    | RunFinished
    | RunStopped
    | RunAbandoned
    | SealBlocked
    | SealVerified
    | RunSealed,
    event: Event,
) -> Logbook:
    at, run = event.at, event.stream.removeprefix("run/")
    match data:
        case InstanceEnded():
            return ends.ended(book, data, at, event.version)
        case FailureClassified():
            return ends.classified(book, data, at)
        case DecisionMade():
            return ends.decided(book, data, at, event.version)
        case EscalationRaised():
            return ends.asked(book, data, run, at)
        case EscalationAcknowledged():
            return ends.acknowledged(book, data, entries.by(event), at)
        case RunFinished():
            return ends.finished(book, data, at)
        case RunStopped():
            return ends.stopped(book, data, entries.by(event), at)
        case RunAbandoned():
            return entries.abandoned(book, data, event)
        case SealBlocked():
            return seal.blocked(book, data, run, event)
        case SealVerified():
            return seal.verified(book, data, event)
        case RunSealed():
            return seal.sealed(book, data, event)
        case _:
            assert_never(data)
