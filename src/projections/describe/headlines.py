"""Headlines of events: the subject of a logbook commit, and whether it may wait."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import assert_never

from watchkeeper.domain.run.checkpoints import CheckpointRejected, CheckpointValidated
from watchkeeper.domain.run.ends import (
    Action,
    CauseSuggested,
    DecisionMade,
    FailureClassified,
    FailureRevised,
    FixPushed,
    HypothesesJudged,
    ResumeProven,
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
from watchkeeper.domain.run.operator import (
    AncestorNamed,
    CorrectionRecorded,
    LineageRejected,
    NoteAdded,
    PlannedActAnnounced,
    PlannedActEnded,
    RelaunchRequested,
    RollbackApproved,
    RollbackPlanned,
    RunSuperseded,
    StopRequested,
)
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
from watchkeeper.domain.run.queries import health_words, is_unproven
from watchkeeper.domain.run.questions import EscalationAcknowledged, EscalationRaised
from watchkeeper.domain.run.seal import MilestoneVerified, RunSealed, SealBlocked, SealVerified
from watchkeeper.domain.run.signals import SignalReceived
from watchkeeper.domain.run.watch import (
    CheckRecorded,
    HistoryLimitPassed,
    TrackerAnnounced,
    WatchEnded,
    WatchHandedOver,
    WatchReleased,
    WatchTaken,
)
from watchkeeper.domain.values.check import Health
from watchkeeper.domain.values.contract.contract import Lane
from watchkeeper.domain.values.observation.signals import NOTABLE


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


_ORDER = {headline: place for place, headline in enumerate(Headline)}


def headline(event: Event) -> Headline | None:
    """Return the headline of an event; None if the logbook does not show it by itself."""
    if not isinstance(event.data, RunEvent):
        return None
    return _headline(event.data)


def interesting(event: Event) -> bool:
    """Say whether an event is pushed at once; others wait for the next check's push."""
    if isinstance(event.data, CheckRecorded | WatchTaken):
        return False
    return headline(event) is not None


def commit_message(run: str, events: Iterable[Event]) -> str:
    """Return the subject of the commit that adds events to the logbook.

    Args:
        run: The run's slug.
        events: The events since the last push; the most important one gives the headline.
    """
    found = [words for words in map(headline, events) if words is not None]
    return f"{run}: {min(found, key=_ORDER.__getitem__, default=Headline.CHECK)}"


def branch_message(changes: Mapping[str, Iterable[Event]]) -> str:
    """Return the message of one commit for several runs, with a line for each run.

    Args:
        changes: Events since each run's last push, by slug; the most important run comes first.
    """
    if len(changes) == 1:
        return next(commit_message(run, events) for run, events in changes.items())
    words: dict[str, Headline] = {}
    for run, events in changes.items():
        found = [said for said in map(headline, events) if said is not None]
        words[run] = min(found, key=_ORDER.__getitem__, default=Headline.CHECK)
    runs = sorted(words, key=lambda run: (_ORDER[words[run]], run))
    first, others = runs[0], len(runs) - 1
    subject = f"{first}: {words[first]}, and {others} more run{'s' if others > 1 else ''}"
    return "\n".join([subject, "", *(f"- {run}: {words[run]}" for run in runs)])


def _headline(data: RunEvent) -> Headline | None:
    if isinstance(data, HandoverEvent | OperatorEvent):
        return _operator_headline(data)
    if isinstance(data, JudgementEvent):
        return _judgement_headline(data)
    match data:
        case CheckRecorded():  # The most frequent event comes first.
            return Headline.CHECK
        case RunDrafted():
            hero = data.contract.lane is Lane.HERO
            return Headline.START_HERO if hero else Headline.START
        case ContractAmended():
            return Headline.AMENDMENT
        case PreflightRecorded():
            return Headline.PREFLIGHT
        case LaunchApproved():
            return Headline.APPROVAL
        case LaunchRequested():
            return Headline.LAUNCH if data.reason in ("launch", "adopt") else Headline.RELAUNCH
        case InstanceLaunched():
            return Headline.LAUNCH if data.instance == "i1" else Headline.RELAUNCH
        case LaunchRefused():
            return Headline.REFUSED
        case FailureClassified():
            return Headline.FAILURE
        case DecisionMade():
            return Headline.ESCALATION if data.action is Action.ESCALATE else Headline.DECISION
        case EscalationRaised():
            return Headline.ESCALATION
        case EscalationAcknowledged():
            return Headline.ANSWER
        case FindingOpened() | FindingRaised() | FindingCleared() | HistoryLimitPassed():
            return Headline.FINDING
        case TrackerAnnounced():
            return Headline.TRACKER
        case CheckpointRejected():
            return Headline.CHECKPOINT
        case SignalReceived():
            return Headline.SIGNAL if data.signal.kind in NOTABLE else None
        case CheckpointValidated():
            return None  # The check that saw it reports it.
        case WatchTaken() | WatchReleased():
            return Headline.WATCH
        case (
            ActProposed() | ProposalDeclined() | ConsentUsed() | ConsentRevoked()
            | ApprovalRevoked() | WaiverGranted() | WaiverRevoked() | AttemptRefused()
        ):  # fmt: skip
            return _permission_headline(data)
        case _:
            return _closing_headline(data)


def _operator_headline(data: HandoverEvent | OperatorEvent) -> Headline:
    match data:
        case WatchHandedOver():
            return Headline.HANDOVER
        case WatchEnded():
            return Headline.WATCH
        case PlannedActAnnounced() | PlannedActEnded():
            return Headline.PLANNED
        case RelaunchRequested():
            return Headline.STOP
        case RollbackPlanned() | RollbackApproved() | LineageRejected():
            return Headline.ROLLBACK
        case RunSuperseded() | AncestorNamed():
            return Headline.SUPERSEDED
        case MilestoneVerified():
            return Headline.MILESTONE
        case _:
            assert_never(data)


def _judgement_headline(data: JudgementEvent) -> Headline:
    match data:
        case FailureRevised():
            return Headline.REVISION
        case HypothesesJudged():
            return Headline.DECISION
        case CauseSuggested():
            return Headline.NOTE
        case ResumeProven():
            return Headline.RESUME
        case FixPushed():
            return Headline.FIX
        case _:
            assert_never(data)


def _closing_headline(
    data: NoteAdded
    | CorrectionRecorded
    | ConsentGiven
    | StopRequested
    | InstanceEnded
    | RunFinished
    | RunStopped
    | RunAbandoned
    | SealBlocked
    | SealVerified
    | RunSealed,
) -> Headline:
    match data:
        case NoteAdded():
            return Headline.NOTE
        case CorrectionRecorded():
            return Headline.CORRECTION
        case ConsentGiven():
            return Headline.CONSENT
        case StopRequested() | RunStopped():
            return Headline.STOP
        case InstanceEnded():
            # The next event says why it ended. Alone, it is just the last check.
            return Headline.CHECK
        case RunFinished():
            return Headline.FINISH
        case RunAbandoned():
            return Headline.ABANDON
        case SealBlocked():
            return Headline.SEAL_BLOCKED
        case SealVerified():
            return Headline.SEAL_VERIFIED
        case RunSealed():
            return Headline.SEALED
        case _:
            assert_never(data)


def _permission_headline(
    data: ActProposed
    | ProposalDeclined
    | ConsentUsed
    | ConsentRevoked
    | ApprovalRevoked
    | WaiverGranted
    | WaiverRevoked
    | AttemptRefused,
) -> Headline:
    match data:
        case ActProposed():
            return Headline.PROPOSAL
        case ConsentUsed():
            return Headline.CONSENT
        case WaiverGranted():
            return Headline.WAIVER
        case AttemptRefused():
            return Headline.ATTEMPT
        case ProposalDeclined() | ConsentRevoked() | ApprovalRevoked() | WaiverRevoked():
            return Headline.REVOCATION
        case _:
            assert_never(data)


def short_name(event: Event) -> str:
    """Return an event's short name, which corrections refer to."""
    data = event.data
    if isinstance(data, CheckRecorded):
        unknown = data.health is Health.UNKNOWN and not is_unproven(data)
        return "check" if unknown else health_words(data)
    topic = data.topic.rpartition(".")[0].partition(".")[2]
    return topic.replace("_", " ")
