"""The R rules, each with what makes it decide and what does not."""

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from tests.domain.auditor import audit
from tests.domain.given import History, decided
from tests.domain.samples import (
    AGENT,
    DRI,
    KEPT,
    LOOP,
    OTHER_ROOT,
    ROOT,
    SLUG,
    START,
    checkpoint,
    clear_for,
    contract,
    exited,
    half_written,
    job,
    killed,
    listing,
    node_lost,
    succeeded,
    tracker,
)
from tests.domain.stories import story
from tests.every_row import every_row
from watchkeeper.domain.rules.launch.commands import ReportRefusedLaunch
from watchkeeper.domain.rules.operator.commands import AnswerQuestion, RequestRelaunch, Stop
from watchkeeper.domain.rules.permits.commands import GiveConsent
from watchkeeper.domain.rules.shared.refusals import Refusal
from watchkeeper.domain.run.checkpoints import CheckpointRejected, CheckpointValidated
from watchkeeper.domain.run.ends import (
    Action,
    DecisionMade,
    FailureClassified,
    RunFinished,
    RunStopped,
)
from watchkeeper.domain.run.health import FindingOpened
from watchkeeper.domain.run.launch import InstanceEnded, LaunchRequested
from watchkeeper.domain.run.phases import Finished, Interrupted, Launching, Running, Stopped
from watchkeeper.domain.run.queries import health_now
from watchkeeper.domain.run.questions import EscalationRaised
from watchkeeper.domain.run.watch import CheckRecorded
from watchkeeper.domain.values.basic import JobFacts, JobState
from watchkeeper.domain.values.check import Health
from watchkeeper.domain.values.contract.contract import Lane
from watchkeeper.domain.values.people import Actor
from watchkeeper.ports.event_store import StatusRow
from watchkeeper.projections.status.fleet import fleet
from watchkeeper.projections.status.writer import status_row

# --- R1: relaunch under the same identity --------------------------------------------------------


@pytest.mark.parametrize("end", [node_lost(), killed(9), killed(15)])
def test_r1_relaunches_what_may_pass(end: JobFacts) -> None:
    answer = story(Running).fail(end, step=1100, found=KEPT)
    answer.then_kinds(CheckRecorded, InstanceEnded, FailureClassified, DecisionMade)
    decision = answer.the(DecisionMade)
    assert (decision.action, decision.rule) == (Action.RELAUNCH, "R1")
    assert decision.resume_path == f"{ROOT}/checkpoints/step-1000"
    assert decision.resume_step == 1000
    assert decision.recoverable
    assert decision.evidence
    assert "budget 1 of 3 in 24 h" in decision.because


def test_r1_keeps_run_id_tracker_id_output_root_and_command() -> None:
    history = story(Interrupted)
    first = history.run.instances[0].plan
    answer = history.tell(history.relaunch_command())
    plan = answer.the(LaunchRequested).plan
    assert answer.the(LaunchRequested).reason == "R1"
    assert answer.the(LaunchRequested).approval == "a-1"
    assert plan.instance == "i2"
    assert plan.submission_id != first.submission_id
    for name in ("run", "tracker_id", "display_name", "output_root", "base_command", "git_sha"):
        assert getattr(plan, name) == getattr(first, name)
    assert (plan.resume_from, plan.resume_step) == (f"{ROOT}/checkpoints/step-1000", 1000)


@pytest.mark.parametrize("end", [exited(3), exited(1), exited(0), job(JobState.FAILED)])
def test_r19_asks_where_exit_facts_do_not_say_that_it_may_pass(end: JobFacts) -> None:
    answer = story(Running).fail(end, step=1100, found=KEPT)
    assert decided(answer) == (Action.ESCALATE, "R19")
    question = answer.the(EscalationRaised)
    assert (question.question, question.rule, question.to) == ("q-1", "R19", "dri")


def test_r6_asks_about_a_traceback_even_when_a_signal_ended_it() -> None:
    lines = ["Traceback (most recent call last):", "ValueError: no"]
    answer = story(Running).fail(killed(), step=1100, found=KEPT, lines=lines)
    assert decided(answer) == (Action.ESCALATE, "R6")
    assert "ValueError: no" in answer.the(FailureClassified).evidence


def test_r19_asks_when_the_orchestrator_owns_retries_and_has_none_left() -> None:
    # The gate blocks such a contract today (L15), so the story is told around it.
    history = story(Running)
    retries = history.promised.retries.model_copy(update={"owner": "orchestrator"})
    owned = history.promised.model_copy(update={"retries": retries})
    history.run = replace(history.run, contract=owned)
    answer = history.fail(node_lost(attempts_left=0), step=1100, found=KEPT)
    assert decided(answer) == (Action.ESCALATE, "R19")


# --- R10 and which checkpoint --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("found", "step"),
    [
        (listing(900, 1000), 1000),
        (listing(1000, 900), 1000),
        (listing(9, 900, 1000, 99), 1000),
        (listing(900, half_written(1000)), 900),
        (listing(900, checkpoint(1000, metadata_step=900)), 900),
        (listing(900, checkpoint(1000, metadata_step=None)), 900),
        (listing(900, checkpoint(1000, path=f"{OTHER_ROOT}/checkpoints/step-1000")), 900),
    ],
)
def test_r1_resumes_from_the_newest_complete_validated_checkpoint(found: Any, step: int) -> None:
    answer = History().launch().fail(killed(), step=1100, found=found)
    assert answer.the(DecisionMade).resume_step == step
    assert answer.the(DecisionMade).resume_path == f"{ROOT}/checkpoints/step-{step}"


def test_r1_names_newer_checkpoints_that_it_refused() -> None:
    answer = History().launch().fail(killed(), step=1100, found=listing(900, half_written(1000)))
    assert answer.the(DecisionMade).refused == ("step-1000 refused: no metadata.json",)


def test_r1_goes_on_from_initialize_from_before_the_first_checkpoint_of_its_own() -> None:
    source = "gs://example-us-central2/grug/earlier/checkpoints/step-2900"
    facts = clear_for(2900, source=checkpoint(2900, path=source))
    history = History().launch(contract(initialize_from=source), facts)
    answer = history.fail(node_lost(), step=2950, found=listing(half_written(2950)))
    assert decided(answer) == (Action.RELAUNCH, "R1")
    decision = answer.the(DecisionMade)
    assert (decision.resume_path, decision.resume_step) == (source, 2900)
    assert "checkpoint: the contract's initialize_from" in " ".join(decision.evidence)
    assert decision.refused == ("step-2950 refused: no metadata.json",)
    history.tell(history.relaunch_command(facts)).the(LaunchRequested)
    assert audit(history.events) == []


def test_r10_asks_where_checkpoints_of_its_own_were_there_and_are_gone() -> None:
    source = "gs://example-us-central2/grug/earlier/checkpoints/step-900"
    facts = clear_for(900, source=checkpoint(900, path=source))
    history = History().launch(contract(initialize_from=source), facts)
    history.train(1000, found=KEPT)
    history.fail(node_lost(), step=1100, found=KEPT)
    history.tell(history.relaunch_command()).the(LaunchRequested)
    history.confirm()
    answer = history.fail(node_lost(), step=1300, found=listing())
    assert decided(answer) == (Action.ESCALATE, "R10")


def test_r10_asks_where_the_first_instances_own_checkpoints_are_no_longer_listed() -> None:
    source = "gs://example-us-central2/grug/earlier/checkpoints/step-900"
    facts = clear_for(900, source=checkpoint(900, path=source))
    history = History().launch(contract(initialize_from=source), facts)
    history.train(1000, found=KEPT)
    answer = history.fail(node_lost(), step=1100, found=listing())
    assert decided(answer) == (Action.ESCALATE, "R10")


@pytest.mark.parametrize(
    "found",
    [
        listing(),
        listing(half_written(900), half_written(1000)),
        listing(checkpoint(900, metadata_step=1000)),
    ],
)
def test_r10_asks_when_there_is_nothing_to_resume_from(found: Any) -> None:
    answer = History().launch().fail(node_lost(), step=1100, found=found)
    assert decided(answer) == (Action.ESCALATE, "R10")
    assert answer.the(EscalationRaised).rule == "R10"


def test_a_checkpoint_whose_metadata_names_another_step_is_rejected_once() -> None:
    history = History().launch()
    wrong = listing(900, checkpoint(1000, metadata_step=990))
    first = history.train(1000, found=wrong)
    rejected = [event.data for event in first.events if isinstance(event.data, CheckpointRejected)]
    assert [(r.step, r.reason) for r in rejected] == [(1000, "its metadata says step 990")]
    assert history.check(step=1010, found=wrong).all(CheckpointRejected) == []
    assert history.fail(killed(), step=1100, found=wrong).the(DecisionMade).resume_step == 900


@pytest.mark.parametrize(
    ("said", "step"),
    [(990, 900), (1000, 1000), (None, 1000)],
    ids=["another step", "the same", "nothing"],
)
def test_what_was_validated_is_looked_at_again_where_its_metadata_names_another_step(
    said: int | None, step: int
) -> None:
    history = History().launch().train(1000, found=listing(900, 1000))
    now = listing(900, checkpoint(1000, metadata_step=said))
    answer = history.fail(killed(), step=1100, found=now)
    assert answer.the(DecisionMade).resume_step == step
    assert len(answer.all(CheckpointRejected)) == (1 if step == 900 else 0)


def test_with_nothing_else_left_a_contradicted_checkpoint_is_asked_about() -> None:
    history = History().launch().train(1000, found=listing(1000))
    now = listing(checkpoint(1000, metadata_step=990))
    answer = history.fail(killed(), step=1100, found=now)
    assert decided(answer) == (Action.ESCALATE, "R10")


def test_a_checkpoint_that_retention_removed_is_not_resumed_from() -> None:
    history = History().launch().train(1000, found=listing(900, 1000))
    assert set(history.run.checkpoints.validated) == {900, 1000}
    answer = history.fail(killed(), step=1100, found=listing(900))
    assert answer.the(DecisionMade).resume_step == 900


def test_a_checkpoint_that_was_just_written_is_validated_and_used_at_once() -> None:
    history = story(Running)
    answer = history.fail(killed(), step=1100, found=listing(900, 1000, 1100))
    assert [made.step for made in answer.all(CheckpointValidated)] == [1100]
    assert answer.the(DecisionMade).resume_step == 1100


# --- A source that gives no answer ----------------------------------------------------------------


def test_nothing_is_decided_while_the_checkpoint_store_gives_no_answer() -> None:
    history = story(Running)
    answer = history.fail(killed(), step=1100, without=("checkpoints",))
    answer.then_kinds(CheckRecorded, InstanceEnded, FailureClassified)
    assert history.decision is None
    history.when(history.relaunch_command()).refused(Refusal.NO_RELAUNCH_DECIDED)

    # Still no answer: still no decision, and nothing is classified twice.
    history.fail(killed(), without=("checkpoints",)).then_kinds(CheckRecorded)

    late = history.fail(killed(), found=KEPT)
    late.then_kinds(CheckRecorded, DecisionMade)
    assert decided(late) == (Action.RELAUNCH, "R1")
    assert "decided late" in "".join(late.the(DecisionMade).evidence)
    assert history.decision is not None


def test_a_dead_run_with_a_silent_store_is_asked_about_once_and_goes_on_by_a_human() -> None:
    history = story(Running)
    history.fail(killed(), step=1100, without=("checkpoints",)).without(DecisionMade)
    made: list[DecisionMade] = []
    for _ in range(20):
        answer = history.fail(killed(), without=("checkpoints",))
        made += answer.all(DecisionMade)
    [decision] = made
    assert (decision.action, decision.rule) == (Action.ESCALATE, "R19")
    assert "the checkpoint store gives no answer" in decision.because
    assert "no answer in 10 s" in decision.because
    [question] = history.run.questions.open.values()
    assert "newest checkpoint on record" in question.asks
    assert question.name in repr(status_row(history.run))
    history.tell(
        AnswerQuestion(now=history.now, actor=DRI, question=question.name, answer="relaunch")
    )
    assert history.decision is not None
    assert (history.decision.action, history.decision.resume_step) == (Action.RELAUNCH, 1000)


def test_a_relaunch_asked_for_is_asked_about_too_where_the_store_is_silent() -> None:
    history = story(Running)
    history.tell(RequestRelaunch(now=history.now, actor=DRI, reason="a new driver"))
    history.fail(job(JobState.STOPPED), step=1100, without=("checkpoints",)).without(DecisionMade)
    late = history.fail(
        job(JobState.STOPPED), wait=timedelta(hours=1), step=1100, without=("checkpoints",)
    )
    assert decided(late) == (Action.ESCALATE, "R19")
    question = late.the(EscalationRaised).question
    again = history.tell(
        AnswerQuestion(now=history.now, actor=DRI, question=question, answer="relaunch")
    )
    assert decided(again) == (Action.RELAUNCH, "R18")


def test_what_needs_no_checkpoint_is_decided_without_the_store() -> None:
    answer = story(Running).fail(exited(3), step=1100, without=("checkpoints",))
    assert decided(answer) == (Action.ESCALATE, "R19")


def test_a_decision_is_made_once() -> None:
    history = story(Interrupted)
    history.fail(killed(), found=KEPT).then_kinds(CheckRecorded)


@pytest.mark.parametrize("source", ["logs", "tracker"])
def test_logs_and_tracker_are_not_needed_for_a_decision(source: str) -> None:
    answer = story(Running).fail(killed(), step=1100, found=KEPT, without=(source,))
    assert decided(answer) == (Action.RELAUNCH, "R1")


def test_an_orchestrator_without_an_answer_ends_nothing() -> None:
    history = story(Running)
    history.fail(killed(), step=1100, found=KEPT, without=("orchestrator",)).then_kinds(
        CheckRecorded
    )
    assert isinstance(history.run.phase, Running)


# --- Resume policy, retries of the orchestrator, stop, success ------------------------------------


def test_r11_asks_for_a_new_run_where_the_resume_policy_is_never() -> None:
    history = History().launch(contract(tracker={"resume": "never"}))
    answer = history.fail(node_lost(), step=1100, found=KEPT)
    assert decided(answer) == (Action.ESCALATE, "R11")
    assert "never" in answer.the(DecisionMade).because
    asks = answer.the(EscalationRaised).asks
    assert f"`watchkeeper run supersede {history.run.slug} NEW-CONTRACT --reason ...`" in asks
    assert "another run id, tracker id and output root" in asks


@pytest.mark.parametrize("policy", ["allow", "must"])
def test_other_resume_policies_allow_a_relaunch(policy: str) -> None:
    history = History().launch(contract(tracker={"resume": policy}))
    assert decided(history.fail(node_lost(), step=1100, found=KEPT)) == (Action.RELAUNCH, "R1")


def test_r13_waits_while_the_orchestrator_retries_inside_a_job() -> None:
    history = story(Running)
    history.later(timedelta(minutes=10))
    answer = history.check(job(attempts_failed=1, attempts_left=2), step=1100)
    assert decided(answer) == (Action.WAIT, "R13")
    assert "retries left: 2" in answer.the(DecisionMade).because
    # The same count again is no news; another failed attempt is.
    history.later(timedelta(minutes=10))
    history.check(job(attempts_failed=1, attempts_left=2), step=1200).without(DecisionMade)
    history.later(timedelta(minutes=10))
    again = history.check(job(attempts_failed=2, attempts_left=1), step=1200)
    assert decided(again) == (Action.WAIT, "R13")


def stop(history: History) -> None:
    history.tell(Stop(now=history.now, actor=DRI, reason="the loss diverges"))


@pytest.mark.parametrize(
    "end", [job(JobState.STOPPED), job(JobState.FAILED), killed(15), exited(1)]
)
def test_r14_leaves_what_a_person_stopped_whatever_the_orchestrator_calls_it(
    end: JobFacts,
) -> None:
    history = story(Running)
    stop(history)
    answer = history.fail(end, step=1100, found=KEPT)
    answer.then_kinds(CheckRecorded, InstanceEnded, DecisionMade, RunStopped)
    assert decided(answer) == (Action.LEAVE, "R14")
    assert isinstance(history.run.phase, Stopped)


@pytest.mark.parametrize("actor", [DRI, AGENT])
def test_r14_says_who_stopped_the_run_and_why(actor: Actor) -> None:
    history = story(Running)
    asks = Stop(now=history.now, actor=actor, reason="the loss diverges")
    who = "dri"
    if actor == AGENT:
        history.attempt(asks).refused(Refusal.CONSENT_NEEDED)
        history.tell(GiveConsent(now=history.now, actor=DRI, proposal="p-1"))
        asks = asks.model_copy(update={"consent": "c-1"})
        who = f"{AGENT.principal} (allowed by dri)"
    history.tell(asks)
    answer = history.fail(job(JobState.STOPPED), step=1100, found=KEPT)
    said = f"stopped by {who}: the loss diverges"
    assert answer.the(DecisionMade).because == f"not relaunched: {said}"
    assert answer.the(RunStopped).reason == said


def test_a_stop_before_the_launch_says_who_and_why() -> None:
    history = story(Launching)
    stop(history)
    refused = ReportRefusedLaunch(now=history.now, actor=LOOP, instance="i1", reason="no quota")
    answer = history.tell(refused)
    assert answer.the(RunStopped).reason.endswith("by dri: the loss diverges")
    assert answer.the(DecisionMade).because.endswith("by dri: the loss diverges")


@every_row("lane", list(Lane))
@every_row("said", ["", "cancelled", "Job cancelled via API", "Parent job was terminated"])
def test_a_stop_that_nobody_on_record_asked_for_is_asked_about(lane: Lane, said: str) -> None:
    history = History().launch(contract(lane=lane)).train(1100)
    answer = history.fail(job(JobState.STOPPED, message=said), found=KEPT)
    assert answer.the(FailureClassified).cause == "unknown"
    assert decided(answer) == (Action.ESCALATE, "R14")
    asked = answer.the(EscalationRaised).asks
    assert "no stop is on record" in asked
    assert "`watchkeeper relaunch" in asked


def test_a_contract_may_take_a_stop_as_a_failure() -> None:
    stated = contract(policy={"stopped": "failure"})
    history = History().launch(stated).train(1100)
    assert decided(history.fail(job(JobState.STOPPED), found=KEPT)) == (Action.RELAUNCH, "R1")


@pytest.mark.parametrize(("wait", "says"), [(110, "a planned stop to confirm"), (130, "on record")])
def test_a_stop_right_after_a_submit_is_to_be_confirmed(wait: int, says: str) -> None:
    history = History().launch()
    answer = history.fail(job(JobState.STOPPED), wait=timedelta(seconds=wait), found=KEPT)
    assert decided(answer) == (Action.ESCALATE, "R14")
    assert says in answer.the(DecisionMade).because


@every_row(
    "end", [job(JobState.STOPPED), killed(9), node_lost(), job(JobState.FAILED, exit_code=1)]
)
@every_row(("step", "found"), [(5155, KEPT), (6000, KEPT), (5154, listing(5155))])
def test_an_end_at_or_beyond_the_final_step_is_verified_and_never_relaunched(
    end: JobFacts, step: int, found: Any
) -> None:
    history = History().launch(contract(policy={"stopped": "failure"})).train(step)
    answer = history.fail(end, found=found)
    assert decided(answer) == (Action.VERIFY, "R15")
    assert isinstance(history.run.phase, Finished)


def test_an_end_at_the_final_step_that_the_store_shows_late_is_verified() -> None:
    history = History().launch().train(5100, found=listing(5000))
    history.fail(node_lost(), step=5154, without=("checkpoints",))
    assert history.decision is None
    last = checkpoint(5155, written_at=history.now)
    history.later(timedelta(minutes=5))
    answer = history.check(node_lost(), step=5154, found=listing(5000, last))
    assert decided(answer) == (Action.VERIFY, "R15")
    assert isinstance(history.run.phase, Finished)


def test_an_end_one_step_before_the_final_one_is_recovered() -> None:
    history = History().launch().train(5154)
    assert decided(history.fail(killed(9), found=KEPT)) == (Action.RELAUNCH, "R1")


def test_a_stop_of_an_older_instance_says_nothing_about_this_one() -> None:
    history = story(Interrupted).relaunch()
    operator = replace(history.run.operator, stop_requested="i1")
    history.run = replace(history.run, operator=operator)
    answer = history.fail(killed(15), step=1500, found=KEPT)
    assert decided(answer)[1] == "R1"


def test_r15_a_success_is_verified_next() -> None:
    history = story(Running)
    answer = history.fail(succeeded(), step=5154, found=listing(5155))
    answer.then_kinds(CheckRecorded, CheckpointValidated, InstanceEnded, DecisionMade, RunFinished)
    assert decided(answer) == (Action.VERIFY, "R15")
    assert isinstance(history.run.phase, Finished)


@pytest.mark.parametrize("lane", list(Lane))
@pytest.mark.parametrize(
    ("facts", "says"),
    [
        ({"step": 1200, "found": listing(1000)}, "it shows step 1200 of 5155"),
        ({"shown": tracker(None), "found": listing()}, "no checkpoint, and no step"),
    ],
)
def test_a_success_short_of_its_end_is_degraded_and_asked_about(
    lane: Lane, facts: Any, says: str
) -> None:
    history = History().launch(contract(lane=lane))
    answer = history.fail(succeeded(), **facts)
    assert isinstance(history.run.phase, Finished)
    assert says in answer.the(FindingOpened).summary
    asked = answer.the(EscalationRaised)
    assert (asked.rule, says in asked.asks) == ("H11", True)
    assert health_now(history.run) is Health.DEGRADED
    row = json.dumps(status_row(history.run))
    [view] = fleet([StatusRow(SLUG, "run", row)], history.now).runs
    assert [need.kind for need in view.needs][:1] == ["question"]


@pytest.mark.parametrize(
    "facts",
    [
        {"step": 5154, "found": listing(5155)},
        {"step": 5154, "found": listing(5000)},  # Counted from 0: the seal looks closer.
        {"step": 1200, "found": listing(1000), "without": ("tracker", "checkpoints")},
    ],
)
def test_a_success_at_its_end_or_one_that_nobody_can_tell_opens_nothing(facts: Any) -> None:
    history = History().launch().train(1000)
    assert history.fail(succeeded(), **facts).all(EscalationRaised) == []


@pytest.mark.parametrize(("step", "asks"), [(5155, False), (5156, True)])
def test_steps_beyond_the_final_one_are_asked_about_while_the_job_lives(
    step: int, asks: bool
) -> None:
    history = History().launch().train(5000, wait=timedelta(minutes=10))
    answer = history.later(timedelta(minutes=10)).check(step=step)
    opened = [one for one in answer.all(FindingOpened) if one.rule == "H10"]
    assert bool(opened) == asks
    raised = [one.asks for one in answer.all(EscalationRaised)]
    assert any("beyond the final step 5155" in text for text in raised) == asks


def test_a_success_counts_although_a_stop_was_asked_for() -> None:
    history = story(Running)
    stop(history)
    answer = history.fail(succeeded(), step=5154, found=listing(5155))
    assert decided(answer) == (Action.VERIFY, "R15")
    assert isinstance(history.run.phase, Finished)


def test_a_step_count_never_ends_an_instance() -> None:
    history = story(Running).train(5155, found=listing(5155))
    assert isinstance(history.run.phase, Running)


def test_tracker_words_never_end_an_instance() -> None:
    history = story(Running)
    said = tracker(5154, state="finished", heartbeat_at=history.now + timedelta(hours=1))
    history.later(timedelta(hours=1)).check(shown=said, found=listing(5155))
    assert isinstance(history.run.phase, Running)


def test_a_checkpoint_that_is_older_than_the_run_is_never_resumed_from() -> None:
    # A root that was used before: step-5000 of last month is not this run's.
    old = checkpoint(5000, written_at=START - timedelta(days=30))
    history = History().launch()
    answer = history.fail(killed(), step=60, found=listing(old))
    assert answer.the(CheckpointRejected).step == 5000
    assert decided(answer) == (Action.ESCALATE, "R10")


def test_such_an_end_is_retried_once_and_then_asked_about() -> None:
    history = story(Interrupted).relaunch()
    answer = history.fail(killed(), step=2300, found=listing(900, 1000, 2300))
    assert decided(answer) == (Action.ESCALATE, "R19")
    assert "retried once" in answer.the(DecisionMade).because


@pytest.mark.parametrize(
    "wrong",
    [
        checkpoint(1000, metadata_step=990, written_at=START + timedelta(minutes=1)),
        checkpoint(1000, written_at=START - timedelta(days=3)),
    ],
)
def test_what_is_written_anew_under_the_path_of_a_rejected_checkpoint_is_judged_anew(
    wrong: Any,
) -> None:
    history = History().launch()
    history.train(1000, found=listing(wrong))
    assert history.check(step=1005, found=listing(wrong)).all(CheckpointRejected) == []
    anew = listing(checkpoint(1000, written_at=history.now))
    history.train(1010, found=anew)
    assert history.fail(node_lost(), step=1020, found=anew).the(DecisionMade).resume_step == 1000
