"""R4 to R8, R11, R12, R14, R16: what follows from a cause; what makes it decide, what does not."""

import re
from datetime import timedelta
from typing import Any

import pytest

from tests.domain.auditor import audit
from tests.domain.ends import ends_as
from tests.domain.given import Answer, History, decided
from tests.domain.samples import (
    AGENT,
    DRI,
    KEPT,
    NAME_ERROR,
    OTHER_SHA,
    SLUG,
    contract,
    exited,
    fresh,
    node_lost,
)
from tests.domain.stories import story
from tests.every_row import every_row
from watchkeeper.domain.reading.named_places import bad_nodes
from watchkeeper.domain.rules.ends.commands import ReportFix
from watchkeeper.domain.rules.operator.commands import AnnounceAct, AnswerQuestion, RequestRelaunch
from watchkeeper.domain.rules.permits.commands import GiveConsent
from watchkeeper.domain.run.ends import Action, DecisionMade, FixPushed
from watchkeeper.domain.run.launch import LaunchRequested
from watchkeeper.domain.run.operator import ActKind
from watchkeeper.domain.run.permits import ActProposed, ConsentUsed
from watchkeeper.domain.run.phases import Interrupted, Running
from watchkeeper.domain.run.questions import EscalationRaised
from watchkeeper.domain.run.watch import CheckRecorded
from watchkeeper.domain.values.causes import Outlook
from watchkeeper.domain.values.contract.plan import Verdict
from watchkeeper.domain.values.observation.gate_facts import RepositoryFacts
from watchkeeper.domain.values.observation.sources import AttemptFacts, AttemptState

HOUR = timedelta(hours=1)
KEEP: dict[str, Any] = {"step": 1100, "found": KEPT}
ACCELERATOR = "(pid=411, ip={0}) RuntimeError: No accelerator found. Please run on a TPU or GPU."
FULL = "OSError: [Errno 28] No space left on device: '/tmp/ray/spill' (node_ip=10.128.0.7)"


def running(**changes: Any) -> History:
    return History().launch(contract(**changes)).train(1000, found=KEPT)


def pause(history: History) -> None:
    history.tell(
        AnnounceAct(
            now=history.now,
            actor=DRI,
            kind=ActKind.PAUSE,
            starts_at=history.now,
            ends_at=history.now + HOUR,
            expects=("H3",),
            reason="a switch is replaced",
        )
    )


def traced(kind: str, file: str, code: str = "x = y", error: str = "") -> tuple[str, ...]:
    return (
        "Traceback (most recent call last):",
        f'  File "{file}", line 88, in report',
        f"    {code}",
        f"{kind}: {error or 'no'}",
    )


# --- R4: the numbers went wrong -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cause", "findings", "expected"),
    [
        ("numerical_instability", (), (Action.ESCALATE, "R4")),
        ("numerical_instability", ("H4",), (Action.ESCALATE, "R4")),
        ("node_failure", ("H7",), (Action.ESCALATE, "R4")),
        ("preemption", ("H8",), (Action.ESCALATE, "R4")),
        ("unknown", ("H7", "H8"), (Action.ESCALATE, "R4")),
        ("node_failure", ("H9",), (Action.RELAUNCH, "R1")),
        ("node_failure", ("H4", "H16"), (Action.RELAUNCH, "R1")),
        ("node_failure", (), (Action.RELAUNCH, "R1")),
    ],
)
def test_r4_never_relaunches_wrong_numbers_as_infrastructure(
    cause: str, findings: tuple[str, ...], expected: tuple[Action, str]
) -> None:
    outlook = Outlook.RETRY if cause != "unknown" else Outlook.RETRY_ONCE
    answer = ends_as(story(Running), cause, outlook, findings=findings, **KEEP)
    assert decided(answer) == expected


def test_r4_is_asked_about_in_a_planned_pause_and_without_the_store_too() -> None:
    history = story(Running)
    pause(history)
    answer = ends_as(history, "numerical_instability", step=1100, without=("checkpoints",))
    assert decided(answer) == (Action.ESCALATE, "R4")
    assert "watchkeeper run rollback" in answer.the(EscalationRaised).asks


# --- R5 and R12: a small bug, its fix, and the same error after it --------------------------------


@every_row(
    ("lines", "rule"),
    [
        (NAME_ERROR, "R5"),
        (traced("ImportError", "src/grug/report.py", error="cannot import name 'x'"), "R5"),
        (traced("ModuleNotFoundError", "src/grug/report.py"), "R5"),
        (traced("KeyError", "src/grug/report.py", 'seen["loss"]', "'loss'"), "R5"),
        (('  File "src/grug/report.py", line 3', "    x = (", "SyntaxError: '(' was"), "R5"),
        # A key that the line does not name, and errors that are no small bugs.
        (traced("KeyError", "src/grug/report.py", "seen[name]", "'loss'"), "R6"),
        (traced("ValueError", "src/grug/report.py"), "R6"),
        (traced("AssertionError", "src/grug/report.py"), "R6"),
        # Code that trains, and code that is not the run's own.
        (traced("NameError", "/app/src/grug/optimizer.py"), "R6"),
        (traced("NameError", "/app/src/grug/models/report.py"), "R6"),
        (traced("KeyError", "/app/src/grug/data/report.py", 'row["text"]', "'text'"), "R6"),
        (traced("NameError", "/app/src/grug/train_loop.py"), "R6"),
        (traced("NameError", "/usr/lib/python3.11/site-packages/foo/report.py"), "R6"),
    ],
)
def test_r5_proposes_a_fix_only_of_small_bugs_outside_of_what_trains(
    lines: tuple[str, ...], rule: str
) -> None:
    answer = ends_as(story(Running), "code_bug", lines=lines, **KEEP)
    assert decided(answer) == (Action.ESCALATE, rule)
    assert answer.the(DecisionMade).guarded == ""


def test_r5_names_file_and_line_and_the_command_and_applies_nothing() -> None:
    answer = ends_as(story(Running), "code_bug", lines=NAME_ERROR, **KEEP)
    decision = answer.the(DecisionMade)
    assert "/app/src/grug/report.py:88: NameError: name 'sumarise'" in decision.because
    assert "`summary = sumarise(step)`" in decision.proposes
    assert f"`watchkeeper run fix {SLUG} --sha SHA" in answer.the(EscalationRaised).asks


@pytest.mark.parametrize(
    ("recover", "rule"),
    [
        ({"trajectory": ("report*",)}, "R6"),
        ({"trajectory": ("src/grug/*",)}, "R6"),
        ({"trajectory": ("report*",), "harmless": ("*/grug/report.py",)}, "R5"),
    ],
)
def test_r5_reads_the_contract_s_own_paths_first(recover: dict[str, Any], rule: str) -> None:
    answer = ends_as(running(recover=recover), "code_bug", lines=NAME_ERROR, **KEEP)
    assert decided(answer) == (Action.ESCALATE, rule)


def fix(history: History, sha: str = OTHER_SHA, **changes: Any) -> ReportFix:
    fields: dict[str, Any] = {
        "now": history.now,
        "actor": AGENT,
        "git_sha": sha,
        "reason": "the function is called summarise",
        "repository": RepositoryFacts(commit_found=True, on_branch=True),
        "changed": ("README.md", "src/grug/report.py", "tests/test_report.py"),
        "reading": fresh("git"),
        **changes,
    }
    return ReportFix(**fields)


def mended(**changes: Any) -> History:
    """A small bug ended it, and a fix of an agent is launched."""
    history = running(**changes)
    ends_as(history, "code_bug", fingerprint="b" * 8, lines=NAME_ERROR, **KEEP)
    history.tell(fix(history))
    return history.relaunch()


def test_r5_goes_on_at_the_commit_of_a_pushed_fix_under_the_same_approval() -> None:
    history = running()
    ends_as(history, "code_bug", lines=NAME_ERROR, **KEEP)
    answer = history.tell(fix(history))
    fixed = answer.the(FixPushed)
    # What the contract ignores for L2 is no part of it.
    assert (fixed.changed, fixed.approval) == (("src/grug/report.py",), "a-1")
    assert decided(answer) == (Action.RELAUNCH, "R5")
    launched = history.tell(history.relaunch_command())
    requested = launched.the(LaunchRequested)
    assert (requested.plan.git_sha, requested.approval) == (OTHER_SHA, "a-1")
    assert requested.reason == "R5"
    assert audit(history.events) == []


def test_the_gate_rules_the_commit_of_a_fix_not_material_and_any_other_material() -> None:
    history = running()
    ends_as(history, "code_bug", lines=NAME_ERROR, **KEEP)
    history.tell(fix(history))
    history.tell(history.relaunch_command()).the(LaunchRequested)
    assert history.run.launch.preflight is not None
    [l14] = [f for f in history.run.launch.preflight.findings if f.rule == "L14"]
    assert l14.verdict is Verdict.PASS
    assert [(d.key, d.about) for d in l14.differs] == [("plan.git_sha", "")]


def test_what_follows_a_fix_is_relaunched_at_its_commit_under_the_same_approval() -> None:
    history = mended()
    history.fail(node_lost(), step=1300, found=KEPT)
    requested = history.tell(history.relaunch_command()).the(LaunchRequested)
    assert (requested.plan.git_sha, requested.approval, requested.reason) == (
        OTHER_SHA,
        "a-1",
        "R1",
    )


@pytest.mark.parametrize(
    ("lane", "fingerprint", "rule"),
    [
        ("ordinary", "b" * 8, "R12"),
        ("ordinary", "c" * 8, "R5"),
        ("daily", "c" * 8, "R12"),
        ("hero", "b" * 8, "R12"),
    ],
)
def test_r12_asks_where_the_same_error_comes_back_after_a_fix(
    lane: str, fingerprint: str, rule: str
) -> None:
    history = mended(lane=lane)
    again = ends_as(
        history, "code_bug", fingerprint=fingerprint, lines=NAME_ERROR, step=3000, found=KEPT
    )
    assert decided(again) == (Action.ESCALATE, rule)


def test_r12_says_nothing_where_no_fix_was_made() -> None:
    history = running()
    ends_as(history, "code_bug", lines=NAME_ERROR, **KEEP)
    history.tell(RequestRelaunch(now=history.now, actor=DRI, reason="as it is"))
    history.relaunch()
    again = ends_as(history, "code_bug", lines=NAME_ERROR, step=3000, found=KEPT)
    assert decided(again) == (Action.ESCALATE, "R5")


# --- R6, R8, R11, R14 -----------------------------------------------------------------------------


@every_row(
    ("cause", "outlook", "expected"),
    [
        ("data_error", None, (Action.ESCALATE, "R6")),
        ("collective_hang", Outlook.ASK, (Action.ESCALATE, "R6")),
        # A distributed failure is a human's, where the lane lets nothing be tried.
        ("collective_hang", None, (Action.ESCALATE, "R6")),
        ("hbm_oom", None, (Action.ESCALATE, "R6")),
        ("host_oom", None, (Action.ESCALATE, "R6")),
        ("config_error", None, (Action.ESCALATE, "R19")),
        ("wandb_error", None, (Action.ESCALATE, "R19")),
        # A signature may know that its own kind of a failure passes.
        ("wandb_error", Outlook.RETRY, (Action.RELAUNCH, "R1")),
        ("user_stopped", None, (Action.ESCALATE, "R14")),
        ("user_stopped", Outlook.RETRY, (Action.ESCALATE, "R14")),
        ("capacity_wedge", None, (Action.NOTIFY, "R8")),
        ("capacity_wedge", Outlook.RETRY, (Action.NOTIFY, "R8")),
    ],
)
def test_a_cause_is_answered_by_its_rule(
    cause: str, outlook: Outlook | None, expected: tuple[Action, str]
) -> None:
    assert decided(ends_as(story(Running), cause, outlook, **KEEP)) == expected


def test_r6_says_how_a_changed_trajectory_goes_on() -> None:
    answer = ends_as(story(Running), "data_error", **KEEP)
    assert f"`watchkeeper run supersede {SLUG} NEW-CONTRACT" in answer.the(EscalationRaised).asks


def test_r8_tells_and_asks_nothing_and_a_human_relaunches_when_there_is_capacity() -> None:
    history = story(Running)
    answer = ends_as(history, "capacity_wedge", **KEEP)
    answer.without(EscalationRaised)
    answer.without(ActProposed)
    assert "`watchkeeper relaunch" in answer.the(DecisionMade).proposes
    history.tell(RequestRelaunch(now=history.now, actor=DRI, reason="there is room again"))
    assert history.relaunch().run.instances[-1].plan.instance == "i2"


@pytest.mark.parametrize("cause", ["data_error", "capacity_wedge", "tpu_bad_node", "disk_full"])
def test_in_a_planned_pause_an_end_is_that_act_s_own(cause: str) -> None:
    history = story(Running)
    pause(history)
    assert decided(ends_as(history, cause, **KEEP)) == (Action.ESCALATE, "R14")


# --- R7: a bad TPU node ---------------------------------------------------------------------------


def bad_node(history: History, *nodes: str, step: int = 1100) -> Answer:
    lines = [ACCELERATOR.format(node) for node in nodes]
    return ends_as(
        history, "tpu_bad_node", nodes=nodes, lines=lines or ["no word"], step=step, found=KEPT
    )


def test_r7_names_the_node_and_proposes_its_deletion() -> None:
    history = story(Running)
    answer = bad_node(history, "10.128.0.7")
    assert decided(answer) == (Action.ESCALATE, "R7")
    proposed = answer.the(ActProposed)
    assert (proposed.action, proposed.target) == ("node_deletion", "10.128.0.7")
    asks = answer.the(EscalationRaised).asks
    assert f"`watchkeeper permit consent {SLUG} {proposed.proposal}`" in asks
    assert "delete the TPU VM 10.128.0.7 in " in asks
    assert "THE-VM" not in asks


def test_r7_reads_the_node_from_the_lines_of_the_end() -> None:
    history = story(Running)
    command = history.later(timedelta(minutes=5)).check_command(
        exited(1), lines=[*traced("RuntimeError", "a.py"), ACCELERATOR.format("10.128.0.9")], **KEEP
    )
    check = history.when(command).the(CheckRecorded)
    assert bad_nodes(check, ()) == ("10.128.0.9",)


@pytest.mark.parametrize(
    ("tried", "printed", "expected"),
    [
        # The log names by its address what the orchestrator names.
        (("tpu-7",), ("10.128.0.9",), ("tpu-7",)),
        (("tpu-7",), ("10.128.0.9", "10.128.0.10"), ("10.128.0.9", "10.128.0.10")),
        (("tpu-7", "tpu-8"), ("10.128.0.9",), ("tpu-7", "tpu-8")),
        (("10.128.0.7",), ("10.128.0.9",), ("10.128.0.7", "10.128.0.9")),
        (("tpu-7",), ("tpu-8",), ("tpu-7", "tpu-8")),
        ((), (), ()),
    ],
)
def test_a_node_that_is_named_by_its_name_and_its_address_is_one(
    tried: tuple[str, ...], printed: tuple[str, ...], expected: tuple[str, ...]
) -> None:
    failed = AttemptState.FAILED
    attempts = tuple(
        AttemptFacts(task=node, state=failed, node=node, message=ACCELERATOR.format(""))
        for node in tried
    )
    history = story(Running)
    command = history.later(timedelta(minutes=5)).check_command(exited(1), lines=["end"], **KEEP)
    check = history.when(command).the(CheckRecorded).model_copy(update={"attempts": attempts})
    assert bad_nodes(check, [ACCELERATOR.format(node) for node in printed]) == expected


@pytest.mark.parametrize("nodes", [(), ("10.0.0.1", "10.0.0.2")])
def test_r7_proposes_nothing_where_no_node_or_several_are_named(nodes: tuple[str, ...]) -> None:
    for recover in ({}, {"bad_node": "exception"}):
        answer = bad_node(running(recover=recover), *nodes)
        assert decided(answer) == (Action.ESCALATE, "R7")
        answer.without(ActProposed)


def consented(history: History) -> History:
    history.tell(GiveConsent(now=history.now, actor=DRI, proposal="p-1"))
    return history


def answered(history: History, question: str = "q-1") -> Answer:
    return history.tell(
        AnswerQuestion(
            now=history.now, actor=DRI, question=question, answer="relaunch", note="done"
        )
    )


def test_r7_relaunches_once_a_human_consented_and_answered() -> None:
    history = story(Running)
    bad_node(history, "t1v-n-5c0d9a41-w-3")
    answer = answered(consented(history))
    assert decided(answer) == (Action.RELAUNCH, "R7")
    assert answer.the(ConsentUsed).target == "t1v-n-5c0d9a41-w-3"
    assert history.tell(history.relaunch_command()).the(LaunchRequested).approval == "a-1"
    assert audit(history.events) == []


def test_r7_on_an_answer_without_a_consent_is_a_human_s_own_relaunch() -> None:
    history = story(Running)
    bad_node(history, "t1v-n-5c0d9a41-w-3")
    answer = answered(history)
    assert decided(answer) == (Action.RELAUNCH, "R19")
    answer.without(ConsentUsed)


def test_r7_asks_under_the_exception_too_and_needs_no_consent() -> None:
    history = running(recover={"bad_node": "exception"})
    answer = bad_node(history, "10.128.0.7")
    assert decided(answer) == (Action.ESCALATE, "R7")
    answer.without(ActProposed)
    asks = answer.the(EscalationRaised).asks
    assert "needs no consent: delete the TPU VM 10.128.0.7" in asks
    assert not re.search(r"THE-VM|ZONE", asks)
    assert decided(answered(history)) == (Action.RELAUNCH, "R19")


def test_r7_says_that_the_same_node_is_bad_again() -> None:
    history = running(recover={"bad_node": "exception"})
    bad_node(history, "t1v-n-5c0d9a41-w-3")
    answered(history)
    history.relaunch()
    answer = bad_node(history, "t1v-n-5c0d9a41-w-3")
    assert decided(answer) == (Action.ESCALATE, "R7")
    assert "the same TPU node is bad again" in answer.the(EscalationRaised).asks


# --- R16: a full disk -----------------------------------------------------------------------------


def test_r16_names_host_and_path_and_relaunches_after_consent_and_answer() -> None:
    history = story(Running)
    answer = ends_as(history, "disk_full", lines=[FULL], **KEEP)
    assert decided(answer) == (Action.ESCALATE, "R16")
    assert answer.the(DecisionMade).because == "disk full: /tmp/ray/spill on 10.128.0.7"
    assert answer.the(ActProposed).target == "10.128.0.7:/tmp/ray/spill"
    assert decided(answered(consented(history))) == (Action.RELAUNCH, "R16")
    assert history.relaunch().run.instances[-1].plan.instance == "i2"


def test_r16_proposes_nothing_where_no_line_names_the_host() -> None:
    lines = ["OSError: [Errno 28] No space left on device: '/tmp/x'"]
    answer = ends_as(story(Running), "disk_full", lines=lines, **KEEP)
    assert decided(answer) == (Action.ESCALATE, "R16")
    answer.without(ActProposed)
    assert "a host that no line names" in answer.the(DecisionMade).because


def test_an_expired_consent_is_used_for_nothing() -> None:
    history = story(Running)
    ends_as(history, "disk_full", lines=[FULL], **KEEP)
    consented(history).later(2 * HOUR)
    answer = answered(history)
    assert decided(answer) == (Action.RELAUNCH, "R19")
    answer.without(ConsentUsed)


def test_an_agent_s_approval_of_what_is_guarded_is_refused() -> None:
    history = story(Running)
    ends_as(history, "disk_full", lines=[FULL], **KEEP)
    refused = history.when(GiveConsent(now=history.now, actor=AGENT, proposal="p-1"))
    assert refused.records
    assert isinstance(history.run.phase, Interrupted)
