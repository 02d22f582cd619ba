"""Judges an observation without a ledger, by the same rules as the watch.

The module drafts and launches a synthetic run. Then each observation becomes a check. `decide` and
`evolve` do the judging.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

from watchkeeper.domain.rules.decide import decide
from watchkeeper.domain.rules.ends.recovery import launch_source, newest_resumable
from watchkeeper.domain.rules.health.detection import DetectorAnswer
from watchkeeper.domain.rules.health.registry import detector_answers
from watchkeeper.domain.rules.health.stall import is_start_unobserved
from watchkeeper.domain.rules.launch.commands import ConfirmLaunched
from watchkeeper.domain.rules.launch.launching import plan_first_instance
from watchkeeper.domain.rules.shared.refusals import Refused
from watchkeeper.domain.rules.watch.check import RUNNING
from watchkeeper.domain.rules.watch.commands import RecordCheck
from watchkeeper.domain.rules.whatif.decision_in_force import decision_in_force
from watchkeeper.domain.rules.whatif.ends import missing_artefacts
from watchkeeper.domain.run.ends import Action, DecisionMade, FailureClassified, FixPushed
from watchkeeper.domain.run.envelope import Envelope, Event
from watchkeeper.domain.run.events import RunEvent
from watchkeeper.domain.run.evolve.evolve import evolve
from watchkeeper.domain.run.health import FindingCleared, FindingOpened
from watchkeeper.domain.run.launch import LaunchRequested, RunDrafted
from watchkeeper.domain.run.open_questions import is_decided_since
from watchkeeper.domain.run.phases import Finished, Interrupted
from watchkeeper.domain.run.queries import health_now, is_contradicted, is_unproven
from watchkeeper.domain.run.questions import EscalationAcknowledged, Question
from watchkeeper.domain.run.run import Run, contract_of
from watchkeeper.domain.run.watch import CheckRecorded, Holder, WatchTaken
from watchkeeper.domain.values.basic import JobState, SourceState
from watchkeeper.domain.values.check import Health
from watchkeeper.domain.values.contract.contract import Contract
from watchkeeper.domain.values.contract.plan import instance_number, make_plan, own_tracker_id
from watchkeeper.domain.values.observation.observation import Observation
from watchkeeper.domain.values.people import Actor

JUDGE = Actor(principal="watchkeeper", kind="service")
"""Actor of the checks in a synthetic history."""

BEFORE = timedelta(seconds=120)
"""Least time between launch and first observation, if the launch time is unknown. The first check
falls due this long after a submit."""

_NOT_RECORDED = UUID(int=0)
_DIGEST = "0" * 64
_WAIVED = "w-judge"
_FIX = "f" * 40
_SAME_START = timedelta(minutes=1)
"""How far two reports of one job's start may differ."""


class NotJudged(Exception):
    """An observation that cannot follow what came before it; the message says why."""


@dataclass(frozen=True, slots=True)
class Judged:
    """The result of judging an observation.

    Attributes:
        run: The run after the check.
        check: The check.
        events: All events of the check, including itself.
        answers: The detectors' answers at the check.
    """

    run: Run
    check: CheckRecorded
    events: tuple[RunEvent, ...]
    answers: tuple[DetectorAnswer, ...] = ()

    def after(self, further: Sequence[RunEvent], at: datetime) -> "Judged":
        """Return this result with further events."""
        run = _recorded(self.run, further, at, JUDGE)
        return replace(self, run=run, events=(*self.events, *further))

    @property
    def decision(self) -> DecisionMade | None:
        """The decision made at this check; `None` if nothing had to be decided."""
        made = [event for event in self.events if isinstance(event, DecisionMade)]
        return made[-1] if made else None

    @property
    def remains(self) -> DecisionMade | None:
        """The decision in force after this check, made now or before; `None` if all is well.

        A reader of one observation wants to know the current state, not only the news. A notice of
        a new finding does not cancel an open alert.
        """
        made, stood = self.decision, decision_in_force(self.run, self.check)
        if made is None:
            return stood
        louder = stood is not None and stood.action is Action.ALERT
        return stood if louder and made.action is Action.NOTIFY else made

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
    def findings(self) -> tuple[FindingOpened, ...]:
        """The findings that are open after this check, or opened by it, in its wording.

        The record of an open finding is from the time when it opened, so durations in it are old.
        If this check has no newer answer, the old text is used.
        """
        known = self.run.health.findings
        # A finding that ended with its instance at this check is included as the reason.
        over = (found for found in self.opened if found.kind not in known)
        says = {answer.kind: answer for answer in self.answers if answer.holds}
        current = (_in_words_of(found, says.get(found.kind)) for found in known.values())
        return (*current, *over)

    @property
    def cleared(self) -> tuple[FindingCleared, ...]:
        """The findings that cleared at this check."""
        return tuple(event for event in self.events if isinstance(event, FindingCleared))

    @property
    def asked(self) -> tuple[Question, ...]:
        """The questions to the DRI that are open after this check."""
        return tuple(
            q for q in self.run.questions.open.values() if not is_decided_since(self.run, q)
        )


def _in_words_of(found: FindingOpened, says: DetectorAnswer | None) -> FindingOpened:
    if says is None:
        return found
    return found.model_copy(update={"summary": says.summary, "evidence": says.evidence})


def draft_run(contract: Contract) -> Run:
    """Return a run with a contract and no launch yet."""
    return _recorded(Run(contract.run), [RunDrafted(contract=contract)], _FIRST, JUDGE)


_FIRST = datetime.fromisoformat("2000-01-01T00:00:00+00:00")
_LAST = datetime.fromisoformat("2200-01-01T00:00:00+00:00").timestamp()


def run_after(run: Run, event: Event) -> Run:
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

    An unknown instance is launched first, on a human's behalf.

    Args:
        run: The run before the check.
        seen: The observation.
        launched_at: The launch time of a new instance. If none is given, the orchestrator's time
            counts, or `BEFORE` the observation.

    Raises:
        NotJudged: The observation cannot follow what came before it.
    """
    if not run.instances or run.instances[-1].plan.instance != seen.instance:
        run = _launched(run, seen, launched_at)
    if isinstance(run.phase, Finished) and run.watch.last_check is not None and _is_over(seen):
        # A finished run is not checked again, but its artefacts may have come since.
        return Judged(run, run.watch.last_check.event, ()).after(
            missing_artefacts(run, seen), seen.at
        )
    command = RecordCheck(
        now=seen.at, actor=JUDGE, token=run.watch.token, observation=seen, digest=_DIGEST
    )
    outcome = decide(run, command)
    if isinstance(outcome, Refused):
        raise NotJudged(outcome.sentence)
    check = outcome[0]
    assert isinstance(check, CheckRecorded), "a check comes before what follows from it"
    # The detectors already ran. They run again only if they add events.
    answers = (
        detector_answers(run, run.instances[-1], check, seen.at) if run.health.findings else ()
    )
    run = _recorded(run, outcome, seen.at, JUDGE)
    return Judged(run, check, tuple(outcome), answers).after(missing_artefacts(run, seen), seen.at)


def _is_over(seen: Observation) -> bool:
    return seen.job is None or seen.job.state is JobState.SUCCEEDED


def escalates(judged: Judged) -> bool:
    """Say whether a question to the DRI is open after a check."""
    return bool(judged.asked)


def notifies(judged: Judged) -> bool:
    """Say whether a check needs a notification.

    A new finding, an end, a decision or an open question notifies; an unchanged state does not.
    """
    has_ended = judged.failure is not None or judged.decision is not None
    return bool(judged.opened) or has_ended or escalates(judged)


def health_of(judged: Judged) -> Health:
    """Return a check's health for a reader who sees only this check.

    A recorded check may keep an earlier health, for example while no source answers. A reader of
    one check would misread that, so such a health becomes unknown.
    """
    check = judged.check
    lost = check.job is not None and check.job.state in (JobState.NOT_FOUND, JobState.UNKNOWN)
    nobody = lost or is_start_unobserved(check) or (check.job is None and _is_blank(check))
    if is_unproven(check):
        return Health.UNKNOWN if nobody else Health.HEALTHY
    if check.health is not Health.HEALTHY:
        return check.health
    return Health.UNKNOWN if nobody else health_now(judged.run)


def reason_of(judged: Judged) -> str:
    """Return why a check has its health; a finding made after the check is named."""
    because = judged.check.because
    if because.partition(";")[0] == RUNNING and is_start_unobserved(judged.check):
        return "running, by the orchestrator alone: no other source has reported it yet"
    if not is_contradicted(judged.run):
        return because
    return f"{because}; open findings: {', '.join(sorted(judged.run.health.findings))}"


def _is_blank(check: CheckRecorded) -> bool:
    """Say whether a check shows nothing current: no fresh answer of any source, and no step."""
    fresh = any(reading.state is SourceState.FRESH for reading in check.readings)
    return not fresh and check.progress is None


def _launched(run: Run, seen: Observation, launched_at: datetime | None) -> Run:
    number = instance_number(seen.instance)
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
        number=number,
        submission_id=seen.job.submission_id if seen.job is not None else seen.instance,
        resume_from=resume_from,
        resume_step=resume_step,
    )
    requested = LaunchRequested(
        plan=plan, digest=_DIGEST, approval="", preflight=1, waiver=_WAIVED,
        reason=(decision.rule if decision is not None else "R19") if run.instances else "launch",
    )  # fmt: skip
    since: list[RunEvent] = [*_fixed(run, decision), *_answered(run), requested]
    run = _recorded(run, since, launched_at, JUDGE)
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


def next_instance(run: Run, job: Mapping[str, object], began: datetime | None) -> str:
    """Return the instance of an observation that does not name it.

    It is the newest instance, or the next one if that has ended and the job shows a new launch. A
    new launch is a live job, another id, or a later start.

    Args:
        run: The run before the check.
        job: Parts of the orchestrator's report.
        began: The job's start, if reported.
    """
    if not run.instances:
        return "i1"
    last = run.instances[-1]
    number = instance_number(last.plan.instance)
    if number is None or last.end is None or not isinstance(run.phase, Interrupted):
        return last.plan.instance
    named = job.get("submission_id")
    other = bool(named) and named != last.end.submission_id
    lives = job.get("state") in (JobState.PENDING.value, JobState.RUNNING.value) and not named
    before = last.launched_at
    later = began is not None and before is not None and began > before + _SAME_START
    return f"i{number + 1}" if other or lives or later else last.plan.instance


def tracker_id_of(run: Run, instance: str) -> str:
    """Return the tracker id under which an instance must log, launched or not."""
    number = instance_number(instance)
    contract = contract_of(run)
    return own_tracker_id(contract, number) if number else contract.tracker.id


def _fixed(run: Run, decision: DecisionMade | None) -> list[FixPushed]:
    """Return the proposed fix of a small bug (R5), which a relaunch needs."""
    if decision is None or decision.rule != "R5" or decision.action is not Action.ESCALATE:
        return []
    before = contract_of(run).code.git_sha
    fix = FixPushed(
        instance=decision.instance, git_sha=_FIX if before != _FIX else "0" * 40, before=before,
        changed=(), approval=_WAIVED, identity=_DIGEST, reason="it went on",
    )  # fmt: skip
    return [fix]


def _answered(run: Run) -> list[EscalationAcknowledged]:
    """Return answers to the questions about the last end: somebody continued the run."""
    newest = run.instances[-1].plan.instance if run.instances else ""
    asked = (
        q.name for q in run.questions.open.values() if q.asks.startswith(f"{newest}: ") and newest
    )
    return [EscalationAcknowledged(question=name, answer="relaunch", note="") for name in asked]


def _signs_of_life(seen: Observation) -> list[datetime]:
    """Return times that prove a first instance existed, if its launch time is unknown."""
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
    """Return where a new instance resumes: as decided, else as `relaunch` would."""
    if decision is not None and decision.resume_step is not None:
        return decision.resume_path, decision.resume_step
    if not run.instances:
        first = plan_first_instance(contract_of(run), "")
        return first.resume_from, first.resume_step
    if run.watch.last_check is None:
        return "", None
    chosen = newest_resumable(run, run.watch.last_check.event) or launch_source(run)
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
        run = run_after(run, Event(f"run/{run.slug}", run.version + 1, envelope))
    return run
