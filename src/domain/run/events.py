"""All events of a run: facts in the past tense, recorded once.

A recorded shape is for ever. A new shape is a new version in the topic, and one pure upcast for
each retired version (see `registry`) turns old into new.
"""

from watchkeeper.domain.run.checkpoints import CheckpointRejected, CheckpointValidated
from watchkeeper.domain.run.effects import (
    EffectAttempted,
    EffectConfirmed,
    EffectFailed,
    EffectRecovered,
    EffectRejected,
    EffectUnknown,
    LogbookPushed,
    MilestoneTagPushed,
    TagPushed,
    TriedEvent,
)
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
from watchkeeper.domain.run.fact import Fact
from watchkeeper.domain.run.health import FindingCleared, FindingOpened, FindingRaised
from watchkeeper.domain.run.launch import (
    ContractAmended,
    InstanceEnded,
    InstanceLaunched,
    LaunchApproved,
    LaunchRefused,
    LaunchRequested,
    OutputRootClaimed,
    OutputRootReleased,
    PreflightRecorded,
    RunDrafted,
)
from watchkeeper.domain.run.operator import (
    ActKind,
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
    StandingAttemptRefused,
    StandingWaiverGranted,
    StandingWaiverRevoked,
    WaiverGranted,
    WaiverRevoked,
)
from watchkeeper.domain.run.questions import EscalationAcknowledged, EscalationRaised
from watchkeeper.domain.run.seal import MilestoneVerified, RunSealed, SealBlocked, SealVerified
from watchkeeper.domain.run.signals import (
    MessageQuarantined,
    QuarantineReplayed,
    SignalBound,
    SignalBoxEvent,
    SignalCameLate,
    SignalKept,
    SignalReceived,
    SignalsDismissed,
)
from watchkeeper.domain.run.watch import (
    CheckRecorded,
    HistoryLimitPassed,
    Holder,
    Packet,
    TrackerAnnounced,
    WatchEnded,
    WatchHandedOver,
    WatchReleased,
    WatchTaken,
)
from watchkeeper.domain.values.causes import Hypothesis, Outlook
from watchkeeper.domain.values.check import Health, Progress, Severity, Startup

JudgementEvent = CauseSuggested | FailureRevised | HypothesesJudged | ResumeProven | FixPushed


HandoverEvent = WatchHandedOver | WatchEnded | PlannedActAnnounced | PlannedActEnded


OperatorEvent = (
    RelaunchRequested
    | RollbackPlanned
    | RollbackApproved
    | LineageRejected
    | RunSuperseded
    | AncestorNamed
    | MilestoneVerified
)


LaunchEvent = (
    RunDrafted
    | ContractAmended
    | PreflightRecorded
    | LaunchApproved
    | LaunchRequested
    | InstanceLaunched
    | LaunchRefused
    | InstanceEnded
)


EndEvent = RunFinished | RunStopped | RunAbandoned | SealBlocked | SealVerified | RunSealed


WatchEvent = (
    CheckRecorded
    | WatchTaken
    | WatchReleased
    | TrackerAnnounced
    | FindingOpened
    | FindingRaised
    | FindingCleared
    | CheckpointValidated
    | CheckpointRejected
    | HistoryLimitPassed
)


__all__ = [
    "ActKind",
    "ActProposed",
    "Action",
    "AncestorNamed",
    "ApprovalRevoked",
    "AttemptRefused",
    "CauseSuggested",
    "CheckRecorded",
    "CheckpointRejected",
    "CheckpointValidated",
    "ConsentGiven",
    "ConsentRevoked",
    "ConsentUsed",
    "ContractAmended",
    "CorrectionRecorded",
    "DecisionMade",
    "EffectAttempted",
    "EffectConfirmed",
    "EffectEvent",
    "EffectFailed",
    "EffectRecovered",
    "EffectRejected",
    "EffectUnknown",
    "EndEvent",
    "EscalationAcknowledged",
    "EscalationRaised",
    "Fact",
    "FailureClassified",
    "FailureRevised",
    "FindingCleared",
    "FindingOpened",
    "FindingRaised",
    "FixPushed",
    "HandoverEvent",
    "Health",
    "HistoryLimitPassed",
    "Holder",
    "HypothesesJudged",
    "Hypothesis",
    "InstanceEnded",
    "InstanceLaunched",
    "JudgementEvent",
    "LaunchApproved",
    "LaunchEvent",
    "LaunchRefused",
    "LaunchRequested",
    "LineageRejected",
    "LogbookPushed",
    "MessageQuarantined",
    "MilestoneTagPushed",
    "MilestoneVerified",
    "NoteAdded",
    "OperatorEvent",
    "Outlook",
    "OutputRootClaimed",
    "OutputRootReleased",
    "Packet",
    "PeopleEvent",
    "PlannedActAnnounced",
    "PlannedActEnded",
    "PreflightRecorded",
    "Progress",
    "ProposalDeclined",
    "QuarantineReplayed",
    "RelaunchRequested",
    "ResumeProven",
    "RollbackApproved",
    "RollbackPlanned",
    "RootEvent",
    "RunAbandoned",
    "RunDrafted",
    "RunEvent",
    "RunFinished",
    "RunSealed",
    "RunStopped",
    "RunSuperseded",
    "SealBlocked",
    "SealVerified",
    "Severity",
    "SignalBound",
    "SignalBoxEvent",
    "SignalCameLate",
    "SignalKept",
    "SignalReceived",
    "SignalsDismissed",
    "StandingAttemptRefused",
    "StandingWaiverGranted",
    "StandingWaiverRevoked",
    "Startup",
    "StopRequested",
    "TagPushed",
    "TrackerAnnounced",
    "TriedEvent",
    "WaiverGranted",
    "WaiverRevoked",
    "WatchEnded",
    "WatchEvent",
    "WatchHandedOver",
    "WatchReleased",
    "WatchTaken",
]

RunEvent = (
    WatchEvent
    | LaunchEvent
    | FailureClassified
    | DecisionMade
    | EscalationRaised
    | EscalationAcknowledged
    | NoteAdded
    | CorrectionRecorded
    | ConsentGiven
    | StopRequested
    | EndEvent
    | ActProposed
    | ProposalDeclined
    | ConsentUsed
    | ConsentRevoked
    | ApprovalRevoked
    | WaiverGranted
    | WaiverRevoked
    | AttemptRefused
    | HandoverEvent
    | OperatorEvent
    | SignalReceived
    | JudgementEvent
)
RootEvent = OutputRootClaimed | OutputRootReleased
EffectEvent = (
    LogbookPushed
    | TagPushed
    | MilestoneTagPushed
    | EffectFailed
    | EffectRecovered
    | TriedEvent
    | SignalCameLate
)
PeopleEvent = StandingWaiverGranted | StandingWaiverRevoked | StandingAttemptRefused
