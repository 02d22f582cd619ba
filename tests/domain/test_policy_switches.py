"""What the switches of a contract change in what is decided: memory, approvals, budget, owner."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from tests.domain.given import History, decided
from tests.domain.samples import DRI, KEPT, check_of, contract, exited, job, killed, node_lost
from tests.every_row import every_row
from watchkeeper.domain.reading.triage.classify import classify
from watchkeeper.domain.reading.triage.memory import OUT_OF_MEMORY
from watchkeeper.domain.rules.operator.commands import AnswerQuestion, RequestRelaunch
from watchkeeper.domain.rules.shared.refusals import Refusal
from watchkeeper.domain.run.ends import Action, DecisionMade, FailureClassified
from watchkeeper.domain.run.launch import LaunchRequested
from watchkeeper.domain.run.questions import EscalationRaised
from watchkeeper.domain.run.run import contract_of
from watchkeeper.domain.values.basic import JobFacts, JobState
from watchkeeper.domain.values.causes import Outlook

CUDA = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 48.20 GiB."
XLA = (
    "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: XLA:TPU compile permanent error. "
    "Ran out of memory in memory space hbm. Used 22.10G of 15.48G hbm."
)
CGROUP = "slurmstepd: error: Detected 1 oom-kill event(s) in step 1007.batch cgroup."


def _traced(error: str) -> tuple[str, ...]:
    return ("Traceback (most recent call last):", error)


def _running(**changes: Any) -> History:
    history = History().launch(contract(**changes))
    return history.train(1000, wait=timedelta(minutes=2), found=KEPT)


def _memory_ends(history: History, step: int, error: str = CUDA) -> tuple[Action, str]:
    answer = history.fail(exited(1), step=step, found=KEPT, lines=_traced(error))
    assert answer.the(FailureClassified).cause in OUT_OF_MEMORY
    return decided(answer)


# --- Which ends are known to be for want of memory ------------------------------------------------


@every_row(
    ("said", "lines", "cause"),
    [
        (exited(1), _traced(CUDA), "hbm_oom"),
        (exited(1), _traced(XLA), "hbm_oom"),
        (
            exited(1),
            _traced("RuntimeError: RESOURCE_EXHAUSTED: Attempting to allocate 1.52G."),
            "hbm_oom",
        ),
        (exited(1), _traced("MemoryError"), "host_oom"),
        (exited(1), _traced("ray.exceptions.OutOfMemoryError: Task was killed"), "host_oom"),
        (job(JobState.FAILED, error_type="OOMKilled"), (), "host_oom"),
        (job(JobState.FAILED, message="the pod was OOM-killed"), (), "host_oom"),
        (
            job(JobState.FAILED, message="Task was killed due to the node running low on memory."),
            (),
            "host_oom",
        ),
        (killed(9), (CGROUP,), "host_oom"),
        # No witness: a number, a line about somebody else, a stock-out, a name that sounds so.
        (killed(9), (), "unknown"),
        (exited(137), (), "unknown"),
        (exited(1), (CGROUP,), "unknown"),
        (killed(9), ("1997", "Killed"), "unknown"),
        (exited(1), _traced("RuntimeError: RESOURCE_EXHAUSTED: no capacity in zone"), "unknown"),
        (exited(1), _traced("ValueError: boom in eval/oom_error"), "unknown"),
        (node_lost(), (CGROUP,), "node_failure"),
        (node_lost(), _traced(CUDA), "node_failure"),
    ],
)
def test_memory_is_the_cause_only_where_a_witness_names_it(
    said: JobFacts, lines: tuple[str, ...], cause: str
) -> None:
    traceback = bool(lines) and lines[0].startswith("Traceback")
    found = classify(said, check_of(job=said, evidence=lines, traceback=traceback))
    assert found.cause == cause
    if cause in OUT_OF_MEMORY:
        assert found.outlook is Outlook.ASK


# --- policy.oom -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "first", "second"),
    [
        ({}, (Action.ESCALATE, "R6"), None),
        ({"lane": "hero"}, (Action.ESCALATE, "R6"), None),
        ({"lane": "daily"}, (Action.RELAUNCH, "R1"), (Action.ESCALATE, "R12")),
        (
            {"policy": {"oom": "one_bounded_fix"}},
            (Action.RELAUNCH, "R1"),
            (Action.ESCALATE, "R12"),
        ),
        ({"lane": "daily", "policy": {"oom": "ask"}}, (Action.ESCALATE, "R6"), None),
    ],
)
def test_out_of_memory_is_asked_about_at_once_or_after_one_attempt(
    changes: dict[str, Any], first: tuple[Action, str], second: tuple[Action, str] | None
) -> None:
    history = _running(**changes)
    assert _memory_ends(history, 1100) == first
    if second is not None:
        # Another kind of it, far past the first: it is the same want of memory.
        history.relaunch()
        assert _memory_ends(history, 4000, "MemoryError") == second


def test_the_one_attempt_changes_nothing_and_says_so() -> None:
    history = _running(policy={"oom": "one_bounded_fix"})
    before = history.run.instances[-1].plan
    answer = history.fail(exited(1), step=1100, found=KEPT, lines=_traced(CUDA))
    decision = answer.the(DecisionMade)
    assert "policy.oom allows one attempt" in decision.because
    assert "with nothing changed" in decision.recoverable
    assert history.relaunch().run.instances[-1].plan.base_command == before.base_command


@pytest.mark.parametrize(
    ("changes", "rule"),
    [({"retries": {"budget": 0}}, "R3"), ({"tracker": {"resume": "never"}}, "R11")],
)
def test_the_one_attempt_is_still_held_by_budget_and_resume_policy(
    changes: dict[str, Any], rule: str
) -> None:
    history = _running(policy={"oom": "one_bounded_fix"}, **changes)
    assert _memory_ends(history, 1100) == (Action.ESCALATE, rule)


# --- policy.approvals -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "decision"),
    [
        ({}, (Action.RELAUNCH, "R1")),
        ({"approvals": "standing"}, (Action.RELAUNCH, "R1")),
        ({"approvals": "each"}, (Action.ESCALATE, "R19")),
    ],
)
def test_a_contract_may_ask_for_an_approval_of_each_relaunch(
    policy: dict[str, str], decision: tuple[Action, str]
) -> None:
    answer = _running(policy=policy).fail(node_lost(), step=1100, found=KEPT)
    assert decided(answer) == decision


def test_a_relaunch_that_needs_an_approval_waits_for_a_humans_answer() -> None:
    history = _running(policy={"approvals": "each"})
    answer = history.fail(node_lost(), step=1100, found=KEPT)
    question = answer.the(EscalationRaised)
    assert "policy.approvals is each" in question.asks
    assert "step-1000" in question.asks
    history.when(history.relaunch_command()).refused(Refusal.NO_RELAUNCH_DECIDED)
    ack = AnswerQuestion(
        now=history.now, actor=DRI, question=question.question, answer="relaunch", note="go on"
    )
    assert decided(history.tell(ack)) == (Action.RELAUNCH, "R19")
    assert history.relaunch().run.instances[-1].plan.resume_step == 1000


def test_a_relaunch_that_was_decided_by_rule_is_not_covered_where_each_needs_an_approval() -> None:
    # Recorded by hand: the gate holds what the rules would not decide today.
    standing = _running()
    decision = standing.fail(node_lost(), step=1100, found=KEPT).the(DecisionMade)
    history = _running(policy={"approvals": "each"})
    history.fail(node_lost(), step=1100, found=KEPT)
    history.record(decision)
    answer = history.when(history.relaunch_command())
    answer.without(LaunchRequested)
    assert "L11" in answer.the(DecisionMade).because


# --- The restart budget ---------------------------------------------------------------------------


def _asked(history: History) -> None:
    history.tell(RequestRelaunch(now=history.now, actor=DRI, reason="a faster data loader"))
    answer = history.fail(killed(15), step=1100, found=KEPT)
    assert decided(answer) == (Action.RELAUNCH, "R18")
    history.relaunch()


def _lost(history: History, step: int) -> tuple[Action, str]:
    return decided(history.fail(node_lost(), step=step, found=KEPT))


def test_relaunches_that_a_human_asked_for_leave_the_restart_budget_as_it_is() -> None:
    history = _running(retries={"budget": 1})
    _asked(history)
    _asked(history)
    assert (len(history.run.launch.relaunch_times), len(history.run.ends.restarts)) == (2, 0)
    assert _lost(history, 2000) == (Action.RELAUNCH, "R1")
    history.relaunch()
    assert (len(history.run.launch.relaunch_times), len(history.run.ends.restarts)) == (3, 1)
    assert _lost(history, 4000) == (Action.ESCALATE, "R3")


def test_a_relaunch_in_answer_to_a_question_is_no_restart_by_rule() -> None:
    history = _running(retries={"budget": 1})
    assert _lost(history, 1100) == (Action.RELAUNCH, "R1")
    history.relaunch()
    answer = history.fail(node_lost(), step=3000, found=KEPT)
    assert decided(answer) == (Action.ESCALATE, "R3")
    asked = answer.the(EscalationRaised).question
    history.tell(AnswerQuestion(now=history.now, actor=DRI, question=asked, answer="relaunch"))
    history.relaunch()
    assert len(history.run.ends.restarts) == 1
    # The window is over: the one restart of it counts no more, and the answered one never did.
    history.later(timedelta(hours=25)).check(step=4000, found=KEPT)
    assert _lost(history, 4800) == (Action.RELAUNCH, "R1")


# --- Who retries ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("owner", "left", "decision"),
    [
        ("watchkeeper", None, (Action.RELAUNCH, "R1")),
        ("watchkeeper", 0, (Action.RELAUNCH, "R1")),
        ("orchestrator", 2, (Action.WAIT, "R13")),
        ("orchestrator", 0, (Action.ESCALATE, "R19")),
        ("orchestrator", None, (Action.ESCALATE, "R19")),
        (None, None, (Action.ESCALATE, "R19")),
    ],
)
def test_only_the_named_owner_of_retries_relaunches(
    owner: str | None, left: int | None, decision: tuple[Action, str]
) -> None:
    # The gate blocks an owner that cannot retry (L15), so the story is told around it.
    history = _running()
    retries = history.promised.retries.model_copy(update={"owner": owner})
    history.run = replace(
        history.run, contract=contract_of(history.run).model_copy(update={"retries": retries})
    )
    answer = history.fail(node_lost(attempts_left=left), step=1100, found=KEPT)
    assert decided(answer) == decision
    if owner is None:
        assert "nobody is named" in answer.the(DecisionMade).because
