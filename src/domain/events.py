"""Everything that can have happened to a run: facts in the past tense, recorded once.

A recorded shape is for ever. A new shape is a new version in the topic, and one pure upcast for
each retired version (see `registry`) turns old into new.
"""

from enum import StrEnum
from typing import ClassVar, Literal

from pydantic import AwareDatetime, PositiveInt

from watchkeeper.domain.contract import Contract
from watchkeeper.domain.durations import Duration
from watchkeeper.domain.plan import GateFinding, LaunchPlan
from watchkeeper.domain.values import (
    CheckpointFacts,
    CheckpointKind,
    JobFacts,
    Reading,
    Step,
    Value,
)


class Fact(Value):
    """Something that happened: recorded once, never edited, never refused."""

    topic: ClassVar[str]


# --- Contract and gate -------------------------------------------------------------------------


class RunDrafted(Fact):
    """A run was given its contract; nothing is launched yet."""

    topic: ClassVar[str] = "run.drafted.1"
    contract: Contract


class ContractAmended(Fact):
    """The contract was changed before anything was launched; what was cleared is void.

    Attributes:
        contract: The whole contract from here on.
        changed: Keys whose values differ, such as `final_step.value`.
    """

    topic: ClassVar[str] = "run.contract_amended.1"
    contract: Contract
    changed: tuple[str, ...]


class PreflightRecorded(Fact):
    """A launch plan was held against the launch rules.

    Attributes:
        plan: The exact instance that was judged.
        digest: The plan's identity, which an approval names.
        findings: One answer for each rule.
    """

    topic: ClassVar[str] = "run.preflight_recorded.1"
    plan: LaunchPlan
    digest: str
    findings: tuple[GateFinding, ...]


class LaunchApproved(Fact):
    """A human allowed one plan, and the relaunches of it that keep its identity.

    Attributes:
        approval: Its short name, such as `a-1`.
        digest: The plan that was approved.
        identity: What a relaunch must keep to be covered.
        note: The approver's words.
    """

    topic: ClassVar[str] = "run.launch_approved.1"
    approval: str
    digest: str
    identity: str
    note: str


# --- Instances ---------------------------------------------------------------------------------


class LaunchRequested(Fact):
    """An instance is to be submitted under an id fixed here, before anything is submitted.

    Attributes:
        plan: The exact instance.
        clearance: The approval it rests on, and the preflight's version in this stream.
        reason: `launch`, or the rule that decided a relaunch.
    """

    topic: ClassVar[str] = "run.launch_requested.1"
    plan: LaunchPlan
    digest: str
    approval: str
    preflight: PositiveInt
    reason: str


class InstanceLaunched(Fact):
    """The orchestrator confirmed that it has the job.

    Attributes:
        instance: `i1`, `i2` and so on.
        submission_id: The id fixed in `LaunchRequested`.
        launched_at: When the orchestrator took it, or when it was first seen there.
        dri: Who is responsible.
        command: Scrubbed.
        script: The experiment's script, when the command shows one.
        checkpoint_policy: In words.
        watch_holder: Who watches.
        watch_cadence: How often.
    """

    topic: ClassVar[str] = "run.instance_launched.1"
    instance: str
    submission_id: str
    launched_at: AwareDatetime
    dri: str
    command: tuple[str, ...]
    script: str
    orchestrator: str
    cluster: str
    git_sha: str
    branch: str
    dirty: bool
    bundle: str
    hardware: str
    tracker_id: str
    display_name: str
    output_root: str
    resume_from: str
    resume_step: Step | None
    final_step: Step
    checkpoint_policy: str
    watch_holder: str
    watch_cadence: Duration


class LaunchRefused(Fact):
    """The orchestrator definitely did not take the job; nothing runs under this id."""

    topic: ClassVar[str] = "run.launch_refused.1"
    instance: str
    submission_id: str
    reason: str


class InstanceEnded(Fact):
    """The orchestrator called the instance terminal. Only its word ends one.

    Attributes:
        job: Its last word, whole.
        step: The last step seen by any source; none when none was.
    """

    topic: ClassVar[str] = "run.instance_ended.1"
    instance: str
    job: JobFacts
    step: Step | None
    step_uncertainty: int = 0


# --- Watch and checks --------------------------------------------------------------------------


class Holder(Value):
    """Who holds a watch: a principal on a host with a home."""

    principal: str
    host: str
    home: str


class WatchTaken(Fact):
    """Somebody took the watch; checks under an older token are refused from now on.

    Attributes:
        token: Fencing token: grows with each take-over.
        lease_until: When others may take over without force.
        forced: The former holder's lease had not run out.
    """

    topic: ClassVar[str] = "run.watch_taken.1"
    holder: Holder
    token: PositiveInt
    lease_until: AwareDatetime
    next_due: AwareDatetime
    forced: bool = False


class WatchReleased(Fact):
    """The holder gave the watch up."""

    topic: ClassVar[str] = "run.watch_released.1"
    token: PositiveInt
    reason: str


class Health(StrEnum):
    """A check's verdict on the run; a silent watch never changes it."""

    HEALTHY = "healthy"
    DEGRADED = "degraded"
    UNHEALTHY = "unhealthy"
    UNKNOWN = "unknown"


class Progress(Value):
    """How far training is, as far as known.

    Attributes:
        step: The newest step by any source.
        uncertainty: Steps either way; rounded progress bars carry some.
        source: `tracker` or `logs`.
    """

    step: Step
    uncertainty: int = 0
    source: Literal["tracker", "logs"]


class Startup(Value):
    """What the job's first lines said.

    Attributes:
        resumed_step: The step it says it resumed from.
        scratch: It says that it started from scratch.
    """

    resumed_step: Step | None = None
    scratch: bool = False


class CheckRecorded(Fact):
    """One observation, judged. Holds every number that the rules read; bounded.

    Attributes:
        instance: The instance that was looked at.
        token: The watch's fencing token.
        readings: Each source's state and clock.
        job: The orchestrator's word; none while it is unavailable.
        progress: None while no source shows a step.
        metrics: Newest values by name, at most 16.
        tracker_id: Identity that the tracker showed; empty while unavailable.
        tracker_state: The tracker's own opinion.
        startup: What the first lines said, as far as they were seen.
        evidence: Log lines that the rules read: at most 8, each at most 300 long.
        traceback: A Python traceback stands in the log's tail.
        checkpoints_complete: Steps of the newest complete checkpoints, at most 32, in order.
        checkpoints_incomplete: Folders without readable metadata, the newest 8.
        new_checkpoints: Complete ones that were not recorded before, at most 32.
        observation: SHA-256 of the full scrubbed observation under `evidence/`.
        next_due: When the next check falls due.
        lease_until: The lease is renewed to here.
    """

    topic: ClassVar[str] = "run.check_recorded.1"
    instance: str
    token: PositiveInt
    health: Health
    because: str
    readings: tuple[Reading, ...]
    job: JobFacts | None
    progress: Progress | None
    metrics: dict[str, float]
    tracker_id: str
    tracker_state: str
    startup: Startup
    evidence: tuple[str, ...]
    traceback: bool
    checkpoints_complete: tuple[Step, ...]
    checkpoints_incomplete: tuple[CheckpointFacts, ...]
    new_checkpoints: tuple[CheckpointFacts, ...]
    observation: str
    next_due: AwareDatetime
    lease_until: AwareDatetime


class Severity(StrEnum):
    """How loudly a finding asks for someone."""

    NOTIFY = "notify"
    ALERT = "alert"


class FindingOpened(Fact):
    """A detector concluded something about a run; it stays open until cleared.

    Attributes:
        kind: Which detector, such as `pending`.
        rule: Its rule, such as `H6`.
    """

    topic: ClassVar[str] = "run.finding_opened.1"
    kind: str
    rule: str
    severity: Severity
    summary: str
    evidence: tuple[str, ...]


class FindingCleared(Fact):
    """An open finding no longer holds."""

    topic: ClassVar[str] = "run.finding_cleared.1"
    kind: str
    rule: str
    reason: str


class CheckpointValidated(Fact):
    """A checkpoint is complete, its metadata names its step, and it lies in this lineage."""

    topic: ClassVar[str] = "run.checkpoint_validated.1"
    instance: str
    step: Step
    path: str
    kind: CheckpointKind
    written_at: AwareDatetime | None


class CheckpointRejected(Fact):
    """A checkpoint must not be resumed from."""

    topic: ClassVar[str] = "run.checkpoint_rejected.1"
    step: Step
    path: str
    reason: str


# --- Failures, decisions, questions ------------------------------------------------------------


class Outlook(StrEnum):
    """Whether trying again makes sense; a claim apart from the cause."""

    RETRY = "retry"
    RETRY_ONCE = "retry_once"
    ASK = "ask"
    NEVER = "never"


class FailureClassified(Fact):
    """An instance ended badly, and this is what is known of why.

    Attributes:
        cause: A class such as `node_failure`; `unknown` is an honest answer.
        outlook: Whether trying again makes sense.
        fingerprint: Same text for the same failure, whatever its step, time or ids.
        evidence: The lines and facts that the classification rests on.
        step: The last step seen; none when none was.
    """

    topic: ClassVar[str] = "run.failure_classified.1"
    instance: str
    cause: str
    outlook: Outlook
    fingerprint: str
    evidence: tuple[str, ...]
    step: Step | None
    step_uncertainty: int = 0


class Action(StrEnum):
    """What a decision asks for."""

    RELAUNCH = "relaunch"
    WAIT = "wait"
    ESCALATE = "escalate"
    VERIFY = "verify"
    LEAVE = "leave"


class DecisionMade(Fact):
    """An action was chosen by a rule, on evidence.

    Attributes:
        rule: The rule that chose it, such as `R1`.
        because: One sentence.
        evidence: What it cites: facts, versions of events, log lines.
        resume_path: For a relaunch: the checkpoint to resume from.
        resume_step: Its numeric step.
        recoverable: For a relaunch: why the failure is recoverable (R18).
        refused: Newer checkpoints that were not chosen, each with its reason.
        proves: For a relaunch: what its outcome will tell.
    """

    topic: ClassVar[str] = "run.decision_made.1"
    instance: str
    action: Action
    rule: str
    because: str
    evidence: tuple[str, ...]
    resume_path: str = ""
    resume_step: Step | None = None
    recoverable: str = ""
    refused: tuple[str, ...] = ()
    proves: str = ""


class EscalationRaised(Fact):
    """A question to the DRI, open until a human acknowledges it.

    Attributes:
        question: Its short name, such as `q-1`.
        to: The DRI.
    """

    topic: ClassVar[str] = "run.escalation_raised.1"
    question: str
    rule: str
    to: str
    asks: str
    evidence: tuple[str, ...]


class EscalationAcknowledged(Fact):
    """A human took a question.

    Attributes:
        answer: `noted`, or `relaunch` when the human decided on one.
    """

    topic: ClassVar[str] = "run.escalation_acknowledged.1"
    question: str
    answer: Literal["noted", "relaunch"]
    note: str


# --- People's own entries ----------------------------------------------------------------------


class NoteAdded(Fact):
    """Somebody added a remark."""

    topic: ClassVar[str] = "run.note_added.1"
    text: str


class CorrectionRecorded(Fact):
    """An earlier entry was wrong; it stays, and this says what is true.

    Attributes:
        corrects: The version of the event that is corrected.
    """

    topic: ClassVar[str] = "run.correction_recorded.1"
    corrects: PositiveInt
    text: str


class ConsentGiven(Fact):
    """A human permitted one guarded action on one target, once.

    Attributes:
        action: Such as `stop`.
        target: Such as the instance.
    """

    topic: ClassVar[str] = "run.consent_given.1"
    consent: str
    action: str
    target: str
    expires_at: AwareDatetime
    note: str


class StopRequested(Fact):
    """A human asked for the end of the live instance; its end is then no failure.

    Attributes:
        consent: The consent that it used up.
    """

    topic: ClassVar[str] = "run.stop_requested.1"
    instance: str
    reason: str
    consent: str


# --- Ends --------------------------------------------------------------------------------------


class RunFinished(Fact):
    """The orchestrator called the last instance successful; artefacts are not verified yet."""

    topic: ClassVar[str] = "run.finished.1"
    instance: str
    step: Step | None


class RunStopped(Fact):
    """A human ended the run; nothing relaunches it."""

    topic: ClassVar[str] = "run.stopped.1"
    reason: str


class RunAbandoned(Fact):
    """The run is given up; its record stays."""

    topic: ClassVar[str] = "run.abandoned.1"
    reason: str


class SealBlocked(Fact):
    """A seal was tried and something is missing, by name."""

    topic: ClassVar[str] = "run.seal_blocked.1"
    missing: tuple[str, ...]


class SealVerified(Fact):
    """Everything that a seal needs was seen; the tag is next.

    Attributes:
        tag: The annotated tag to push.
        commit: The exact launch commit that it will point at.
        final_step: Proven by the final checkpoint.
        tracker_step: The tracker's own count, which may be one less.
        metrics: Final values.
        caveats: What a reader should know.
    """

    topic: ClassVar[str] = "run.seal_verified.1"
    tag: str
    commit: str
    instance: str
    final_step: Step
    checkpoint: str
    tracker_id: str
    display_name: str
    tracker_state: str
    tracker_step: Step | None
    output_root: str
    metrics: dict[str, float]
    caveats: tuple[str, ...]


class RunSealed(Fact):
    """The last event of a run: verified, tagged, closed.

    Attributes:
        head: Version and chain hash that the tag's message names.
    """

    topic: ClassVar[str] = "run.sealed.1"
    tag: str
    commit: str
    head: str


# --- Output roots ------------------------------------------------------------------------------


class OutputRootClaimed(Fact):
    """A run's instance is the only one that may write below a root."""

    topic: ClassVar[str] = "roots.claimed.1"
    root: str
    run: str
    instance: str


class OutputRootReleased(Fact):
    """The instance that held a root is proven ended."""

    topic: ClassVar[str] = "roots.released.1"
    root: str
    run: str
    instance: str
    why: str


# --- Effects -----------------------------------------------------------------------------------


class LogbookPushed(Fact):
    """The remote holds the logbook as rendered at a version.

    Attributes:
        version: Version of the run's stream that was rendered.
        head: Chain hash there, in hex.
        content: SHA-256 of the rendered bytes.
    """

    topic: ClassVar[str] = "effects.logbook_pushed.1"
    version: PositiveInt
    head: str
    content: str
    commit: str
    branch: str
    path: str


class TagPushed(Fact):
    """The remote holds the annotated seal tag.

    Attributes:
        head: Version and chain hash of the run that the tag's message names.
    """

    topic: ClassVar[str] = "effects.tag_pushed.1"
    tag: str
    target: str
    head: str


class EffectFailed(Fact):
    """An effect did not get through; it is tried again.

    Attributes:
        effect: `submit`, `stop`, `relaunch`, `seal`, `logbook` or `tag`.
        attempt: How many times in a row it failed.
        retry_at: When it is tried again.
    """

    topic: ClassVar[str] = "effects.failed.1"
    effect: str
    attempt: PositiveInt
    reason: str
    retry_at: AwareDatetime


class EffectRecovered(Fact):
    """An effect that had failed got through."""

    topic: ClassVar[str] = "effects.recovered.1"
    effect: str


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
)
RootEvent = OutputRootClaimed | OutputRootReleased
EffectEvent = LogbookPushed | TagPushed | EffectFailed | EffectRecovered
