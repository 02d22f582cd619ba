"""The current state of a run: folded from its events, never parsed or guessed."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from watchkeeper.domain.run.checkpoints import Checkpoint
from watchkeeper.domain.run.ends import Failure, Judgement, Restart
from watchkeeper.domain.run.health import FindingOpened
from watchkeeper.domain.run.launch import PreflightRecorded
from watchkeeper.domain.run.monitor_accuracy import Keeper
from watchkeeper.domain.run.operator import OperatorState
from watchkeeper.domain.run.permits import Approval, Consent, Proposal, Waiver
from watchkeeper.domain.run.phases import Finished, Phase, Running, Stabilizing, Unborn
from watchkeeper.domain.run.questions import Question
from watchkeeper.domain.run.watch import LastCheck, Watch
from watchkeeper.domain.values.check import Health, Progress
from watchkeeper.domain.values.contract.contract import Contract
from watchkeeper.domain.values.earlier import LossAt, PastCheck
from watchkeeper.domain.values.history_limits import Limit
from watchkeeper.domain.values.instance import Instance
from watchkeeper.domain.values.observation.signals import Claim, Claims, Heard
from watchkeeper.domain.values.text_evidence import TrackerLink


# Without slots: its forty fields are copied for every event, and a dictionary is copied at once.
@dataclass(frozen=True)
class Run:
    """A run, folded from every event recorded so far.

    Attributes:
        slug, version: Its name, and how many events it has.
        approvals_given, questions_raised: How many there ever were; these name the next one.
        since: When the phase began.
        relaunches: When relaunches were requested, oldest first.
        restarts: Those of them that a rule decided; a human's request does not count.
        questions: Open questions by name, in the order in which they were raised.
        closed: Which event closed each of the others, by its version.
        acknowledged: Alerts that are still open, by kind, with the answered question.
        checkpoints: Validated ones by step.
        rejected: Steps that must not be resumed from, with the reason.
        unnamed: Those of them that are complete, but whose metadata step is unknown.
        stop_requested: The instance whose end a human requested; empty for none.
        asked_by: The human who requested the first launch; the DRI if no other is named.
        given_up: The instance whose end a human requested while its state was unknown.
        tracker_links: The announced links by tracker id, oldest first.
        cleared_by: The approval or waiver that the newest launch rests on.
        requester: Who wanted the first launch.
        attempts: When each refused attempt was recorded last, by actor, command and target.
        claims: The claims of signals, the newest for each subject.
        heard: How many signals each source had recorded in its newest minute.
        urged_at: When the newest signal that requests a check was recorded.
        recent_checks: The newest checks, shortened, oldest first, at most `RECENT_CHECKS_MAX`.
        keeper: How often the monitor judged this run, and how often it was wrong.
        losses: The losses at sampled steps, with which a resume is compared.
        operator: Planned acts, requested relaunches and rollbacks, milestones, ancestor.
        judgement: What a relaunch has to show, and what it has shown.
        history_limit: The length limit that is recorded as passed; `None` so far.
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
    operator: OperatorState = field(default_factory=OperatorState)
    claims: Claims = field(default_factory=dict[str, Claim])
    heard: Heard = field(default_factory=dict[str, tuple[datetime, int]])
    urged_at: datetime | None = None
    recent_checks: tuple[PastCheck, ...] = ()
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
    """Return who is responsible: by the contract, or else its launcher, or else its approver."""
    approvers = [approval.by for approval in run.approvals]
    return contract_of(run).dri or run.asked_by or next(iter(approvers), "")


def last_instance(run: Run) -> Instance | None:
    """Return the newest instance, or `None` before the first."""
    return run.instances[-1] if run.instances else None


def end_asked(run: Run, instance: str) -> bool:
    """Return whether a human requested an instance's end: a stop, relaunch or rollback."""
    asked = run.operator.asked
    return run.stop_requested == instance or (asked is not None and asked.instance == instance)


def live_instance(run: Run) -> Instance | None:
    """Return the instance whose job exists and has not ended, as far as known."""
    if isinstance(run.phase, Stabilizing | Running):
        return last_instance(run)
    return None


class InvalidTransition(Exception):
    """An event that cannot follow the ones before it; `evolve` turns it into `Unreadable`."""


def finished_or_invalid(run: Run) -> Finished:
    """Return the phase of a finished run.

    Raises:
        Misfit: It is not finished.
    """
    if not isinstance(run.phase, Finished):
        raise InvalidTransition("the run is not finished")
    return run.phase


def last_instance_or_invalid(run: Run) -> Instance:
    """Return the newest instance.

    Raises:
        Misfit: There is none yet.
    """
    if not run.instances:
        raise InvalidTransition("no instance was launched")
    return run.instances[-1]
