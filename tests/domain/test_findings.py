"""Findings open once, stay while they hold, clear when they stop, and wait where none can tell."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from tests.domain.given import Answer, History, decided
from tests.domain.samples import DRI, bar, contract, job, killed, listing, node_lost
from tests.domain.stories import story
from watchkeeper.domain.rules.operator.commands import AnswerQuestion
from watchkeeper.domain.run.ends import Action, DecisionMade
from watchkeeper.domain.run.health import FindingCleared, FindingOpened
from watchkeeper.domain.run.phases import Interrupted, Running, Stabilizing
from watchkeeper.domain.run.questions import EscalationRaised
from watchkeeper.domain.run.watch import CheckRecorded
from watchkeeper.domain.values.basic import JobState
from watchkeeper.domain.values.check import Severity

PENDING = job(JobState.PENDING)
LIMIT = timedelta(minutes=30)
SECOND = timedelta(seconds=1)


def opened(answer: Answer) -> list[str]:
    return [finding.kind for finding in answer.all(FindingOpened)]


def answer(history: History, question: str) -> AnswerQuestion:
    return AnswerQuestion(now=history.now, actor=DRI, question=question, answer="relaunch")


def cleared(answer: Answer) -> list[str]:
    return [finding.kind for finding in answer.all(FindingCleared)]


# --- H6: it waits to start ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("waited", "kinds"), [(LIMIT - SECOND, []), (LIMIT, []), (LIMIT + SECOND, ["pending"])]
)
def test_h6_opens_when_a_job_waits_longer_than_30_minutes(
    waited: timedelta, kinds: list[str]
) -> None:
    history = story(Stabilizing).later(waited)
    assert opened(history.when(history.check_command(PENDING))) == kinds


def test_h6_notifies_and_asks_nobody() -> None:
    answer = story(Stabilizing).later(LIMIT + SECOND).check(PENDING)
    finding = answer.the(FindingOpened)
    assert (finding.rule, finding.severity) == ("H6", Severity.NOTIFY)
    assert "30 min" in finding.summary
    answer.without(EscalationRaised)


def test_h6_counts_from_the_newest_launch() -> None:
    history = story(Interrupted).later(timedelta(hours=3)).relaunch().later(LIMIT)
    assert opened(history.check(PENDING)) == []
    assert opened(history.later(SECOND).check(PENDING)) == ["pending"]


def test_h6_follows_the_contract() -> None:
    history = History().launch(contract(watch={"pending_notify": "5m"}))
    assert opened(history.later(timedelta(minutes=5) + SECOND).check(PENDING)) == ["pending"]


def test_a_finding_opens_once_stays_and_clears() -> None:
    history = story(Stabilizing).later(LIMIT + SECOND)
    assert opened(history.check(PENDING)) == ["pending"]
    for _ in range(3):
        history.later(LIMIT).check(PENDING).then_kinds(CheckRecorded)
    # Without an answer it can't be told: the finding stays open.
    history.later(LIMIT).check(without=("orchestrator",)).then_kinds(CheckRecorded)
    assert set(history.run.health.findings) == {"pending"}
    answer = history.later(LIMIT).check()
    assert (opened(answer), cleared(answer)) == ([], ["pending"])
    assert not history.run.health.findings


def test_what_never_held_is_not_cleared() -> None:
    story(Stabilizing).check().then_kinds(CheckRecorded)


# --- H17: resumed from where it should not be -----------------------------------------------------

DECIDED = 1000
RESUMED = "Resuming training from step {}".format
SCRATCH = "Starting from scratch"


@pytest.mark.parametrize(
    ("lines", "kinds"),
    [
        ([], []),
        ([RESUMED(1000)], []),
        ([RESUMED(900)], ["resume_mismatch"]),
        ([RESUMED(1001)], ["resume_mismatch"]),
        ([SCRATCH], ["resume_mismatch"]),
        # A search that found nothing at one place says so before it finds the checkpoint.
        ([SCRATCH, RESUMED(1000)], []),
    ],
)
def test_h17_opens_when_a_relaunch_resumes_from_another_step(
    lines: list[str], kinds: list[str]
) -> None:
    history = story(Interrupted).relaunch().later(SECOND * 120)
    assert history.run.instances[-1].plan.resume_step == DECIDED
    assert opened(history.check(lines=lines)) == kinds


@pytest.mark.parametrize(
    ("lines", "kinds"), [([SCRATCH], []), ([], []), ([RESUMED(40)], ["resume_mismatch"])]
)
def test_h17_opens_when_a_start_from_scratch_resumes(lines: list[str], kinds: list[str]) -> None:
    assert opened(story(Stabilizing).later(SECOND * 120).check(lines=lines)) == kinds


def test_h17_alerts_asks_and_never_relaunches() -> None:
    history = story(Interrupted).relaunch().later(SECOND * 120)
    answer = history.check(lines=[SCRATCH, bar("3.00it/5.16kit")])
    assert answer.the(FindingOpened).severity is Severity.ALERT
    question = answer.the(EscalationRaised)
    assert (question.question, question.rule, question.to) == ("q-1", "H17", "dri")
    assert "step 1000" in question.asks
    assert decided(answer) == (Action.ALERT, "R17")
    assert isinstance(history.run.phase, Stabilizing | Running)


def test_findings_end_with_their_instance_so_that_the_next_one_is_asked_about_again() -> None:
    history = story(Interrupted).relaunch().later(SECOND * 120)
    assert opened(history.check(lines=[SCRATCH])) == ["resume_mismatch"]
    end = history.fail(node_lost(), step=1200, found=listing(900, 1000, 1200))
    ended = [(finding.kind, finding.reason) for finding in end.all(FindingCleared)]
    assert ended == [("resume_mismatch", "i2 ended")]
    history.tell(answer(history, "q-2"))
    history.relaunch().later(SECOND * 120)
    again = history.check(lines=[SCRATCH])
    assert opened(again) == ["resume_mismatch"]
    assert again.the(EscalationRaised).question == "q-3"


@pytest.mark.parametrize("without", [(), ("checkpoints",)])
def test_a_lineage_that_is_not_known_to_be_intact_is_never_relaunched_unasked(
    without: tuple[str, ...],
) -> None:
    history = story(Interrupted).relaunch().later(SECOND * 120)
    history.check(lines=[SCRATCH])
    # The first lines have left the log's tail by then.
    end = history.fail(node_lost(), step=1200, found=listing(900, 1000), without=without)
    decision = end.the(DecisionMade)
    assert (decision.action, decision.rule) == (Action.ESCALATE, "R11")
    assert "started from scratch instead of step 1000" in decision.because


# --- A job that nobody can account for ------------------------------------------------------------


def unknown_once() -> History:
    """A run that trains on while its orchestrator said once that it cannot tell."""
    history = story(Running).later(SECOND * 570)
    answer = history.check(job(JobState.UNKNOWN), step=1150, found=listing(900, 1000))
    assert opened(answer) == []
    assert answer.all(EscalationRaised) == []
    return history


def test_an_orchestrator_that_cannot_tell_once_is_not_asked_about_while_steps_come() -> None:
    history = unknown_once()
    assert opened(history.later(SECOND * 570).check(step=1200)) == []
    # The count begins anew after an answer.
    again = history.later(SECOND * 570).check(job(JobState.UNKNOWN), step=1250)
    assert opened(again) == []
    # No answer is none in between.
    assert opened(history.later(SECOND * 570).check(step=1300, without=("orchestrator",))) == []
    last = history.later(SECOND * 570).check(job(JobState.UNKNOWN), step=1350)
    assert opened(last) == ["job_unaccounted"]


def test_an_orchestrator_that_cannot_tell_is_asked_about_at_once_where_no_step_comes() -> None:
    history = story(Running).later(SECOND * 570)
    assert opened(history.check(job(JobState.UNKNOWN))) == ["job_unaccounted"]


@pytest.mark.parametrize(
    ("state", "given"),
    [
        (JobState.UNKNOWN, unknown_once),
        (JobState.NOT_FOUND, unknown_once),
        (JobState.NOT_FOUND, lambda: story(Running)),
    ],
)
def test_a_job_that_the_orchestrator_cannot_account_for_is_asked_about_and_not_ended(
    state: JobState, given: Callable[[], History]
) -> None:
    history = given()
    answer = history.later(SECOND * 570).check(job(state), step=1200, found=listing(900, 1000))
    assert opened(answer) == ["job_unaccounted"]
    assert answer.the(EscalationRaised).rule == "R19"
    assert decided(answer) == (Action.ALERT, "R19")
    assert isinstance(history.run.phase, Running)
    assert cleared(history.later(SECOND * 570).check(step=1300)) == ["job_unaccounted"]


@pytest.mark.parametrize("gone", [("orchestrator",), ("tracker",), ("logs",), ("checkpoints",)])
def test_no_finding_opens_on_a_source_that_gives_no_answer(gone: Any) -> None:
    history = story(Running).later(timedelta(hours=5))
    assert opened(history.check(without=gone)) == []


def test_two_alerts_of_one_check_have_two_questions() -> None:
    history = story(Interrupted).relaunch().later(SECOND * 120)
    answer = history.check(job(JobState.UNKNOWN), lines=[SCRATCH])
    assert sorted(opened(answer)) == ["job_unaccounted", "resume_mismatch"]
    assert [q.question for q in answer.all(EscalationRaised)] == ["q-1", "q-2"]


def test_no_finding_opens_at_the_check_that_sees_the_end() -> None:
    history = story(Interrupted).relaunch().later(SECOND * 120)
    assert opened(history.check(killed(), lines=[SCRATCH], found=listing(900, 1000))) == []
