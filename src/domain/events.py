"""Everything that can have happened to a run: facts in the past tense, recorded once.

A recorded shape is for ever. A new shape is a new version in the topic, and one pure upcast for
each retired version (see `registry`) turns old into new.
"""

from watchkeeper.domain.events_decisions import (
    Action,
    ConsentGiven,
    CorrectionRecorded,
    DecisionMade,
    EscalationAcknowledged,
    EscalationRaised,
    FailureClassified,
    NoteAdded,
    Outlook,
    StopRequested,
)
from watchkeeper.domain.events_ends import (
    EffectFailed,
    EffectRecovered,
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
from watchkeeper.domain.events_launch import (
    ContractAmended,
    InstanceEnded,
    InstanceLaunched,
    LaunchApproved,
    LaunchRefused,
    LaunchRequested,
    PreflightRecorded,
    RunDrafted,
)
from watchkeeper.domain.events_people import (
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
from watchkeeper.domain.events_watch import (
    CheckpointRejected,
    CheckpointValidated,
    CheckRecorded,
    FindingCleared,
    FindingOpened,
    Health,
    Holder,
    Progress,
    Severity,
    Startup,
    TrackerAnnounced,
    WatchReleased,
    WatchTaken,
)
from watchkeeper.domain.fact import Fact

__all__ = [
    "ActProposed",
    "Action",
    "ApprovalRevoked",
    "AttemptRefused",
    "CheckRecorded",
    "CheckpointRejected",
    "CheckpointValidated",
    "ConsentGiven",
    "ConsentRevoked",
    "ConsentUsed",
    "ContractAmended",
    "CorrectionRecorded",
    "DecisionMade",
    "EffectEvent",
    "EffectFailed",
    "EffectRecovered",
    "EscalationAcknowledged",
    "EscalationRaised",
    "Fact",
    "FailureClassified",
    "FindingCleared",
    "FindingOpened",
    "Health",
    "Holder",
    "InstanceEnded",
    "InstanceLaunched",
    "LaunchApproved",
    "LaunchRefused",
    "LaunchRequested",
    "LogbookPushed",
    "NoteAdded",
    "Outlook",
    "OutputRootClaimed",
    "OutputRootReleased",
    "PeopleEvent",
    "PreflightRecorded",
    "Progress",
    "ProposalDeclined",
    "RootEvent",
    "RunAbandoned",
    "RunDrafted",
    "RunEvent",
    "RunFinished",
    "RunSealed",
    "RunStopped",
    "SealBlocked",
    "SealVerified",
    "Severity",
    "StandingAttemptRefused",
    "StandingWaiverGranted",
    "StandingWaiverRevoked",
    "Startup",
    "StopRequested",
    "TagPushed",
    "TrackerAnnounced",
    "WaiverGranted",
    "WaiverRevoked",
    "WatchReleased",
    "WatchTaken",
]

RunEvent = (
    CheckRecorded
    | RunDrafted
    | ContractAmended
    | PreflightRecorded
    | LaunchApproved
    | LaunchRequested
    | InstanceLaunched
    | LaunchRefused
    | InstanceEnded
    | WatchTaken
    | WatchReleased
    | TrackerAnnounced
    | FindingOpened
    | FindingCleared
    | CheckpointValidated
    | CheckpointRejected
    | FailureClassified
    | DecisionMade
    | EscalationRaised
    | EscalationAcknowledged
    | NoteAdded
    | CorrectionRecorded
    | ConsentGiven
    | StopRequested
    | RunFinished
    | RunStopped
    | RunAbandoned
    | SealBlocked
    | SealVerified
    | RunSealed
    | ActProposed
    | ProposalDeclined
    | ConsentUsed
    | ConsentRevoked
    | ApprovalRevoked
    | WaiverGranted
    | WaiverRevoked
    | AttemptRefused
)
RootEvent = OutputRootClaimed | OutputRootReleased
EffectEvent = LogbookPushed | TagPushed | EffectFailed | EffectRecovered
PeopleEvent = StandingWaiverGranted | StandingWaiverRevoked | StandingAttemptRefused
