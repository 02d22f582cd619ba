"""From a contract to an instance: gate, approval, request, confirmation, relaunch."""

from typing import Any

import pytest

from tests.domain.given import Answer, History
from tests.domain.samples import (
    AGENT,
    DRI,
    LOOP,
    OTHER_SHA,
    SLUG,
    checkpoint,
    clear,
    clear_for,
    contract,
    down,
    fresh,
    half_written,
    killed,
    listing,
    node_lost,
)
from tests.domain.stories import story
from watchkeeper.domain.rules.launch.commands import (
    AmendContract,
    ApproveLaunch,
    ConfirmLaunched,
    ReportRefusedLaunch,
    RequestLaunch,
)
from watchkeeper.domain.rules.launch.gate.gate import blocks
from watchkeeper.domain.rules.operator.commands import AnswerQuestion
from watchkeeper.domain.rules.shared.refusals import Refusal, Refused
from watchkeeper.domain.run.ends import Action, DecisionMade
from watchkeeper.domain.run.launch import (
    ContractAmended,
    InstanceLaunched,
    LaunchApproved,
    LaunchRefused,
    LaunchRequested,
    PreflightRecorded,
)
from watchkeeper.domain.run.phases import (
    Cleared,
    Draft,
    Interrupted,
    Launching,
    Running,
    Stabilizing,
)
from watchkeeper.domain.run.questions import EscalationRaised
from watchkeeper.domain.values.observation.observation import GateFacts


def approve(history: History, digest: str | None = None, actor: Any = DRI) -> Answer:
    assert history.run.launch.preflight is not None
    named = history.run.launch.preflight.digest if digest is None else digest
    return history.when(ApproveLaunch(now=history.now, actor=actor, digest=named, note="go"))


def amend(history: History, **changes: Any) -> AmendContract:
    return AmendContract(now=history.now, actor=DRI, contract=contract(**changes))


# --- Gate and approval ---------------------------------------------------------------------------


def test_a_launch_without_approval_records_its_preflight_and_nothing_else() -> None:
    history = story(Draft)
    answer = history.tell(history.launch_command())
    answer.then_kinds(PreflightRecorded)
    assert [f.rule for f in blocks(answer.the(PreflightRecorded).findings)] == ["L11"]


def test_the_same_blocks_again_add_nothing_to_the_history() -> None:
    history = story(Draft)
    history.tell(history.launch_command())
    history.tell(history.launch_command()).then()
    history.tell(history.launch_command(clear(root_held_by="x i1"))).then_kinds(PreflightRecorded)


def test_a_human_s_approval_clears_the_plan_that_was_checked() -> None:
    history = story(Draft)
    checked = history.tell(history.launch_command()).the(PreflightRecorded)
    approved = approve(history).the(LaunchApproved)
    assert (approved.approval, approved.digest, approved.note) == ("a-1", checked.digest, "go")
    history.record(approved, actor=DRI)
    assert isinstance(history.run.phase, Cleared)
    assert history.run.permits.approvals[0].by == "dri"


@pytest.mark.parametrize("actor", [AGENT, LOOP])
def test_only_a_human_approves(actor: Any) -> None:
    history = story(Draft)
    history.tell(history.launch_command())
    approve(history, actor=actor).refused(Refusal.NOT_A_HUMAN, actor.principal)


@pytest.mark.parametrize(("digits", "taken"), [(11, False), (12, True), (64, True)])
def test_a_plan_is_named_by_all_twelve_digits_that_are_shown(digits: int, taken: bool) -> None:
    history = story(Draft)
    digest = history.tell(history.launch_command()).the(PreflightRecorded).digest
    answer = approve(history, digest[:digits])
    if taken:
        answer.then_kinds(LaunchApproved)
    else:
        answer.refused(Refusal.PLAN_UNKNOWN)


def test_an_agent_is_never_pointed_at_acting_as_somebody_else() -> None:
    assert "--as" not in Refusal.NOT_A_HUMAN.value


def test_another_plan_than_the_one_checked_is_not_approved() -> None:
    history = story(Draft)
    nothing = ApproveLaunch(now=history.now, actor=DRI, digest="0" * 12)
    history.when(nothing).refused(Refusal.PLAN_UNKNOWN)
    history.tell(history.launch_command())
    waits = history.run.launch.preflight
    assert waits is not None
    wanted = f"`watchkeeper approve {SLUG} --plan {waits.digest[:12]}`"
    approve(history, "0" * 12).refused(Refusal.PLAN_UNKNOWN, wanted)


def test_an_approval_does_not_lift_other_blocks() -> None:
    history = History().draft(contract(watch={"holder": ""}, final_step={"source": ""}))
    history.tell(history.launch_command())
    approve(history).refused(Refusal.PLAN_BLOCKED, "L7, L13")


def test_an_approved_plan_is_not_approved_twice() -> None:
    approve(story(Cleared)).refused(Refusal.ALREADY_CLEARED)


def test_a_cleared_run_that_is_launched_from_another_home_needs_its_own_approval() -> None:
    history = story(Cleared)
    elsewhere = RequestLaunch(
        now=history.now, actor=DRI, submission_id=f"{SLUG}-i1-elsewhere", facts=clear()
    )
    history.tell(elsewhere).then_kinds(PreflightRecorded)
    approved = approve(history).the(LaunchApproved)
    assert approved.approval == "a-2"
    history.record(approved, actor=DRI)
    assert history.tell(elsewhere).the(LaunchRequested).approval == "a-2"


# --- Amendment -----------------------------------------------------------------------------------


def test_an_amendment_voids_what_was_cleared() -> None:
    history = story(Cleared)
    answer = history.tell(amend(history, final_step={"value": 6000}))
    amended = contract(final_step={"value": 6000})
    answer.then(ContractAmended(contract=amended, changed=("final_step.value",)))
    assert isinstance(history.run.phase, Draft)
    history.tell(history.launch_command()).then_kinds(PreflightRecorded)


def test_the_same_contract_again_changes_nothing() -> None:
    history = story(Cleared)
    history.tell(amend(history)).then()
    assert isinstance(history.run.phase, Cleared)


def test_an_approval_s_name_is_never_used_again() -> None:
    history = story(Cleared)
    for value, name in ((6000, "a-2"), (7000, "a-3")):
        history.tell(amend(history, final_step={"value": value}))
        history.tell(history.launch_command())
        approved = approve(history).the(LaunchApproved)
        assert approved.approval == name
        history.record(approved, actor=DRI)


def test_an_amendment_that_the_plan_does_not_show_voids_the_approval_too() -> None:
    history = story(Cleared)
    history.tell(amend(history, retries={"budget": 100}))
    answer = history.tell(history.launch_command())
    answer.then_kinds(PreflightRecorded)
    assert [f.rule for f in blocks(answer.the(PreflightRecorded).findings)] == ["L11"]


# --- Request and confirmation --------------------------------------------------------------------


def test_a_request_cites_its_approval_and_the_preflight_it_rests_on() -> None:
    history = story(Cleared)
    version = history.run.version
    answer = history.tell(history.launch_command())
    answer.then_kinds(PreflightRecorded, LaunchRequested)
    requested = answer.the(LaunchRequested)
    assert (requested.approval, requested.reason) == ("a-1", "launch")
    assert history.events[requested.preflight - 1].data == answer.the(PreflightRecorded)
    assert requested.preflight == version + 1
    assert requested.plan == answer.the(PreflightRecorded).plan


@pytest.mark.parametrize(
    ("facts", "rule"),
    [
        (clear(env_missing=("WANDB_API_KEY",)), "L1"),
        (clear(root_held_by="other i1"), "L3"),
    ],
)
def test_a_cleared_plan_is_held_against_the_gate_again_at_launch(
    facts: GateFacts, rule: str
) -> None:
    history = story(Cleared)
    answer = history.tell(history.launch_command(facts))
    answer.then_kinds(PreflightRecorded)
    assert [f.rule for f in blocks(answer.the(PreflightRecorded).findings)] == [rule]


def test_a_first_instance_starts_from_the_checkpoint_of_its_contract() -> None:
    source = "gs://example-us-central2/grug/earlier/checkpoints/step-2900"
    promised = contract(initialize_from=f"{source}/")
    facts = clear_for(2900, source=checkpoint(2900, path=source))
    history = History().draft(promised).approve(facts).request(facts)
    plan = history.run.instances[0].plan
    assert (plan.resume_from, plan.resume_step) == (source, 2900)


def test_a_confirmed_launch_says_everything_that_identifies_it() -> None:
    history = story(Launching)
    command = ConfirmLaunched(now=history.now, actor=LOOP, instance="i1", launched_at=history.now)
    launched = history.tell(command).the(InstanceLaunched)
    assert launched.submission_id == f"{SLUG}-i1-home"
    assert launched.dri == "dri"
    assert launched.command == contract().command
    assert launched.tracker_id == SLUG
    assert (launched.hardware, launched.topology) == ("v5p-1024", "1 slice")
    assert launched.checkpoint_policy == (
        "permanent every 1000 steps, temporary every 15 min, keep 10"
    )
    assert launched.watch_holder == "watchkeeper"
    assert isinstance(history.run.phase, Stabilizing)


def test_a_script_is_named_when_the_command_shows_one() -> None:
    history = History().launch(contract(command=("python", "experiments/grug.py", "--steps", "5")))
    launched = [e.data for e in history.events if isinstance(e.data, InstanceLaunched)]
    assert [event.script for event in launched] == ["experiments/grug.py"]


@pytest.mark.parametrize("kind", [ConfirmLaunched, ReportRefusedLaunch])
def test_only_the_instance_that_is_being_launched_is_confirmed_or_refused(kind: type) -> None:
    history = story(Launching)
    common: dict[str, Any] = {"now": history.now, "actor": LOOP, "instance": "i7"}
    extra: dict[str, Any] = (
        {"launched_at": history.now} if kind is ConfirmLaunched else {"reason": "no"}
    )
    history.when(kind(**common, **extra)).refused(Refusal.WRONG_INSTANCE, "i7")


def test_a_launch_that_is_definitely_refused_is_asked_about() -> None:
    history = story(Launching)
    command = ReportRefusedLaunch(
        now=history.now, actor=LOOP, instance="i1", reason="no such variable: WANDB_API_KEY"
    )
    answer = history.tell(command)
    answer.then_kinds(LaunchRefused, DecisionMade, EscalationRaised)
    decision = answer.the(DecisionMade)
    assert (decision.action, decision.rule) == (Action.ESCALATE, "R19")
    assert decision.evidence == ("no such variable: WANDB_API_KEY",)
    assert history.decision == decision


# --- Relaunch (R18) ------------------------------------------------------------------------------


def test_r18_a_live_instance_is_never_relaunched() -> None:
    history = story(Interrupted)
    command = history.relaunch_command()
    history.tell(command)
    history.when(command).refused(Refusal.STILL_LAUNCHING)
    history.confirm().when(command).refused(Refusal.STILL_LIVE)


def test_r18_a_relaunch_records_why_the_failure_was_recoverable() -> None:
    history = story(Interrupted)
    assert history.decision is not None
    assert "ended without a traceback" in history.decision.recoverable
    assert history.decision.proves


def test_a_relaunch_without_a_decision_for_one_is_refused() -> None:
    history = story(Stabilizing)
    history.fail(killed(), found=listing())  # R10: nothing to resume from.
    history.when(history.relaunch_command()).refused(Refusal.NO_RELAUNCH_DECIDED)


def test_a_relaunch_appends_the_checkpoint_to_the_command_when_the_contract_names_an_option() -> (
    None
):
    history = story(Interrupted, contract(resume={"argument": "--initialize-from"}))
    plan = history.tell(history.relaunch_command()).the(LaunchRequested).plan
    assert plan.command == (*plan.base_command, "--initialize-from", plan.resume_from)


@pytest.mark.parametrize("source", [None, half_written(1000)])
def test_r10_a_decided_checkpoint_that_is_gone_is_asked_about(source: Any) -> None:
    history = story(Interrupted)
    facts = clear(source=source, source_reading=fresh("checkpoints"))
    answer = history.tell(history.relaunch_command(facts))
    answer.then_kinds(DecisionMade, EscalationRaised)
    assert answer.the(DecisionMade).rule == "R10"
    history.when(history.relaunch_command(facts)).refused(Refusal.NO_RELAUNCH_DECIDED)


def test_r10_a_decided_checkpoint_that_a_later_check_rejected_is_asked_about() -> None:
    history = story(Interrupted)
    history.check(killed(), found=listing(checkpoint(1000, metadata_step=990)))
    assert history.run.checkpoints.rejected
    assert history.decision is not None
    assert history.decision.action is Action.RELAUNCH
    answer = history.tell(history.relaunch_command())
    answer.then_kinds(DecisionMade, EscalationRaised)
    assert answer.the(DecisionMade).rule == "R10"
    assert "was rejected since: " in answer.the(DecisionMade).because


@pytest.mark.parametrize(
    "facts",
    [
        clear(source_reading=down("checkpoints")),
        clear(source=checkpoint(1000), source_reading=down("checkpoints")),
    ],
)
def test_a_relaunch_waits_while_the_store_gives_no_answer(facts: GateFacts) -> None:
    history = story(Interrupted)
    decision = history.decision
    history.tell(history.relaunch_command(facts)).then()
    assert history.decision == decision
    history.tell(history.relaunch_command()).the(LaunchRequested)


BLOCKING = clear_for(1000, root_held_by="other-run i1")


def test_a_relaunch_that_the_gate_blocks_is_asked_about() -> None:
    history = story(Interrupted)
    answer = history.tell(history.relaunch_command(BLOCKING))
    answer.then_kinds(PreflightRecorded, DecisionMade, EscalationRaised)
    decision = answer.the(DecisionMade)
    assert (decision.action, decision.rule) == (Action.ESCALATE, "R19")
    assert "L3" in decision.because
    assert decision.evidence


def test_a_relaunch_that_is_blocked_the_same_way_again_is_asked_about_again() -> None:
    history = story(Interrupted)
    history.tell(history.relaunch_command(BLOCKING))
    history.tell(AnswerQuestion(now=history.now, actor=DRI, question="q-1", answer="relaunch"))
    answer = history.tell(history.relaunch_command(BLOCKING))
    answer.then_kinds(DecisionMade, EscalationRaised)
    assert answer.the(EscalationRaised).question == "q-2"


def test_a_relaunch_whose_metadata_changed_since_is_asked_about() -> None:
    history = story(Interrupted)
    facts = clear_for(1000, source=checkpoint(1000, metadata_step=990))
    decision = history.tell(history.relaunch_command(facts)).the(DecisionMade)
    assert (decision.action, decision.rule) == (Action.ESCALATE, "R19")
    assert "L6" in decision.because


def test_an_approval_covers_every_relaunch_of_its_identity() -> None:
    history = story(Interrupted).relaunch()
    history.fail(node_lost(), step=1500, found=listing(900, 1000, 1500))
    history.relaunch()
    requests = [e.data for e in history.events if isinstance(e.data, LaunchRequested)]
    assert [(r.plan.instance, r.approval, r.reason) for r in requests] == [
        ("i1", "a-1", "launch"),
        ("i2", "a-1", "R1"),
        ("i3", "a-1", "R1"),
    ]


def test_nothing_about_a_launched_run_can_be_amended() -> None:
    history = story(Interrupted)
    answer = history.when(amend(history, code={"git_sha": OTHER_SHA}))
    answer.refused(Refusal.CONTRACT_FIXED)
    assert isinstance(answer.outcome, Refused)
    for step in ("watchkeeper run supersede", "watchkeeper relaunch"):
        assert step in answer.outcome.sentence


@pytest.mark.parametrize(
    "changes",
    [
        {"watch": {"cadence": "5m"}},
        {"stopping": {"step": 3000}},
        {"dri": "another"},
        {"retries": {"budget": 9}},
        {"policy": {"oom": "one_bounded_fix"}},
    ],
)
def test_not_even_its_watch_is_amended_while_a_run_lives(changes: dict[str, Any]) -> None:
    history = story(Running)
    history.when(amend(history, **changes)).refused(Refusal.CONTRACT_FIXED)
