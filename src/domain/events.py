"""Everything that can have happened to a run: facts in the past tense, recorded once.

A recorded shape is for ever. A new shape is a new version in the topic, and one pure upcast for
each retired version (see `registry`) turns old into new.
"""

from watchkeeper.domain.facts.decisions import (
    Action,
    ConsentGiven,
    CorrectionRecorded,
    DecisionMade,
    EscalationAcknowledged,
    EscalationRaised,
    FailureClassified,
    Hypothesis,
    NoteAdded,
    Outlook,
    StopRequested,
)
from watchkeeper.domain.facts.effects import (
    EffectAttempted,
    EffectConfirmed,
    EffectRejected,
    EffectUnknown,
    TriedEvent,
)
from watchkeeper.domain.facts.ends import (
    EffectFailed,
    EffectRecovered,
    EndEvent,
    LogbookPushed,
    OutputRootClaimed,
    OutputRootReleased,
    RunAbandoned,
    RunFinished,
    RunSealed,
    RunStopped,
    SealBlocked,
    SealVerified,
    TagPushed,
)
from watchkeeper.domain.facts.fact import Fact
from watchkeeper.domain.facts.handover import (
    ActKind,
    HandoverEvent,
    Packet,
    PlannedActAnnounced,
    PlannedActEnded,
    WatchEnded,
    WatchHandedOver,
)
from watchkeeper.domain.facts.judgement import (
    CauseSuggested,
    FailureRevised,
    FixPushed,
    HypothesesJudged,
    JudgementEvent,
    ResumeProven,
)
from watchkeeper.domain.facts.launch import (
    ContractAmended,
    InstanceEnded,
    InstanceLaunched,
    LaunchApproved,
    LaunchEvent,
    LaunchRefused,
    LaunchRequested,
    PreflightRecorded,
    RunDrafted,
)
from watchkeeper.domain.facts.manoeuvres import (
    AncestorNamed,
    LineageRejected,
    ManoeuvreEvent,
    MilestoneTagPushed,
    MilestoneVerified,
    RelaunchRequested,
    RollbackApproved,
    RollbackPlanned,
    RunSuperseded,
)
from watchkeeper.domain.facts.people import (
    ActProposed,
    ApprovalRevoked,
    AttemptRefused,
    ConsentRevoked,
    ConsentUsed,
    ProposalDeclined,
    StandingAttemptRefused,
    StandingWaiverGranted,
    StandingWaiverRevoked,
    WaiverGranted,
    WaiverRevoked,
)
from watchkeeper.domain.facts.signals import (
    MessageQuarantined,
    QuarantineReplayed,
    SignalBound,
    SignalBoxEvent,
    SignalCameLate,
    SignalKept,
    SignalReceived,
    SignalsDismissed,
)
from watchkeeper.domain.facts.watch import (
    CheckpointRejected,
    CheckpointValidated,
    CheckRecorded,
    FindingCleared,
    FindingOpened,
    FindingRaised,
    Health,
    HistoryLimitPassed,
    Holder,
    Progress,
    Severity,
    Startup,
    TrackerAnnounced,
    WatchEvent,
    WatchReleased,
    WatchTaken,
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
    "ManoeuvreEvent",
    "MessageQuarantined",
    "MilestoneTagPushed",
    "MilestoneVerified",
    "NoteAdded",
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
    | ManoeuvreEvent
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
