"""The keeper's own errors, told by events: what counts, and what does not."""

from datetime import timedelta

from tests.domain.given import History
from tests.domain.samples import DRI, contract, job, killed, listing
from watchkeeper.domain.commands import Acknowledge
from watchkeeper.domain.events import FailureClassified, Outlook
from watchkeeper.domain.keeper import Keeper, counted, revised
from watchkeeper.domain.values import JobState

QUARTER = timedelta(minutes=15)


def failed_twice(step: int) -> Keeper:
    """A run that is relaunched by R1 and killed again at a step."""
    history = History().launch().train(1000, wait=QUARTER, found=listing(900, 1000))
    history.fail(killed(), step=1100, found=listing(900, 1000))
    history.relaunch()
    history.train(1050, wait=QUARTER, found=listing(900, 1000))
    history.fail(killed(), step=step, found=listing(900, 1000))
    return history.run.keeper


def failure(cause: str) -> FailureClassified:
    return FailureClassified(
        instance="i1",
        cause=cause,
        outlook=Outlook.ASK,
        fingerprint="5f0a",
        evidence=(),
        step=10,
    )


def test_a_restart_that_fails_again_at_its_place_was_false() -> None:
    keeper = failed_twice(1101)
    assert (keeper.restarts, keeper.restarts_false) == (1, 1)


def test_a_restart_that_made_progress_was_not() -> None:
    keeper = failed_twice(4000)
    assert (keeper.restarts, keeper.restarts_false) == (1, 0)


def test_an_unknown_cause_is_an_answer_and_no_error() -> None:
    keeper = counted(Keeper(), failure("unknown"), 7, again=False)
    assert (keeper.causes, revised(keeper, 7, "preemption").causes_wrong) == (0, 0)


def test_a_named_cause_that_is_revised_was_wrong_once() -> None:
    keeper = counted(Keeper(), failure("node_failure"), 7, again=False)
    assert keeper.causes == 1
    once = revised(keeper, 7, "preemption")
    assert once.causes_wrong == 1
    assert revised(once, 7, "preemption").causes_wrong == 1
    assert revised(keeper, 7, "node_failure").causes_wrong == 0


def test_an_end_by_numbers_without_an_alert_before_it_was_missed() -> None:
    missed = counted(Keeper(), failure("numerical_instability"), 7, again=False)
    assert (missed.alarms, missed.alarms_missed) == (1, 1)
    told = counted(Keeper(alarmed=True), failure("numerical_instability"), 7, again=False)
    assert (told.alarms, told.alarms_missed) == (1, 0)
    other = counted(Keeper(), failure("preemption"), 7, again=False)
    assert (other.alarms, other.alarms_missed) == (0, 0)


def test_a_question_that_a_human_calls_needless_counts() -> None:
    history = History().launch(contract(retries={"owner": "watchkeeper", "budget": 0}))
    history.train(1000, wait=QUARTER, found=listing(900, 1000))
    history.fail(killed(), step=1100, found=listing(900, 1000))
    assert (history.run.keeper.pages, history.run.keeper.pages_needless) == (1, 0)
    [question] = history.run.questions
    ack = Acknowledge(now=history.now, actor=DRI, question=question, answer="needless")
    history.tell(ack)
    assert (history.run.keeper.pages, history.run.keeper.pages_needless) == (1, 1)


def test_an_alert_that_clears_by_itself_unanswered_was_needless() -> None:
    history = History().launch().train(1000, wait=QUARTER)
    history.later(QUARTER).check(job(JobState.UNKNOWN))
    assert (history.run.keeper.pages, history.run.keeper.pages_needless) == (1, 0)
    history.train(1100, wait=QUARTER)
    assert (history.run.keeper.pages, history.run.keeper.pages_needless) == (1, 1)
