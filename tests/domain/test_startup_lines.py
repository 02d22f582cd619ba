"""Start-up proof: what a start's log must show, and what it must not (H17)."""

from datetime import timedelta
from typing import Any

import pytest

from tests.domain.given import Answer, History, decided
from tests.domain.samples import ROOT, bar, contract, listing, node_lost, tracker
from watchkeeper.domain.reading.progress.startup_lines import (
    STARTUP_ALLOWANCE,
    is_truncated,
    named_lines,
)
from watchkeeper.domain.rules.watch.commands import RecordCheck
from watchkeeper.domain.run.ends import Action, DecisionMade
from watchkeeper.domain.run.health import FindingCleared, FindingOpened
from watchkeeper.domain.run.questions import EscalationRaised
from watchkeeper.domain.values.basic import JobState
from watchkeeper.domain.values.check import Severity
from watchkeeper.domain.values.observation.observation import NamedLine

MINUTES = timedelta(minutes=1)
FORBIDDEN = "is less than current W&B step"
EXPECTED = "Using output path"
BEHIND = "W 07:00 wandb: WARNING Step 7 is less than current W&B step 1100. Dropping entry"
POLICY: dict[str, Any] = {"lines_forbidden": [FORBIDDEN], "lines_expected": [EXPECTED]}
SILENT = tracker(None)
QUIET: dict[str, Any] = {"shown": SILENT}


def _started(**changes: Any) -> History:
    return History().launch(contract(**{"policy": POLICY, **changes})).later(2 * MINUTES)


def _opened(answer: Answer) -> list[str]:
    return [finding.kind for finding in answer.all(FindingOpened)]


def _resumed(policy: dict[str, Any]) -> History:
    history = History().launch(contract(policy=policy))
    history.train(1000, wait=2 * MINUTES, found=listing(900, 1000))
    history.fail(node_lost(), step=1100, found=listing(900, 1000))
    return history.relaunch().later(2 * MINUTES)


def test_a_forbidden_line_alerts_with_the_line_and_asks_and_does_nothing() -> None:
    answer = _started().check(lines=["up", BEHIND, EXPECTED])
    found = answer.the(FindingOpened)
    assert (found.kind, found.rule, found.severity) == (
        "startup_forbidden",
        "H17",
        Severity.ALERT,
    )
    assert found.evidence == (BEHIND,)
    assert answer.the(EscalationRaised).evidence == (BEHIND,)
    assert decided(answer) == (Action.ALERT, "R17")


@pytest.mark.parametrize(
    ("changes", "asks"),
    [
        ({}, "what now?"),
        ({"policy": {**POLICY, "startup_forbidden": "end_with_consent"}}, "watchkeeper stop"),
        ({"lane": "hero"}, "watchkeeper stop"),
        ({"lane": "hero", "policy": {**POLICY, "startup_forbidden": "alert"}}, "what now?"),
    ],
)
def test_the_policy_says_whether_the_end_of_the_instance_is_asked_for(
    changes: dict[str, Any], asks: str
) -> None:
    answer = _started(**changes).check(lines=[EXPECTED, BEHIND])
    assert asks in answer.the(EscalationRaised).asks


def test_a_forbidden_line_stays_open_until_its_instance_ends_and_is_asked_about_once() -> None:
    history = _started()
    history.check(lines=[EXPECTED, BEHIND])
    for step, lines in ((12, []), (20, [bar("20.0it/5.16kit")]), (30, [BEHIND])):
        answer = history.later(10 * MINUTES).check(lines=lines, step=step)
        answer.without(FindingOpened)
        answer.without(FindingCleared)
        answer.without(EscalationRaised)
    answer = history.later(10 * MINUTES).check(without=["logs"], step=40, found=listing(40))
    answer.without(FindingCleared)
    ended = history.fail(node_lost(), step=1100, found=listing(900, 1000))
    assert ended.the(FindingCleared).reason == "i1 ended"


def test_no_relaunch_by_rule_follows_a_start_with_a_forbidden_line() -> None:
    history = _started()
    history.check(lines=[EXPECTED, BEHIND], found=listing(900, 1000))
    ended = history.fail(node_lost(), step=1100, found=listing(900, 1000))
    assert decided(ended) == (Action.ESCALATE, "R11")
    assert BEHIND in ended.the(DecisionMade).evidence


@pytest.mark.parametrize(
    ("wait", "facts", "kinds"),
    [
        # Before the start is over nothing is missing yet.
        (2 * MINUTES, {"lines": ["up"], **QUIET}, []),
        (STARTUP_ALLOWANCE - 3 * MINUTES, {"lines": ["up"], **QUIET}, []),
        (STARTUP_ALLOWANCE, {"lines": ["up"], **QUIET}, ["startup_missing"]),
        (2 * MINUTES, {"lines": ["up"], "step": 40}, ["startup_missing"]),
        # It was shown.
        (2 * MINUTES, {"lines": [f"I 07:00 {EXPECTED}: {ROOT}"], "step": 40}, []),
        # No answer, nothing printed, and a job that does not run: none of them is "not seen".
        (STARTUP_ALLOWANCE, {"without": ["logs"], "step": 40}, []),
        (STARTUP_ALLOWANCE, {"lines": [], "step": 40}, []),
        (STARTUP_ALLOWANCE, {"lines": ["up"], "without": ["orchestrator"], "step": 40}, []),
    ],
)
def test_an_expected_line_is_missing_once_the_start_is_over_and_the_whole_log_was_read(
    wait: timedelta, facts: dict[str, Any], kinds: list[str]
) -> None:
    assert _opened(_started().later(wait).check(**facts)) == kinds


def test_a_log_of_which_only_the_end_was_read_shows_nothing_missing() -> None:
    history = _started().later(STARTUP_ALLOWANCE)
    command = history.check_command(step=40, lines=["the end of much"])
    cut = command.observation.model_copy(update={"log_cut": True})
    assert _opened(history.tell(_with(command, cut))) == []
    whole = history.later(10 * MINUTES).check(step=80, lines=["all of it"])
    assert _opened(whole) == ["startup_missing"]


def test_what_a_longer_tail_showed_counts_beside_the_tail_that_is_kept() -> None:
    history = _started().later(STARTUP_ALLOWANCE)
    command = history.check_command(step=40, lines=["the end of it"])
    named = (NamedLine(text=FORBIDDEN, line=BEHIND), NamedLine(text=EXPECTED, line=EXPECTED))
    longer = command.observation.model_copy(update={"named_lines": named})
    assert _opened(history.tell(_with(command, longer))) == ["startup_forbidden"]


def test_a_missing_line_that_comes_late_clears_the_finding() -> None:
    history = _started()
    answer = history.check(lines=["up"], step=40)
    assert (_opened(answer), answer.the(FindingOpened).rule) == (["startup_missing"], "H17")
    assert EXPECTED in answer.the(FindingOpened).summary
    history.later(10 * MINUTES).check(without=["logs"], step=80).without(FindingCleared)
    late = history.later(10 * MINUTES).check(lines=["up", EXPECTED], step=90)
    assert late.the(FindingCleared).kind == "startup_missing"
    # It has left the tail since, and stays shown.
    history.later(10 * MINUTES).check(lines=["up"], step=99).without(FindingOpened)


@pytest.mark.parametrize("expected", ["Resuming training from step", "Loading checkpoint from"])
def test_what_is_about_a_resume_is_judged_only_where_one_is_due(expected: str) -> None:
    policy = {"lines_forbidden": ["No checkpoints found"], "lines_expected": [expected]}
    lines = ["No checkpoints found", "up"]
    assert _opened(_started(policy=policy).check(lines=lines, step=40)) == []
    assert _opened(_resumed(policy).check(lines=lines, step=1200)) == [
        "startup_forbidden",
        "startup_missing",
    ]


def test_a_contract_without_texts_keeps_nothing_of_the_log() -> None:
    history = History().launch(contract()).later(2 * MINUTES)
    startup = history.check_command(lines=[BEHIND, EXPECTED], step=40)
    assert history.tell(startup).events[0].model_dump()["startup"] == {
        "resumed_step": None,
        "scratch": False,
        "forbidden": (),
        "expected": (),
        "whole": False,
        "checkpoint": "",
        "output_path": "",
    }


def test_a_job_that_waits_for_a_place_is_still_starting() -> None:
    history = _started().later(STARTUP_ALLOWANCE)
    said = node_lost().model_copy(update={"state": JobState.PENDING, "error_type": None})
    assert "startup_missing" not in _opened(history.check(said, lines=["up"]))


def test_the_first_line_of_each_text_is_named_in_the_contracts_order() -> None:
    named = named_lines(contract(policy=POLICY), (f" {EXPECTED} a", BEHIND, f"{EXPECTED} b"))
    assert [(one.text, one.line) for one in named] == [
        (FORBIDDEN, BEHIND),
        (EXPECTED, f"{EXPECTED} a"),
    ]


@pytest.mark.parametrize(
    ("lines", "cut"),
    [(("a",), False), (("a", "b"), True), ((), False), (("x" * 1_000_000,), True)],
)
def test_a_log_is_cut_where_it_may_be_longer_than_what_was_read(
    lines: tuple[str, ...], cut: bool
) -> None:
    assert is_truncated(lines, 2) is cut


def _with(command: RecordCheck, observation: Any) -> RecordCheck:
    return command.model_copy(update={"observation": observation})
