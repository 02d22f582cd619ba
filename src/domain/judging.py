"""Judges an observation without a ledger: by the very rules of the watch, on events made up for it.

A run is drafted under a contract and launched; then each earlier observation is a check, and so is
the one that is judged. Nothing is decided here: `decide` and `evolve` do it.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

from watchkeeper.domain.commands import ConfirmLaunched, RecordCheck
from watchkeeper.domain.contract import Contract
from watchkeeper.domain.decide import decide
from watchkeeper.domain.envelope import Envelope, Event
from watchkeeper.domain.events import (
    CheckRecorded,
    DecisionMade,
    EscalationAcknowledged,
    FailureClassified,
    FindingCleared,
    FindingOpened,
    Health,
    Holder,
    LaunchRequested,
    RunDrafted,
    RunEvent,
    WatchTaken,
)
from watchkeeper.domain.evolve import evolve
from watchkeeper.domain.judging_ends import lacking
from watchkeeper.domain.launching import plan_first_instance
from watchkeeper.domain.observation import Observation
from watchkeeper.domain.people import Actor
from watchkeeper.domain.phases import Interrupted
from watchkeeper.domain.plan import make_plan
from watchkeeper.domain.recovery import launch_source, newest_resumable
from watchkeeper.domain.refusals import Refused
from watchkeeper.domain.state import Question, Run, contract_of
from watchkeeper.domain.values import JobState

JUDGE = Actor(principal="watchkeeper", kind="service")
"""Who checks in a history that is made up."""

BEFORE = timedelta(seconds=120)
"""How long before its first observation an instance was launched at least, where nothing says when:
the first check falls due so long after a submit."""

_NUMBER = re.compile(r"i([1-9][0-9]{0,5})")
_NOT_RECORDED = UUID(int=0)
_DIGEST = "0" * 64
_WAIVED = "w-judge"


class NotJudged(Exception):
    """An observation that cannot follow what came before it; the message says why."""


@dataclass(frozen=True, slots=True)
class Judged:
    """What an observation amounts to.

    Attributes:
        run: The run after the check.
        check: The check.
        events: All that the check caused, itself included.
    """

    run: Run
    check: CheckRecorded
    events: tuple[RunEvent, ...]

    @property
    def decision(self) -> DecisionMade | None:
        """The decision that was made at this check; none where nothing was to be decided."""
        made = [event for event in self.events if isinstance(event, DecisionMade)]
        return made[-1] if made else None

    @property
    def failure(self) -> FailureClassified | None:
        """The failure that was classified at this check."""
        found = [event for event in self.events if isinstance(event, FailureClassified)]
        return found[-1] if found else None

    @property
    def opened(self) -> tuple[FindingOpened, ...]:
        """The findings that opened at this check."""
        return tuple(event for event in self.events if isinstance(event, FindingOpened))

    @property
    def cleared(self) -> tuple[FindingCleared, ...]:
        """The findings that cleared at this check."""
        return tuple(event for event in self.events if isinstance(event, FindingCleared))

    @property
    def asked(self) -> tuple[Question, ...]:
        """The questions to the DRI that are open after this check."""
        return tuple(self.run.questions.values())


def begin(contract: Contract) -> Run:
    """Return a run that has a contract, and nothing launched yet."""
    return _recorded(Run(contract.run), [RunDrafted(contract=contract)], _FIRST, JUDGE)


_FIRST = datetime.fromisoformat("2000-01-01T00:00:00+00:00")
_LAST = datetime.fromisoformat("2200-01-01T00:00:00+00:00").timestamp()


def recorded(run: Run, event: Event) -> Run:
    """Return a run after one event of its own record.

    Raises:
        NotJudged: The event does not fit.
    """
    after = evolve(run, event)
    if not isinstance(after, Run):
        raise NotJudged(after.why)
    return after


def judge(run: Run, seen: Observation, launched_at: datetime | None = None) -> Judged:
    """Judge an observation as the watch would at its time.

    An instance that the run does not know yet is launched first, as a human would have it.

    Args:
        run: The run before the check.
        seen: The observation.
        launched_at: When the instance was launched, where it is new; by the orchestrator, or
            `BEFORE` the observation, where none is given.

    Raises:
        NotJudged: The observation cannot follow what came before it.
    """
    if not run.instances or run.instances[-1].plan.instance != seen.instance:
        run = _launched(run, seen, launched_at)
    command = RecordCheck(
        now=seen.at, actor=JUDGE, token=run.watch.token, observation=seen, digest=_DIGEST
    )
    outcome = decide(run, command)
    if isinstance(outcome, Refused):
        raise NotJudged(outcome.sentence)
    check = outcome[0]
    assert isinstance(check, CheckRecorded), "a check comes before what follows from it"
    run = _recorded(run, outcome, seen.at, JUDGE)
    lacks = lacking(run, seen)
    return Judged(_recorded(run, lacks, seen.at, JUDGE), check, (*outcome, *lacks))


def escalates(judged: Judged) -> bool:
    """Say whether a question to the DRI is open after a check."""
    return bool(judged.asked)


def notifies(judged: Judged) -> bool:
    """Say whether somebody is to be told of a check.

    A new finding, an end, a decision or an open question is told; what goes on as before is not.
    """
    has_ended = judged.failure is not None or judged.decision is not None
    return bool(judged.opened) or has_ended or escalates(judged)


def health_of(judged: Judged) -> Health:
    """Return a check's health for whoever sees this one check only.

    What is recorded of a job that cannot be accounted for keeps the health that was known before,
    until the next check: beside the finding that this one opened it would read as well.
    """
    check = judged.check
    lost = check.job is not None and check.job.state in (JobState.NOT_FOUND, JobState.UNKNOWN)
    return Health.UNKNOWN if lost and check.health is Health.HEALTHY else check.health


def _launched(run: Run, seen: Observation, launched_at: datetime | None) -> Run:
    number = _NUMBER.fullmatch(seen.instance)
    if number is None:
        raise NotJudged(f"instance is {seen.instance!r}, expected i1, i2 and so on")
    if run.instances and not isinstance(run.phase, Interrupted):
        before = run.instances[-1].plan.instance
        raise NotJudged(
            f"instance is {seen.instance}, and {before} was not seen to end before; expected"
            f" {before}, or an earlier observation in which the orchestrator says that it ended"
        )
    if launched_at is None:
        started = seen.job.started_at if seen.job is not None else None
        signs = () if run.instances else _signs_of_life(seen)
        launched_at = min((seen.at - BEFORE, *signs))
        launched_at = started if started and started <= seen.at else launched_at
    decision = run.phase.decision if isinstance(run.phase, Interrupted) else None
    resume_from, resume_step = _resumed(run, decision)
    plan = make_plan(
        contract_of(run),
        number=int(number[1]),
        submission_id=seen.job.submission_id if seen.job is not None else seen.instance,
        resume_from=resume_from,
        resume_step=resume_step,
    )
    requested = LaunchRequested(
        plan=plan, digest=_DIGEST, approval="", preflight=1, waiver=_WAIVED,
        reason=(decision.rule if decision is not None else "R19") if run.instances else "launch",
    )  # fmt: skip
    run = _recorded(run, [*_answered(run), requested], launched_at, JUDGE)
    if run.watch.holder is None:
        taken = WatchTaken(
            holder=Holder(principal=JUDGE.principal, host="judge", home="judge"),
            token=run.watch.token + 1,
            lease_until=seen.at,
            next_due=seen.at,
        )
        run = _recorded(run, [taken], launched_at, JUDGE)
    confirm = ConfirmLaunched(
        now=launched_at, actor=JUDGE, instance=plan.instance, launched_at=launched_at
    )
    outcome = decide(run, confirm)
    if isinstance(outcome, Refused):
        raise NotJudged(outcome.sentence)
    return _recorded(run, outcome, launched_at, JUDGE)


def _answered(run: Run) -> list[EscalationAcknowledged]:
    """Return the answers to what was asked about the last end: somebody went on from it."""
    if not run.instances:
        return []
    about = f"{run.instances[-1].plan.instance}: "
    asked = (one.name for one in run.questions.values() if one.asks.startswith(about))
    return [EscalationAcknowledged(question=name, answer="relaunch", note="") for name in asked]


def _signs_of_life(seen: Observation) -> list[datetime]:
    """Return the times that show that a first instance was there, where nobody says since when."""
    if seen.job is not None and seen.job.state is JobState.PENDING:
        return []
    written = seen.checkpoints.checkpoints if seen.checkpoints is not None else ()
    times = seen.history.times[:1] if seen.history is not None else ()
    signs = [
        *(one.written_at for one in written),
        *(one.started_at for one in seen.attempts),
        *(datetime.fromtimestamp(at, UTC) for at in times if _FIRST.timestamp() < at < _LAST),
    ]
    return [at for at in signs if at is not None]


def _resumed(run: Run, decision: DecisionMade | None) -> tuple[str, int | None]:
    """Return where a new instance goes on from: as decided, else where `relaunch` would."""
    if decision is not None and decision.resume_step is not None:
        return decision.resume_path, decision.resume_step
    if not run.instances:
        first = plan_first_instance(contract_of(run), "")
        return first.resume_from, first.resume_step
    if run.last_check is None:
        return "", None
    chosen = newest_resumable(run, run.last_check.event) or launch_source(run)
    return (chosen.path, chosen.step) if chosen is not None else ("", None)


def _recorded(run: Run, facts: Iterable[RunEvent], at: datetime, actor: Actor) -> Run:
    for fact in facts:
        envelope: Envelope[RunEvent] = Envelope(
            event_id=_NOT_RECORDED,
            occurred_at=at,
            recorded_at=at,
            actor=actor,
            cause=None,
            correlation=run.slug,
            key=None,
            data=fact,
        )
        run = recorded(run, Event(f"run/{run.slug}", run.version + 1, envelope))
    return run
