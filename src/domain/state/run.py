"""A run as it stands: folded from its events, never parsed, never guessed."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from watchkeeper.domain.contracts.contract import Contract
from watchkeeper.domain.contracts.plan import LaunchPlan
from watchkeeper.domain.events import (
    CheckRecorded,
    FindingOpened,
    Health,
    Holder,
    Outlook,
    PreflightRecorded,
    Progress,
)
from watchkeeper.domain.history_limits import Limit
from watchkeeper.domain.observed.signals import Claim, Claims, Heard
from watchkeeper.domain.observed.tracker_links import TrackerLink
from watchkeeper.domain.state.judgement import Judgement
from watchkeeper.domain.state.keeper import Keeper
from watchkeeper.domain.state.manoeuvres import Manoeuvres
from watchkeeper.domain.state.metrics import LossAt
from watchkeeper.domain.state.phases import Phase, Running, Stabilizing, Unborn
from watchkeeper.domain.state.question import Question
from watchkeeper.domain.state.remembered import PastCheck
from watchkeeper.domain.state.retries import Retried, Tried
from watchkeeper.domain.values import CheckpointKind, JobFacts

UNACCOUNTED = "job_unaccounted"
"""The finding that the orchestrator cannot say what became of a job."""

DRIFTED = "tracker_identity"
"""The finding that the run does not log under the identity that was agreed (H2)."""

CHECKPOINTS_KEPT = 256
"""Validated checkpoints remembered in state: the newest; older ones stay in the events."""

MONITOR_STALE = "monitor_stale"
"""The finding that nobody checks a run; it says nothing about the run."""


@dataclass(frozen=True, slots=True)
class Watch:
    """Ownership of monitoring.

    Attributes:
        holder: None while nobody holds it.
        token: The newest fencing token; 0 before the first.
        lease_until: When others may take over without force.
        next_due: When the next check falls due; none when nothing is to be checked.
        kept_for: The principal that it was handed to and that has not taken it yet.
        ended: Why it ended for good; empty while it goes on.
    """

    holder: Holder | None = None
    token: int = 0
    lease_until: datetime | None = None
    next_due: datetime | None = None
    kept_for: str = ""
    ended: str = ""


@dataclass(frozen=True, slots=True)
class Approval:
    """A human's permission to launch; a revoked one covers nothing.

    Attributes:
        also: Identities that it covers beside its own: those of small fixes (R5).
    """

    name: str
    digest: str
    identity: str
    by: str
    revoked: bool = False
    also: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Instance:
    """One launched job.

    Attributes:
        plan: What was submitted.
        launched_at: None while it is not known to have been taken.
        end: The orchestrator's last word; none while it lives.
        step_best: The highest step seen under it.
        step_uncertainty: How far the true step may lie from it, either way.
        attempts_failed: The orchestrator's own failed attempts seen so far.
        retried: Those of them that were followed by another, as far as their time is known.
        tries: The failed tries of the whole job that the orchestrator followed by another.
        trained_since: When it was first seen to train since it last waited for machines.
        nan_from: The first step whose logged numbers are NaN or infinite and stayed so.
        unsure: The orchestrator's last answer was that it cannot tell.
        config: The configuration it was launched with, flattened; empty where none was read.
        patch: Identity of what was not committed at its launch; empty for a clean tree.
        patch_kept: SHA-256 of that patch under `evidence/`; empty where none was kept.
        contract: The contract that it was launched under.
        doubts: What was open about its lineage as it ended; the seal names it.
    """

    plan: LaunchPlan
    launched_at: datetime | None = None
    end: JobFacts | None = None
    step_best: int | None = None
    step_uncertainty: int = 0
    attempts_failed: int = 0
    retried: tuple[Retried, ...] = ()
    tries: tuple[Tried, ...] = ()
    trained_since: datetime | None = None
    nan_from: int | None = None
    unsure: bool = False
    config: Mapping[str, str] = field(default_factory=dict[str, str])
    patch: str = ""
    patch_kept: str = ""
    contract: Contract | None = None
    doubts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Failure:
    """A classified end.

    Attributes:
        findings: Rules of the findings that were open when it ended.
        revised: The event that revised its cause last; 0 where none did.
        traced: A Python traceback stood in its log.
        ended_at: When the orchestrator says that it ended; none where it did not say.
        excused: A later word names a cause outside of the run: its charge is given back.
    """

    instance: str
    cause: str
    outlook: Outlook
    fingerprint: str
    step: int | None
    step_uncertainty: int
    at: datetime
    version: int
    evidence: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    findings: tuple[str, ...] = ()
    traced: bool = False
    ended_at: datetime | None = None
    revised: int = 0
    excused: bool = False


@dataclass(frozen=True, slots=True)
class Restart:
    """A relaunch that a rule decided.

    Attributes:
        at: When it was asked for.
        instance: The one that it started.
        after: The instance whose end it answers.
        resume_step: Where it started from.
        gained: The newest complete, validated checkpoint that it brought beyond that.
    """

    at: datetime
    instance: str
    after: str = ""
    resume_step: int | None = None
    gained: int | None = None


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint that may be resumed from.

    Attributes:
        written_at: By the store's clock; none where it tells no time.
        seen_at: When a check first listed it: it was there by then.
    """

    step: int
    path: str
    kind: CheckpointKind
    version: int
    written_at: datetime | None = None
    seen_at: datetime | None = None

    @property
    def came_at(self) -> datetime | None:
        """When it came, as far as anybody tells: written, else first listed."""
        return self.written_at or self.seen_at


@dataclass(frozen=True, slots=True)
class Consent:
    """A human's permission for one guarded action."""

    name: str
    action: str
    target: str
    expires_at: datetime
    used: bool = False
    proposal: str = ""
    digest: str = ""
    by: str = ""
    revoked: bool = False


@dataclass(frozen=True, slots=True)
class Proposal:
    """A guarded action that somebody asked for.

    Attributes:
        consent: The consent that it was given; empty while none was.
        declined: By whom it was declined; empty when it was not.
    """

    name: str
    action: str
    target: str
    reason: str
    digest: str
    by: str
    at: datetime
    consent: str = ""
    declined: str = ""


@dataclass(frozen=True, slots=True)
class Waiver:
    """A human's word that a named block of the gate may pass.

    Attributes:
        waives: The block in its own words; empty for whatever the rule says.
        until: None for as long as the run lasts.
        revoked: Taken back, or void since the contract was amended.
    """

    name: str
    rule: str
    waives: str
    reason: str
    by: str
    until: datetime | None = None
    revoked: bool = False


@dataclass(frozen=True, slots=True)
class LastCheck:
    """The newest check, with its place."""

    event: CheckRecorded
    at: datetime
    version: int


# Without slots: its forty fields are copied for every event, and a dictionary of them in one go.
@dataclass(frozen=True)
class Run:
    """A run, folded from every event recorded so far.

    Attributes:
        slug, version: Its name, and how many events it has.
        approvals_given, questions_raised: How many there ever were; these name the next one.
        since: When the phase began.
        relaunches: When relaunches were requested, oldest first.
        restarts: Those of them that a rule decided: what a human asked for is no restart.
        questions: Open ones by name, in order of raising.
        closed: Which event closed each of the others, by its version.
        acknowledged: Alerts that are open still, by kind, with the answered question.
        checkpoints: Validated ones by step.
        rejected: Steps that must not be resumed from, with the reason.
        unnamed: Those of them that are complete, and nothing says which step their metadata names.
        stop_requested: The instance whose end a human asked for; empty for none.
        asked_by: The human who asked for the first launch, who is the DRI where none is named.
        given_up: The instance whose end a human asked for while nobody could account for it.
        tracker_links: What was announced, by tracker id, oldest first.
        cleared_by: The approval or waiver that the newest launch rests on.
        requester: Who wanted the first launch.
        attempts: When each refused attempt was recorded last, by actor, command and target.
        claims: What signals say, the newest word on each subject.
        heard: How many signals each source had recorded in its newest minute.
        urged_at: When the newest signal was recorded that asks for a check.
        trail: What is remembered of the newest checks, oldest first, at most `TRAIL_MAX`.
        keeper: How often the keeper judged this run, and how often it was wrong.
        losses: What was logged at sampled steps, which a resume is compared with.
        manoeuvres: Planned acts, relaunches and rollbacks asked for, milestones, ancestor.
        judgement: What a relaunch is to show, and what it has shown.
        history_limit: The limit that its length was recorded to have passed; none so far.
    """

    slug: str
    version: int = 0
    phase: Phase = field(default_factory=Unborn)
    since: datetime | None = None
    contract: Contract | None = None
    preflight: PreflightRecorded | None = None
    preflight_version: int = 0
    approvals: tuple[Approval, ...] = ()
    approvals_given: int = 0
    instances: tuple[Instance, ...] = ()
    relaunches: tuple[datetime, ...] = ()
    restarts: tuple[Restart, ...] = ()
    watch: Watch = field(default_factory=Watch)
    health: Health = Health.UNKNOWN
    progress: Progress | None = None
    last_check: LastCheck | None = None
    findings: Mapping[str, FindingOpened] = field(default_factory=dict[str, FindingOpened])
    failures: tuple[Failure, ...] = ()
    questions: Mapping[str, Question] = field(default_factory=dict[str, Question])
    closed: Mapping[str, int] = field(default_factory=dict[str, int])
    acknowledged: Mapping[str, str] = field(default_factory=dict[str, str])
    questions_raised: int = 0
    consents: tuple[Consent, ...] = ()
    checkpoints: Mapping[int, Checkpoint] = field(default_factory=dict[int, Checkpoint])
    rejected: Mapping[str, str] = field(default_factory=dict[str, str])
    unnamed: Mapping[int, Checkpoint] = field(default_factory=dict[int, Checkpoint])
    stop_requested: str = ""
    given_up: str = ""
    tracker_links: Mapping[str, TrackerLink] = field(default_factory=dict[str, TrackerLink])
    asked_by: str = ""
    seal_missing: tuple[str, ...] = ()
    proposals: tuple[Proposal, ...] = ()
    waivers: tuple[Waiver, ...] = ()
    cleared_by: str = ""
    requester: str = ""
    attempts: Mapping[str, datetime] = field(default_factory=dict[str, datetime])
    manoeuvres: Manoeuvres = field(default_factory=Manoeuvres)
    claims: Claims = field(default_factory=dict[str, Claim])
    heard: Heard = field(default_factory=dict[str, tuple[datetime, int]])
    urged_at: datetime | None = None
    trail: tuple[PastCheck, ...] = ()
    keeper: Keeper = field(default_factory=Keeper)
    losses: tuple[LossAt, ...] = ()
    judgement: Judgement = field(default_factory=Judgement)
    history_limit: Limit | None = None


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A run whose history this code cannot read: listed by status and verify, never guessed.

    Attributes:
        version: The last version that could be folded.
        why: What stands in the way.
    """

    slug: str
    version: int
    why: str


def contract_of(run: Run) -> Contract:
    """Return the contract of a run that has one."""
    assert run.contract is not None, "a run past its first event has a contract"
    return run.contract


def dri_of(run: Run) -> str:
    """Return who is responsible: as the contract says, else who launched it, else who approved."""
    approvers = [approval.by for approval in run.approvals]
    return contract_of(run).dri or run.asked_by or next(iter(approvers), "")


def last_instance(run: Run) -> Instance | None:
    """Return the newest instance, or none before the first."""
    return run.instances[-1] if run.instances else None


def is_moving(plan: LaunchPlan, progress: Progress | None) -> bool:
    """Say whether training was surely seen beyond the step that an instance started from."""
    start = plan.resume_step or 0
    return progress is not None and progress.step - progress.uncertainty > start


def end_asked(run: Run, instance: str) -> bool:
    """Say whether a human asked for the end of an instance: a stop, a relaunch or a rollback."""
    asked = run.manoeuvres.asked
    return run.stop_requested == instance or (asked is not None and asked.instance == instance)


def live_instance(run: Run) -> Instance | None:
    """Return the instance whose job is known to exist and not known to have ended."""
    if isinstance(run.phase, Stabilizing | Running):
        return last_instance(run)
    return None
