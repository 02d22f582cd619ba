"""Planned relaunch, rollback, successor, milestone and adoption, in events."""

from datetime import timedelta
from typing import Any

import pytest

from tests.domain.given import Answer, History, decided
from tests.domain.samples import (
    AGENT,
    DIRTY,
    DRI,
    KEPT,
    LOOP,
    OTHER_ROOT,
    OTHER_SHA,
    PATCH,
    ROOT,
    SLUG,
    START,
    checkpoint,
    clear,
    clear_for,
    consented_patch,
    contract,
    described,
    dirty,
    exited,
    half_written,
    job,
    killed,
    listing,
    node_lost,
    plan,
    sealable,
    seen,
    succeeded,
    tracker,
)
from tests.domain.stories import story, successor
from watchkeeper.domain.rules.launch.commands import (
    AdoptInstance,
    ApproveLaunch,
    ReportRefusedLaunch,
)
from watchkeeper.domain.rules.operator.commands import (
    AnswerQuestion,
    NameAncestor,
    PlanRollback,
    RequestRelaunch,
    Stop,
    Supersede,
)
from watchkeeper.domain.rules.seal.commands import VerifyMilestone, VerifySeal
from watchkeeper.domain.rules.shared.refusals import Refusal
from watchkeeper.domain.run.checkpoints import CheckpointRejected, CheckpointValidated
from watchkeeper.domain.run.ends import (
    Action,
    DecisionMade,
    FailureClassified,
    RunFinished,
    RunStopped,
)
from watchkeeper.domain.run.launch import (
    InstanceLaunched,
    LaunchApproved,
    LaunchRequested,
    PreflightRecorded,
)
from watchkeeper.domain.run.operator import (
    AncestorNamed,
    LineageRejected,
    RelaunchRequested,
    RollbackApproved,
    RollbackPlanned,
    RunSuperseded,
)
from watchkeeper.domain.run.outbox.effects import Effects
from watchkeeper.domain.run.outbox.policy import Act, due_acts
from watchkeeper.domain.run.permits import ActProposed, ConsentGiven, ConsentUsed
from watchkeeper.domain.run.phases import Finished, Interrupted, Launching, Running, Superseded
from watchkeeper.domain.run.questions import EscalationAcknowledged, EscalationRaised
from watchkeeper.domain.run.seal import MilestoneVerified, SealBlocked, SealVerified
from watchkeeper.domain.values.basic import JobState
from watchkeeper.domain.values.observation.gate_facts import StoreFacts

STOPPED = job(JobState.STOPPED)
HOUR = timedelta(hours=1)

# --- Relaunch ------------------------------------------------------------------------------------


def relaunch(history: History, **changes: Any) -> RequestRelaunch:
    fields: dict[str, Any] = {"now": history.now, "actor": DRI, "reason": "a new driver"}
    return RequestRelaunch(**{**fields, **changes})


def test_a_planned_relaunch_is_a_humans_and_waits_for_the_end() -> None:
    history = story(Running)
    history.when(relaunch(history, actor=AGENT)).refused(Refusal.NOT_A_HUMAN)
    answer = history.tell(relaunch(history))
    answer.then_kinds(ActProposed, ConsentGiven, ConsentUsed, RelaunchRequested)
    assert Act.STOP in due_acts(history.run, Effects(), history.now)
    history.when(relaunch(history)).refused(Refusal.RELAUNCH_DECIDED)
    history.later(timedelta(seconds=5)).check(step=1100).without(DecisionMade)
    assert isinstance(history.run.phase, Running), "silence and steps end nothing"
    end = history.fail(STOPPED, step=1100, found=KEPT)
    end.without(FailureClassified)
    decision = end.the(DecisionMade)
    assert (decision.action, decision.rule) == (Action.RELAUNCH, "R18")
    assert decision.resume_step == 1000
    assert decision.recoverable
    requested = history.tell(history.relaunch_command()).the(LaunchRequested)
    assert requested.approval == "a-1", "it rests on the approval that the run has"


@pytest.mark.parametrize("end", [STOPPED, killed(15), exited(3), node_lost()])
def test_any_bad_end_after_the_request_is_the_one_that_was_asked_for(end: Any) -> None:
    history = story(Running)
    history.tell(relaunch(history))
    assert decided(history.fail(end, step=1100, found=KEPT)) == (Action.RELAUNCH, "R18")


@pytest.mark.parametrize("step", [5155, 6000])
def test_no_relaunch_that_was_asked_for_goes_beyond_the_final_step(step: int) -> None:
    history = story(Running)
    history.tell(relaunch(history))
    answer = history.fail(STOPPED, step=step, found=listing(5155))
    assert decided(answer) == (Action.VERIFY, "R15")
    assert isinstance(history.run.phase, Finished)


def test_a_final_checkpoint_that_the_store_shows_late_ends_what_was_asked_for() -> None:
    history = story(Running)
    history.tell(relaunch(history))
    history.fail(STOPPED, step=5154, without=("checkpoints",))
    assert history.decision is None
    answer = history.later(timedelta(minutes=5)).check(STOPPED, step=5154, found=listing(5155))
    assert decided(answer) == (Action.VERIFY, "R15")


def test_a_job_that_ends_well_before_its_planned_end_is_finished() -> None:
    history = story(Running)
    history.tell(relaunch(history))
    history.fail(succeeded(), step=5155, found=listing(5155)).the(RunFinished)


def test_a_stop_that_comes_after_a_planned_relaunch_wins() -> None:
    history = story(Running)
    history.tell(relaunch(history))
    history.tell(Stop(now=history.now, actor=DRI, reason="not worth it"))
    history.fail(STOPPED, step=1100, found=KEPT).the(RunStopped)


def test_after_a_stop_nothing_is_relaunched() -> None:
    history = story(Running)
    history.tell(Stop(now=history.now, actor=DRI, reason="enough"))
    history.when(relaunch(history)).refused(Refusal.STOP_ASKED)


def test_a_planned_relaunch_waits_for_the_store_and_is_decided_later() -> None:
    history = story(Running)
    history.tell(relaunch(history))
    history.fail(STOPPED, step=1100, without=("checkpoints",)).without(DecisionMade)
    late = history.later(timedelta(minutes=2)).check(STOPPED, step=1100, found=KEPT)
    assert decided(late) == (Action.RELAUNCH, "R18")


def test_without_a_checkpoint_a_planned_relaunch_is_asked_about() -> None:
    history = History().launch().train(40)
    history.tell(relaunch(history))
    assert decided(history.fail(STOPPED, step=50)) == (Action.ESCALATE, "R10")


def test_a_run_whose_job_has_ended_is_relaunched_at_once_and_its_question_answered() -> None:
    history = story(Running)
    history.fail(exited(1), step=1100, found=KEPT)
    assert list(history.run.questions.open) == ["q-1"]
    answer = history.tell(relaunch(history))
    assert answer.the(EscalationAcknowledged).question == "q-1"
    assert decided(answer) == (Action.RELAUNCH, "R18")
    assert not history.run.questions.open


def test_what_never_ran_is_relaunched_from_where_it_was_to_start() -> None:
    history = story(Launching)
    refused = ReportRefusedLaunch(now=history.now, actor=LOOP, instance="i1", reason="no quota")
    history.tell(refused)
    decision = history.tell(relaunch(history)).the(DecisionMade)
    assert (decision.action, decision.resume_path) == (Action.RELAUNCH, "")


def held_at_the_gate(history: History) -> str:
    """The relaunch that was decided is held at the gate; the question about it."""
    source = history.decision.resume_step if history.decision is not None else None
    held = clear_for(source or 0, root_held_by="other i1")
    history.tell(history.relaunch_command(held)).the(EscalationRaised)
    return list(history.run.questions.open)[-1]


def answer(history: History, question: str) -> Answer:
    return history.tell(
        AnswerQuestion(now=history.now, actor=DRI, question=question, answer="relaunch")
    )


def test_a_planned_relaunch_that_the_gate_held_goes_on_when_a_human_answers_so() -> None:
    history = story(Interrupted).relaunch().train(1100, found=KEPT)
    history.tell(relaunch(history))
    history.fail(STOPPED, step=1150, found=KEPT)
    question = held_at_the_gate(history)
    decision = answer(history, question).the(DecisionMade)
    assert (decision.instance, decision.rule, decision.resume_step) == ("i2", "R18", 1000)
    history.tell(history.relaunch_command()).the(LaunchRequested)


def test_a_planned_relaunch_that_the_gate_held_may_be_asked_for_again_or_become_a_rollback() -> (
    None
):
    history = story(Running)
    history.tell(relaunch(history))
    history.fail(STOPPED, step=1100, found=KEPT)
    history.when(rollback(history)).refused(Refusal.RELAUNCH_DECIDED)
    held_at_the_gate(history)
    assert decided(history.when(relaunch(history))) == (Action.RELAUNCH, "R18")
    history.tell(rollback(history))
    history.tell(approval(history)).the(RollbackApproved)
    assert history.check(STOPPED, step=1100, found=KEPT).the(DecisionMade).resume_step == 900


def test_a_rollback_that_the_gate_held_goes_on_as_that_rollback() -> None:
    history, _ = rolled_back()
    decision = answer(history, held_at_the_gate(history)).the(DecisionMade)
    assert (decision.rule, decision.resume_step) == ("R18", 900)
    assert history.tell(history.relaunch_command()).the(LaunchRequested).approval == "a-2"


# --- Rollback ------------------------------------------------------------------------------------


def rollback(history: History, step: int = 900, **changes: Any) -> PlanRollback:
    fields: dict[str, Any] = {
        "now": history.now,
        "actor": DRI,
        "step": step,
        "submission_id": f"{SLUG}-i{len(history.run.instances) + 1}-home",
        "facts": clear_for(step),
        "reason": "the loss rose after step 900",
        **changes,
    }
    return PlanRollback(**fields)


def approval(history: History, **changes: Any) -> ApproveLaunch:
    planned = history.run.operator.rollback
    digest = planned.digest if planned is not None else "0" * 12
    fields: dict[str, Any] = {"now": history.now, "actor": DRI, "digest": digest, **changes}
    return ApproveLaunch(**fields)


def test_a_rollback_does_nothing_before_its_own_approval() -> None:
    history = story(Running)
    planned = history.tell(rollback(history)).the(RollbackPlanned)
    assert (planned.step, planned.plan.resume_step) == (900, 900)
    assert Act.STOP not in due_acts(history.run, Effects(), history.now)
    history.when(approval(history, actor=AGENT)).refused(Refusal.NOT_A_HUMAN)
    history.when(approval(history, digest="f" * 12)).refused(Refusal.ROLLBACK_UNKNOWN)
    history.tell(approval(history)).then_kinds(
        LaunchApproved, ActProposed, ConsentGiven, ConsentUsed, RollbackApproved
    )
    assert Act.STOP in due_acts(history.run, Effects(), history.now)


def rolled_back() -> tuple[History, Answer]:
    """Rolled back to step 900, with the job's end seen."""
    history = story(Running)
    history.tell(rollback(history))
    history.tell(approval(history))
    late = checkpoint(1100, written_at=history.now)
    found = listing(checkpoint(900), checkpoint(1000), late)
    return history, history.fail(STOPPED, step=1150, found=found)


def test_after_the_end_all_above_the_step_is_rejected_and_the_run_goes_on_from_it() -> None:
    history, answer = rolled_back()
    assert answer.the(LineageRejected).above_step == 900
    assert [one.step for one in answer.all(CheckpointRejected)] == [1000, 1100]
    decision = answer.the(DecisionMade)
    assert (decision.action, decision.rule, decision.resume_step) == (Action.RELAUNCH, "R18", 900)
    requested = history.tell(history.relaunch_command()).the(LaunchRequested)
    assert requested.approval == "a-2"
    assert sorted(history.run.checkpoints.validated) == [900]


def test_a_rejected_lineage_is_never_resumed_from_though_it_is_still_there() -> None:
    history, _ = rolled_back()
    history.relaunch()
    late = checkpoint(1100, written_at=START + timedelta(minutes=2))
    old = listing(checkpoint(900), checkpoint(1000), late)
    history.train(950, found=old)
    answer = history.fail(killed(), step=980, found=old)
    assert answer.the(DecisionMade).resume_step == 900
    answer.without(CheckpointValidated)


def test_a_rejected_lineage_is_not_sealed_by_waivers_either() -> None:
    history, _ = rolled_back()
    history.relaunch()
    history.later(HOUR).train(950, found=listing(checkpoint(900)))
    history.tell(Stop(now=history.now, actor=DRI, reason="enough"))
    left = checkpoint(1150, written_at=START + timedelta(minutes=2))
    kept = checkpoint(900, written_at=history.now)
    # No check has seen it: a store lists late.
    history.fail(job(JobState.STOPPED), step=960, found=listing(kept))
    observed = seen(
        at=history.now,
        said=None,
        instance="i2",
        shown=tracker(960, state="finished"),
        found=listing(kept, left),
    )
    lacks = ("successful end", "tracker step", "final checkpoint step-5155")
    facts = sealable(history.now, observation=observed)
    sealing = VerifySeal(now=history.now, actor=DRI, facts=facts, waive=lacks, reason="agreed")
    assert history.tell(sealing).the(SealVerified).final_step == 900


def test_what_the_new_lineage_writes_under_the_same_paths_counts() -> None:
    history, _ = rolled_back()
    history.relaunch()
    anew = checkpoint(1000, written_at=history.now + HOUR)
    history.later(HOUR).train(1050, found=listing(checkpoint(900), anew))
    answer = history.fail(killed(), step=1080, found=listing(checkpoint(900), anew))
    assert answer.the(DecisionMade).resume_step == 1000


def test_after_a_rollback_an_ordinary_failure_is_relaunched_under_its_approval() -> None:
    history, _ = rolled_back()
    history.relaunch().train(950, found=listing(900))
    assert decided(history.fail(node_lost(), step=980, found=listing(900))) == (
        Action.RELAUNCH,
        "R1",
    )
    assert history.tell(history.relaunch_command()).the(LaunchRequested).approval == "a-2"


def test_a_rollback_of_an_interrupted_run_waits_for_the_stores_listing() -> None:
    history = story(Interrupted)
    history.tell(rollback(history))
    history.tell(approval(history)).without(DecisionMade)
    assert history.decision is None, "the relaunch that was decided is off"
    assert due_acts(history.run, Effects(), history.now)[0] is Act.CHECK
    answer = history.check(killed(), step=1100, found=KEPT)
    assert answer.the(DecisionMade).resume_step == 900


def test_another_instance_since_the_plan_makes_it_another_plan() -> None:
    history = story(Interrupted)
    history.tell(rollback(history))
    history.relaunch()
    history.when(approval(history)).refused(Refusal.ROLLBACK_UNKNOWN)


@pytest.mark.parametrize(
    ("step", "facts", "refusal"),
    [
        (950, clear_for(950), Refusal.CHECKPOINT_UNKNOWN),
        (900, clear_for(900, source=half_written(900)), Refusal.PLAN_BLOCKED),
        (900, clear_for(900, root_held_by="other i1"), Refusal.PLAN_BLOCKED),
    ],
)
def test_a_rollback_to_what_is_not_whole_or_not_ours_is_refused(
    step: int, facts: Any, refusal: Refusal
) -> None:
    history = story(Running)
    history.when(rollback(history, step, facts=facts)).refused(refusal)


def test_an_approval_while_nothing_is_planned_is_refused() -> None:
    history = story(Running)
    history.when(approval(history)).refused(Refusal.ALREADY_LAUNCHED)


def test_a_rollback_after_a_refused_launch_is_decided_from_what_is_on_record() -> None:
    history = story(Interrupted)
    history.tell(history.relaunch_command())
    refused = ReportRefusedLaunch(now=history.now, actor=LOOP, instance="i2", reason="no quota")
    history.tell(refused)
    history.tell(rollback(history))
    answer = history.tell(approval(history))
    assert answer.the(DecisionMade).resume_step == 900
    assert [one.step for one in answer.all(CheckpointRejected)] == [1000]


# --- Successors ----------------------------------------------------------------------------------


def supersede(history: History, **changes: Any) -> Supersede:
    fields: dict[str, Any] = {
        "now": history.now,
        "actor": DRI,
        "successor": successor(),
        "reason": "another data mix",
        **changes,
    }
    return Supersede(**fields)


def test_a_superseded_run_names_both_identities_and_nothing_relaunches_it() -> None:
    history = story(Interrupted)
    answer = history.tell(supersede(history, successor=successor(code={"git_sha": OTHER_SHA})))
    closed = answer.the(RunSuperseded)
    assert (closed.tracker_id, closed.successor_tracker_id) == (SLUG, f"{SLUG}-b")
    assert (closed.output_root, closed.successor_output_root) == (ROOT, f"{ROOT}-b")
    assert closed.checkpoint == f"{ROOT}/checkpoints/step-1000"
    assert closed.successor_git_sha == OTHER_SHA
    assert isinstance(history.run.phase, Superseded)
    assert due_acts(history.run, Effects(), history.now + HOUR) == [Act.LOGBOOK]
    history.when(supersede(history)).refused(Refusal.ALREADY_SUPERSEDED)


@pytest.mark.parametrize(
    ("changes", "refusal"),
    [
        ({"run": SLUG}, Refusal.SUCCESSOR_NOT_APART),
        ({"tracker": {"id": SLUG}}, Refusal.SUCCESSOR_NOT_APART),
        ({"output_root": f"{ROOT}/below"}, Refusal.SUCCESSOR_NOT_APART),
        ({"initialize_from": ""}, Refusal.CHECKPOINT_UNKNOWN),
        ({"initialize_from": f"{ROOT}/checkpoints/step-950"}, Refusal.CHECKPOINT_UNKNOWN),
        ({"initialize_from": f"{OTHER_ROOT}/checkpoints/step-1000"}, Refusal.CHECKPOINT_UNKNOWN),
    ],
)
def test_a_successor_stands_apart_and_starts_from_a_checkpoint_of_the_run(
    changes: Any, refusal: Refusal
) -> None:
    history = story(Interrupted)
    history.when(supersede(history, successor=successor(**changes))).refused(refusal)


def test_a_live_run_is_not_superseded_and_only_a_human_supersedes() -> None:
    history = story(Running)
    history.when(supersede(history)).refused(Refusal.STILL_LIVE)
    ended = story(Interrupted)
    ended.when(supersede(ended, actor=AGENT)).refused(Refusal.NOT_A_HUMAN)


def test_a_drafted_run_names_its_ancestors_once() -> None:
    history = History().draft(contract(initialize_from=f"{OTHER_ROOT}/checkpoints/step-900"))
    command = NameAncestor(
        now=history.now,
        actor=DRI,
        ancestors=("oldest", "older"),
        checkpoint=f"{OTHER_ROOT}/checkpoints/step-900/",
        step=900,
        reason="another data mix",
    )
    assert history.tell(command).the(AncestorNamed).ancestor == "older"
    history.when(command).then()
    elsewhere = command.model_copy(update={"checkpoint": f"{ROOT}/checkpoints/step-900"})
    history.when(elsewhere).refused(Refusal.CHECKPOINT_UNKNOWN)


# --- Milestones ----------------------------------------------------------------------------------


def milestone(history: History, step: int = 1000, **changes: Any) -> VerifyMilestone:
    observed = seen(
        at=history.now,
        said=job(),
        shown=changes.pop("shown", tracker(1200, heartbeat_at=history.now)),
        found=changes.pop("found", KEPT),
        without=changes.pop("without", ()),
    )
    facts = sealable(history.now, **changes).model_copy(update={"observation": observed})
    return VerifyMilestone(now=history.now, actor=LOOP, step=step, facts=facts)


def test_a_milestone_changes_neither_phase_nor_watch_and_is_tagged_once() -> None:
    history = story(Running, contract(lane="hero"))
    before = history.run
    verified = history.tell(milestone(history)).the(MilestoneVerified)
    assert verified.tag == f"hero/{SLUG}/step-1000"
    assert (history.run.phase, history.run.watch) == (before.phase, before.watch)
    history.when(milestone(history)).then()


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"found": listing(900)}, "checkpoint step-1000: not there"),
        ({"found": listing(half_written(1000))}, "no metadata.json"),
        ({"found": listing(checkpoint(1000, metadata_step=999))}, "metadata says step 999"),
        ({"shown": tracker(1200, tracker_id="other")}, "it shows other"),
        ({"without": ("tracker",)}, "tracker"),
        ({"without": ("checkpoints",)}, "checkpoint step-1000"),
        ({"commit_found": False}, "launch commit"),
        ({"commit_found": None}, "launch commit"),
        ({"tag_target": "a" * 40}, "milestone tag"),
    ],
)
def test_a_milestone_names_what_it_lacks(changes: Any, says: str) -> None:
    history = story(Running)
    history.when(milestone(history, **changes)).refused(Refusal.MILESTONE_BLOCKED, says)


def test_a_rejected_checkpoint_is_no_milestone() -> None:
    history, _ = rolled_back()
    history.relaunch().train(950)
    late = listing(checkpoint(1000))
    command = milestone(history, found=late)
    history.when(command).refused(Refusal.MILESTONE_BLOCKED, "rejected")


def test_a_finished_run_may_still_have_a_milestone() -> None:
    history = story(Finished)
    history.tell(milestone(history, found=listing(1000))).the(MilestoneVerified)


# --- Adoption ------------------------------------------------------------------------------------


def adopt(history: History, **changes: Any) -> AdoptInstance:
    fields: dict[str, Any] = {
        "now": history.now,
        "actor": DRI,
        "found": described(),
        "facts": clear(),
        **changes,
    }
    return AdoptInstance(**fields)


def test_an_adopted_job_is_marked_and_cleared_by_the_human_who_adopts_it() -> None:
    history = History().draft()
    answer = history.tell(adopt(history))
    answer.then_kinds(LaunchApproved, PreflightRecorded, LaunchRequested, InstanceLaunched)
    assert answer.the(InstanceLaunched).adopted
    assert answer.the(LaunchRequested).plan.submission_id == "launched-by-hand"
    history.take_watch().train(1000, found=KEPT)
    assert decided(history.fail(killed(), step=1100, found=KEPT)) == (Action.RELAUNCH, "R1")
    history.relaunch()


def test_an_adopted_job_of_a_dirty_tree_uses_the_consent_up_and_names_its_patch() -> None:
    history = History().draft(contract(**DIRTY)).record(consented_patch(START), actor=DRI)
    answer = history.tell(adopt(history, facts=dirty()))
    assert answer.the(ConsentUsed).consent == "c-1"
    assert (answer.the(InstanceLaunched).dirty, answer.the(InstanceLaunched).patch) == (True, PATCH)


def test_whoever_adopts_is_the_dri_where_none_is_named() -> None:
    history = History().draft(contract(dri=""))
    assert history.tell(adopt(history)).the(InstanceLaunched).dri == DRI.principal


def test_an_agent_adopts_nothing() -> None:
    history = History().draft()
    history.when(adopt(history, actor=AGENT)).refused(Refusal.NOT_A_HUMAN)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"command": (*plan().command, "--lr", "3")}, "--lr 3"),
        ({"job": job(metadata={"run": "another"})}, "metadata run"),
        ({"job": job(metadata={"tracker_id": "another"})}, "metadata tracker_id"),
        ({"job": job(metadata={"output_root": OTHER_ROOT})}, "metadata output_root"),
        ({"env": {"WANDB_RUN_ID": "another"}}, "env WANDB_RUN_ID"),
        ({"env": {"OUTPUT_ROOT": OTHER_ROOT}}, "env OUTPUT_ROOT"),
        ({"command": None}, "neither command nor metadata"),
    ],
)
def test_a_job_that_differs_is_refused_with_the_difference(changes: Any, says: str) -> None:
    history = History().draft()
    answer = history.when(adopt(history, found=described(**changes)))
    answer.refused(Refusal.JOB_DIFFERS, says)


def test_a_variable_of_the_contract_is_compared_without_telling_its_value() -> None:
    history = History().draft(contract(env={"LR": "3e-4"}))
    answer = history.when(adopt(history, found=described(env={"LR": "hush-hush-hush"})))
    answer.refused(Refusal.JOB_DIFFERS, "env LR")
    assert "hush" not in str(answer.outcome)


@pytest.mark.parametrize(
    "changes",
    [
        {"job": job(metadata={"run": SLUG, "output_root": ROOT + "/"})},
        {"env": {"WANDB_RUN_ID": SLUG, "WANDB_API_KEY": "secret", "OUTPUT_PATH": ROOT}},
        {"env": None},
    ],
)
def test_what_agrees_or_is_not_told_is_no_difference(changes: Any) -> None:
    history = History().draft()
    history.when(adopt(history, found=described(**changes))).the(InstanceLaunched)


@pytest.mark.parametrize(
    "state", [s for s in JobState if s not in (JobState.RUNNING, JobState.PENDING)]
)
def test_only_a_live_job_is_adopted(state: JobState) -> None:
    history = History().draft()
    answer = history.when(adopt(history, found=described(job=job(state))))
    answer.refused(Refusal.JOB_NOT_LIVE)
    assert "launch a new" not in answer.sentence
    assert "`local` adopts only" in answer.sentence


def test_a_refused_adoption_names_who_writes_into_the_output_root() -> None:
    history = History().draft()
    written = StoreFacts(written=f"{ROOT}/metrics.jsonl", written_at=history.now)
    for found in (
        described(job=job(JobState.NOT_FOUND)),
        described(command=("python", "other.py")),
    ):
        answer = history.when(adopt(history, found=found, facts=clear(store=written)))
        assert f"{ROOT}/metrics.jsonl was written 0 s ago" in answer.sentence


def test_a_blocked_gate_adopts_nothing() -> None:
    history = History().draft()
    held = clear(root_held_by="other i1")
    answer = history.when(adopt(history, facts=held))
    answer.refused(Refusal.ADOPTION_BLOCKED, "L3")
    assert "launch again" not in answer.sentence


def test_a_final_checkpoint_of_a_rejected_lineage_seals_nothing() -> None:
    history = story(Running)
    history.train(5150, found=listing(900, 1000, 5155))
    history.tell(rollback(history))
    history.tell(approval(history))
    history.fail(STOPPED, step=5155, found=listing(900, 1000, 5155))
    history.relaunch()
    history.fail(succeeded(), step=5154, found=listing(900))
    facts = sealable(history.now, instance="i2")
    answer = history.when(VerifySeal(now=history.now, actor=LOOP, facts=facts))
    assert any("rejected" in name for name in answer.the(SealBlocked).missing)
