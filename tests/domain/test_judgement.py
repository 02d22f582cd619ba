"""Restart budgets by progress, causes seen anew, what a relaunch shows, and the resume proof."""

from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pytest

from tests.domain.auditor import audit
from tests.domain.ends import ends_as
from tests.domain.given import Answer, History, decided
from tests.domain.samples import (
    AGENT,
    DRI,
    KEPT,
    LOOP,
    checkpoint,
    contract,
    exited,
    job,
    killed,
    listing,
    node_lost,
    signal,
    tracker,
)
from tests.domain.stories import story
from tests.every_row import every_row
from watchkeeper.domain.rules.ends.commands import Revise
from watchkeeper.domain.rules.ends.live import answer_to
from watchkeeper.domain.rules.ends.resume_proof import resume_events
from watchkeeper.domain.rules.health.registry import LIVE_RULES
from watchkeeper.domain.rules.operator.commands import AnnounceAct, AnswerQuestion
from watchkeeper.domain.rules.registry import RULES
from watchkeeper.domain.rules.shared.refusals import Refusal
from watchkeeper.domain.rules.signals.commands import ReceiveSignal
from watchkeeper.domain.run.ends import (
    Action,
    DecisionMade,
    FailureRevised,
    HypothesesJudged,
    ResumeProven,
    is_recovered,
)
from watchkeeper.domain.run.health import FindingOpened
from watchkeeper.domain.run.operator import ActKind
from watchkeeper.domain.run.phases import Interrupted, Running
from watchkeeper.domain.run.questions import EscalationAcknowledged, EscalationRaised
from watchkeeper.domain.run.run import last_instance
from watchkeeper.domain.run.watch import CheckRecorded
from watchkeeper.domain.values.basic import CheckpointFacts, JobState
from watchkeeper.domain.values.causes import Hypothesis
from watchkeeper.domain.values.check import Severity
from watchkeeper.domain.values.observation.measured import Measured, Overlap
from watchkeeper.domain.values.observation.sources import AttemptFacts, AttemptState

MINUTES = timedelta(minutes=1)
KEEP: dict[str, Any] = {"found": KEPT}


def running(**changes: Any) -> History:
    return History().launch(contract(**changes)).train(1000, found=KEPT)


# --- R3: a restart that brought a new checkpoint is no charge -------------------------------------


def restarts(gains: list[bool], budget: int) -> Answer:
    """One end after another, each further on; each restart brings a checkpoint or does not."""
    history = running(retries={"budget": budget})
    found = [*KEPT.checkpoints]
    step = 1100
    for gain in gains:
        history.fail(node_lost(), step=step, found=listing(*found))
        history.relaunch()
        step += 100
        if gain:
            found.append(checkpoint(step - 20, written_at=history.now + 4 * MINUTES))
        history.train(step, found=listing(*found))
    return history.fail(node_lost(), step=step + 50, found=listing(*found))


@pytest.mark.parametrize(
    ("gains", "budget", "expected"),
    [
        ([False], 1, (Action.ESCALATE, "R3")),
        ([True], 1, (Action.RELAUNCH, "R1")),
        ([True, True, True, True], 1, (Action.RELAUNCH, "R1")),
        ([True, False], 1, (Action.ESCALATE, "R3")),
        ([True, False], 2, (Action.RELAUNCH, "R1")),
        ([False, True, False], 2, (Action.ESCALATE, "R3")),
    ],
)
def test_r3_charges_restarts_that_brought_no_new_checkpoint(
    gains: list[bool], budget: int, expected: tuple[Action, str]
) -> None:
    assert decided(restarts(gains, budget)) == expected


def test_r3_says_both_numbers_and_names_the_restarts() -> None:
    decision = restarts([True, False], 1).the(DecisionMade)
    assert "1 of 1 in 24 h brought no new checkpoint, 1 brought one" in decision.because
    assert "i2 from step-1000 brought step-1180" in decision.evidence
    assert "i3 from step-1180 brought no new checkpoint" in decision.evidence


def _found_at(step: int, after: timedelta, now: datetime) -> CheckpointFacts:
    return checkpoint(step, written_at=now + after)


@pytest.mark.parametrize(
    "late",
    [
        # Its predecessor wrote it, and it was listed late; or it lies below the resume.
        partial(_found_at, 1090, -5 * MINUTES),
        partial(_found_at, 950, MINUTES),
    ],
)
def test_r3_does_not_take_an_older_checkpoint_for_progress(late: Any) -> None:
    history = running(retries={"budget": 1})
    history.fail(node_lost(), step=1100, **KEEP)
    history.relaunch()
    found = listing(*KEPT.checkpoints, late(history.now))
    history.train(1300, found=found)
    assert decided(history.fail(node_lost(), step=1400, found=found)) == (Action.ESCALATE, "R3")


LIVE = {rule.id: rule for rule in LIVE_RULES}


# --- R17: a finding while the instance lives ------------------------------------------------------


@every_row("rule", sorted(LIVE))
@every_row("severity", Severity)
def test_r17_tells_of_each_finding_as_loudly_as_it_is_and_does_nothing(
    rule: str, severity: Severity
) -> None:
    check = story(Running).run.watch.last_check
    assert check is not None
    found = FindingOpened(
        kind="any", rule=rule, severity=severity, summary="it stands still", evidence=()
    )
    decision = answer_to(found, check.event)
    loud = LIVE[rule].severity is Severity.ALERT or severity is Severity.ALERT
    assert (decision.action, decision.rule) == (Action.ALERT if loud else Action.NOTIFY, "R17")
    assert decision.evidence
    assert (decision.resume_path, decision.guarded) == ("", "")
    assert ("stacks of all ranks" in decision.proposes) == (rule in ("H3", "H16"))


def test_r17_rules_on_each_detector_that_opens_while_a_run_lives() -> None:
    # H11 is found by the seal, H14 by the launch gate.
    assert {*LIVE, "H11", "H14"} == {rule for rule in RULES if rule.startswith("H")}
    alerting = {rule.id for rule in LIVE.values() if rule.severity is Severity.ALERT}
    assert alerting == {"H2", "H3", "H5", "H7", "H8", "H9", "H16", "H17"}
    assert all(rule.severity is not None for name, rule in RULES.items() if name[0] == "H")


def test_r17_notifies_without_a_question_and_only_once() -> None:
    history = History().launch()
    answer = history.later(31 * MINUTES).check(job(JobState.PENDING))
    assert answer.the(FindingOpened).rule == "H6"
    assert decided(answer) == (Action.NOTIFY, "R17")
    answer.without(EscalationRaised)
    history.later(10 * MINUTES).check(job(JobState.PENDING)).without(DecisionMade)


def test_r17_is_silent_where_a_planned_act_expects_the_finding() -> None:
    history = History().launch()
    history.tell(
        AnnounceAct(
            now=history.now,
            actor=DRI,
            kind=ActKind.MAINTENANCE,
            starts_at=history.now,
            ends_at=history.now + 120 * MINUTES,
            expects=("H6",),
            reason="no machines until noon",
        )
    )
    history.later(31 * MINUTES).check(job(JobState.PENDING)).without(DecisionMade)


def test_r17_is_silent_while_the_source_gives_no_answer() -> None:
    history = History().launch().later(31 * MINUTES)
    history.check(job(JobState.PENDING), without=("orchestrator",)).without(DecisionMade)


def test_a_live_run_is_never_relaunched_by_a_finding() -> None:
    history = story(Running)
    shown = tracker(1010, tracker_id="other", heartbeat_at=history.now + 10 * MINUTES)
    answer = history.later(10 * MINUTES).check(shown=shown, found=KEPT)
    assert decided(answer) == (Action.ALERT, "R17")
    assert isinstance(history.run.phase, Running)


# --- A cause that is seen anew --------------------------------------------------------------------


def preempted(history: History, ago: timedelta = 5 * MINUTES) -> Answer:
    command = ReceiveSignal(
        now=history.now, actor=LOOP, signal=signal(history.now - ago), bound_by="host:w-3"
    )
    return history.tell(command)


def revise(history: History, cause: str, **changes: Any) -> Revise:
    fields: dict[str, Any] = {
        "now": history.now,
        "actor": DRI,
        "failure": history.run.ends.failures[-1].version,
        "cause": cause,
        "reason": "Xid 79 on that host",
        **changes,
    }
    return Revise(**fields)


def test_a_late_signal_names_what_nobody_knew_and_starts_nothing() -> None:
    history = story(Running)
    history.fail(exited(7), step=1100, **KEEP)
    answer = preempted(history)
    revised = answer.the(FailureRevised)
    assert (revised.before, revised.cause, revised.failure) == ("unknown", "preemption", 13)
    answer.without(DecisionMade)
    assert history.run.ends.failures[-1].cause == "preemption"
    # The same word again says nothing new.
    preempted(history).without(FailureRevised)


@pytest.mark.parametrize(
    ("ends", "ago"),
    [
        ({"lines": ["Traceback (most recent call last):", "ValueError: no"]}, 5 * MINUTES),
        ({}, 60 * MINUTES),
    ],
)
def test_a_traceback_is_stronger_than_a_signal_and_an_old_one_says_nothing(
    ends: dict[str, Any], ago: timedelta
) -> None:
    history = story(Running)
    history.fail(exited(7), step=1100, **KEEP, **ends)
    preempted(history, ago).without(FailureRevised)


def test_a_revised_cause_gives_the_charge_and_the_one_retry_back() -> None:
    told, untold = running(retries={"budget": 1}), running(retries={"budget": 1})
    for history in (told, untold):
        history.fail(killed(), step=1100, **KEEP)
        if history is told:
            preempted(history)
        history.relaunch()
    for history, expected in ((told, (Action.RELAUNCH, "R1")), (untold, (Action.ESCALATE, "R2"))):
        answer = history.fail(killed(), step=1105, wait=60 * MINUTES, **KEEP)
        assert decided(answer) == expected


def test_a_person_s_word_is_decided_on_anew_and_answers_the_question() -> None:
    history = story(Running)
    history.fail(exited(7), step=1100, **KEEP)
    answer = history.tell(revise(history, "node_failure"))
    assert "Xid 79" in answer.the(FailureRevised).because
    assert answer.the(EscalationAcknowledged).question == "q-1"
    assert decided(answer) == (Action.RELAUNCH, "R1")
    assert audit(history.events) == []


def test_a_person_s_word_holds_a_relaunch_that_was_decided() -> None:
    history = story(Interrupted)
    answer = history.tell(revise(history, "numerical_instability"))
    assert decided(answer) == (Action.ESCALATE, "R4")
    history.when(history.relaunch_command()).refused(Refusal.NO_RELAUNCH_DECIDED)


def test_a_person_s_word_on_an_older_end_decides_nothing_now() -> None:
    history = story(Interrupted).relaunch()
    history.tell(revise(history, "preemption")).then_kinds(FailureRevised)
    assert history.run.ends.failures[-1].excused


def test_a_human_s_word_outlasts_later_signals() -> None:
    history = story(Running)
    history.fail(exited(7), step=1100, **KEEP)
    history.tell(revise(history, "config_error"))
    history.tell(revise(history, "unknown", reason="it was not the config either"))
    preempted(history).without(FailureRevised)


def test_what_was_excused_can_be_charged_again() -> None:
    history = story(Interrupted)
    history.tell(revise(history, "preemption"))
    assert history.run.ends.failures[-1].excused
    history.tell(revise(history, "data_error"))
    assert not history.run.ends.failures[-1].excused


@pytest.mark.parametrize(
    ("changes", "refusal"),
    [
        ({"actor": AGENT}, Refusal.NOT_A_HUMAN),
        ({"reason": " "}, Refusal.TEXT_EMPTY),
        ({"failure": 2}, Refusal.FAILURE_UNKNOWN),
        ({"cause": "unknown"}, Refusal.CAUSE_SAME),
        ({"cause": "gremlins"}, Refusal.CAUSE_UNKNOWN),
    ],
)
def test_a_revision_is_a_human_s_and_names_an_end_and_a_class(
    changes: dict[str, Any], refusal: Refusal
) -> None:
    history = story(Interrupted)
    history.when(revise(history, **{"cause": "preemption", **changes})).refused(refusal)


@pytest.mark.parametrize(
    ("state", "cause"),
    [(AttemptState.PREEMPTED, "preemption"), (AttemptState.WORKER_FAILED, "node_failure")],
)
def test_an_attempt_s_own_word_revises_an_end_whose_decision_waits(
    state: AttemptState, cause: str
) -> None:
    history = story(Running)
    history.fail(killed(), step=1100, without=("checkpoints",))
    assert history.decision is None
    tried = AttemptFacts(task="/run/0", state=state, node="w-3")
    command = history.later(5 * MINUTES).check_command(killed(), found=KEPT)
    seen = command.observation.model_copy(update={"attempts": (tried,)})
    answer = history.tell(command.model_copy(update={"observation": seen}))
    assert answer.the(FailureRevised).cause == cause
    assert decided(answer) == (Action.RELAUNCH, "R1")
    assert f"cause {cause}: " in answer.the(DecisionMade).because


# --- What a relaunch shows ------------------------------------------------------------------------


def test_a_relaunch_records_what_is_at_stake_and_progress_rules_out_code_and_data() -> None:
    history = story(Interrupted)
    assert history.decision is not None
    assert history.decision.hypotheses == tuple(Hypothesis)
    assert history.decision.proves
    history.relaunch()
    history.train(1105, **KEEP)
    assert history.run.ends.judgement.stake is not None
    answer = history.later(10 * MINUTES).check(step=1200, **KEEP)
    judged = answer.the(HypothesesJudged)
    assert judged.ruled_out == (Hypothesis.CODE, Hypothesis.DATA)
    assert judged.ruled_in == ()
    assert judged.evidence
    # It is told once.
    history.later(10 * MINUTES).check(step=1300, **KEEP).without(HypothesesJudged)


@pytest.mark.parametrize(
    ("nodes", "out"),
    [
        ((), {Hypothesis.ALLOCATION}),
        (("w-4",), {Hypothesis.ALLOCATION, Hypothesis.NODE}),
        (("w-3",), {Hypothesis.ALLOCATION}),
    ],
)
def test_the_same_failure_again_rules_out_what_was_new(
    nodes: tuple[str, ...], out: set[Hypothesis]
) -> None:
    history = running(policy={"distributed": "retry_once"})
    before = ("w-3",) if nodes else ()
    ends_as(history, "collective_hang", nodes=before, step=1100, **KEEP)
    history.relaunch()
    # The judgement comes with the end itself, before a cause is put in by hand.
    command = history.later(5 * MINUTES).check_command(exited(1), step=1100, found=KEPT)
    judged = history.when(command).the(HypothesesJudged)
    assert Hypothesis.CODE not in judged.ruled_out
    assert set(judged.ruled_out) <= out


def test_an_end_elsewhere_settles_nothing() -> None:
    history = story(Interrupted).relaunch()
    answer = history.fail(node_lost(), step=1020, **KEEP)
    judged = answer.the(HypothesesJudged)
    assert (judged.ruled_out, judged.ruled_in) == ((), ())
    assert "nothing is settled" in judged.because


# --- The resume proof -----------------------------------------------------------------------------


def resumed() -> tuple[History, CheckRecorded]:
    """A relaunched instance in catch-up, below where the one before it ended."""
    history = story(Interrupted).relaunch()
    answer = history.later(5 * MINUTES).check(step=1040, **KEEP)
    answer.without(ResumeProven)
    assert not is_recovered(history.run.ends.judgement)
    return history, answer.the(CheckRecorded)


def overlap(**changes: Any) -> Overlap:
    fields: dict[str, Any] = {
        "steps": 40,
        "first_step": 1001,
        "last_step": 1040,
        "worst_step": 1010,
        "max_abs": 0.0004,
        "max_rel": 0.0002,
        **changes,
    }
    return Overlap(**fields)


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        (overlap(), "same"),
        (overlap(beyond=40, max_abs=0.5, max_rel=0.2), "differs"),
        (overlap(steps=1), ""),
        (None, ""),
    ],
)
def test_a_resume_is_proven_once_its_losses_can_be_compared(
    found: Overlap | None, verdict: str
) -> None:
    history, check = resumed()
    compared = check.model_copy(update={"measured": Measured(resume=found)})
    made = resume_events(history.run, compared)
    proven = [event for event in made if isinstance(event, ResumeProven)]
    assert [one.verdict for one in proven] == ([verdict] if verdict else [])
    if not verdict:
        return
    assert (proven[0].instance, proven[0].from_step, proven[0].overlap_steps) == ("i2", 1000, 40)
    assert proven[0].evidence
    history.record(*made)
    assert is_recovered(history.run.ends.judgement) == (verdict == "same")
    # It is recorded once.
    assert resume_events(history.run, compared) == []


def test_a_resume_that_differs_is_asked_about_and_counts_once_a_human_took_it() -> None:
    history, check = resumed()
    found = overlap(beyond=40, max_abs=0.5, max_rel=0.2)
    made = resume_events(history.run, check.model_copy(update={"measured": Measured(resume=found)}))
    [question] = [event for event in made if isinstance(event, EscalationRaised)]
    assert question.rule == "H9"
    history.record(*made)
    assert not is_recovered(history.run.ends.judgement)
    history.tell(
        AnswerQuestion(now=history.now, actor=DRI, question=question.question, note="planned")
    )
    assert is_recovered(history.run.ends.judgement)


def test_what_cannot_be_compared_counts_once_training_is_past_all_that_was_trained() -> None:
    history, _ = resumed()
    history.later(10 * MINUTES).check(step=1100, **KEEP).without(ResumeProven)
    proven = history.later(10 * MINUTES).check(step=1101, **KEEP).the(ResumeProven)
    assert proven.verdict == "not_comparable"
    assert is_recovered(history.run.ends.judgement)


def test_a_first_instance_has_nothing_to_prove() -> None:
    history = story(Running)
    history.later(10 * MINUTES).check(step=1500, **KEEP).without(ResumeProven)
    assert is_recovered(history.run.ends.judgement)
    assert last_instance(history.run) is not None
