"""The same failure again, and too many of them: when a relaunch is no longer the answer."""

from datetime import timedelta
from typing import Any

import pytest

from tests.domain.given import Answer, History, decided
from tests.domain.looking import look
from tests.domain.samples import (
    KEPT,
    bar,
    contract,
    killed,
    listing,
    node_lost,
)
from watchkeeper.domain.run.ends import Action, DecisionMade, FailureClassified
from watchkeeper.domain.run.failure_window import WINDOW_STEPS
from watchkeeper.domain.run.launch import InstanceEnded
from watchkeeper.domain.values.basic import JobFacts
from watchkeeper.domain.values.observation.sources import AttemptFacts, AttemptState


def twice(
    first: int | None,
    second: int | None,
    *,
    ends: tuple[JobFacts, JobFacts] | None = None,
    promised: Any = None,
    wait: timedelta = timedelta(hours=2),
) -> Answer:
    """Two ends at two steps, both read from the tracker; the answer to the second."""
    before, after = ends or (killed(), killed())
    history = History().launch(promised)
    assert decided(history.fail(before, step=first, found=KEPT)) == (Action.RELAUNCH, "R1")
    history.relaunch()
    return history.fail(after, step=second, found=KEPT, wait=wait)


# --- R2: the same failure again ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (1100, 1100, (Action.ESCALATE, "R2")),
        (1100, 1050, (Action.ESCALATE, "R2")),
        (1100, 1100 + WINDOW_STEPS, (Action.ESCALATE, "R2")),
        # Past it: no longer the same place, but such an end is retried only once.
        (1100, 1100 + WINDOW_STEPS + 1, (Action.ESCALATE, "R19")),
        (None, 1100, (Action.ESCALATE, "R2")),
        (1100, None, (Action.ESCALATE, "R2")),
        (None, None, (Action.ESCALATE, "R2")),
    ],
)
def test_r2_asks_when_the_same_failure_comes_back_without_progress_past_it(
    first: int | None, second: int | None, expected: tuple[Action, str]
) -> None:
    answer = twice(first, second)
    assert decided(answer) == expected
    classified = answer.the(FailureClassified)
    assert classified.step == second


def test_r2_names_both_ends_that_it_compared() -> None:
    decision = twice(1100, 1100).the(DecisionMade)
    compared = next(line for line in decision.evidence if "i1 and i2" in line)
    assert "~1100" in compared
    assert "fingerprints" in compared


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (1100, 1100, (Action.ESCALATE, "R2")),
        (1100, 1100 - WINDOW_STEPS, (Action.ESCALATE, "R2")),
        (1100, 1100 + WINDOW_STEPS, (Action.ESCALATE, "R2")),
        (1100, 1100 - WINDOW_STEPS - 1, (Action.RELAUNCH, "R1")),
        (1100, 1100 + WINDOW_STEPS + 1, (Action.RELAUNCH, "R1")),
        (None, 1100, (Action.RELAUNCH, "R1")),
        (1100, None, (Action.RELAUNCH, "R1")),
    ],
)
def test_r2_asks_when_another_failure_comes_in_the_same_window(
    first: int | None, second: int | None, expected: tuple[Action, str]
) -> None:
    assert decided(twice(first, second, ends=(killed(), node_lost()))) == expected


def test_r2_compares_with_every_earlier_failure_not_only_the_last() -> None:
    history = History().launch()
    history.fail(killed(), step=1100, found=KEPT)
    history.relaunch().fail(node_lost(), step=1500, found=KEPT)
    history.relaunch()
    answer = history.fail(killed(), step=1050, found=KEPT)
    assert decided(answer) == (Action.ESCALATE, "R2")
    assert "i1 and i3" in "".join(answer.the(DecisionMade).evidence)


@pytest.mark.parametrize(
    ("second", "expected"),
    [
        ("1.51kit/5.16kit", (Action.ESCALATE, "R2")),  # 1505 to 1515: 1510 may be no progress.
        ("1.52kit/5.16kit", (Action.ESCALATE, "R19")),  # 1515 at least, and 1505 at most before.
    ],
)
def test_r2_counts_progress_only_beyond_the_uncertainty(
    second: str, expected: tuple[Action, str]
) -> None:
    history = History().launch()
    nothing: dict[str, Any] = {"without": ("tracker",), "found": KEPT}
    history.fail(killed(), lines=[bar("1.50kit/5.16kit")], **nothing)
    history.relaunch()
    answer = history.fail(killed(), lines=[bar(second)], **nothing)
    assert answer.the(FailureClassified).step_uncertainty == 5
    assert decided(answer) == expected


def test_r2_takes_readings_that_may_be_one_step_for_one_window() -> None:
    history = History().launch()
    history.fail(killed(), step=2_345, found=KEPT)
    history.relaunch()
    # 2.34k may be any step from 2,335 to 2,345.
    answer = history.fail(
        node_lost(), lines=[bar("2.34kit/5.16kit")], without=("tracker",), found=KEPT
    )
    assert decided(answer) == (Action.ESCALATE, "R2")


def test_an_end_is_placed_at_the_highest_step_that_any_source_showed() -> None:
    history = History().launch().train(1500)
    answer = history.fail(
        killed(), lines=[bar("1.49kit/5.16kit")], without=("tracker",), found=KEPT
    )
    assert (answer.the(InstanceEnded).step, answer.the(InstanceEnded).step_uncertainty) == (1500, 0)


def test_of_two_readings_of_one_step_the_closer_one_counts() -> None:
    history = History().launch().later(timedelta(minutes=10))
    history.check(lines=[bar("1.50kit/5.16kit")], without=("tracker",))
    history.check(step=1500)
    history.check(lines=[bar("1.50kit/5.16kit")], without=("tracker",))
    answer = history.fail(killed(), without=("tracker", "logs"), found=KEPT)
    assert (answer.the(InstanceEnded).step, answer.the(InstanceEnded).step_uncertainty) == (1500, 0)


def test_an_end_without_a_reading_keeps_the_uncertainty_of_the_last_one() -> None:
    history = History().launch()
    history.later(timedelta(minutes=10))
    history.check(lines=[bar("1.50kit/5.16kit")], without=("tracker",))
    answer = history.fail(killed(), without=("tracker", "logs"), found=KEPT)
    assert (answer.the(InstanceEnded).step, answer.the(InstanceEnded).step_uncertainty) == (1500, 5)


# --- R3: the restart budget ----------------------------------------------------------------------


def many(count: int, budget: int, wait: timedelta = timedelta(hours=1)) -> Answer:
    """As many ends as told, each past the one before; the answer to the last."""
    history = History().launch(contract(retries={"budget": budget}))
    for number in range(count - 1):
        history.fail(node_lost(), step=1100 + 100 * number, found=KEPT, wait=wait)
        history.relaunch()
    return history.fail(node_lost(), step=1100 + 100 * count, found=KEPT, wait=wait)


@pytest.mark.parametrize(
    ("ends", "budget", "expected"),
    [
        (1, 0, (Action.ESCALATE, "R3")),
        (1, 1, (Action.RELAUNCH, "R1")),
        (2, 1, (Action.ESCALATE, "R3")),
        (3, 3, (Action.RELAUNCH, "R1")),
        (4, 3, (Action.ESCALATE, "R3")),
    ],
)
def test_r3_asks_once_the_budget_is_used_up(
    ends: int, budget: int, expected: tuple[Action, str]
) -> None:
    assert decided(many(ends, budget)) == expected


@pytest.mark.parametrize(
    ("wait", "expected"),
    [
        (timedelta(hours=24) - timedelta(seconds=1), (Action.ESCALATE, "R3")),
        (timedelta(hours=24), (Action.RELAUNCH, "R1")),
    ],
)
def test_r3_counts_relaunches_within_the_rolling_window_only(
    wait: timedelta, expected: tuple[Action, str]
) -> None:
    assert decided(many(2, 1, wait)) == expected


def test_r2_is_asked_before_r3() -> None:
    assert decided(twice(1100, 1100, promised=contract(retries={"budget": 1}))) == (
        Action.ESCALATE,
        "R2",
    )


# --- The same machine ----------------------------------------------------------------------------

TRIED = AttemptFacts(task="0", state=AttemptState.WORKER_FAILED, worker_failure=True)


@pytest.mark.parametrize(
    ("nodes", "named"),
    [
        (("w-3", "w-3", "w-3"), True),
        (("w-4", "w-3", "w-3"), True),
        (("w-4", "w-5", "w-3"), False),
        (("", "", ""), False),
    ],
)
def test_a_machine_lost_again_with_progress_between_is_named_and_the_run_goes_on(
    nodes: tuple[str, ...], named: bool
) -> None:
    history, answer = History().launch(), None
    for number, node in enumerate(nodes):
        if number:
            history.relaunch()
        tried = TRIED.model_copy(update={"node": node, "ended_at": history.now})
        facts = {"step": 1_100 + 400 * number, "found": listing(900, 1_000 + 400 * number)}
        said = node_lost(submission_id=history.run.instances[-1].plan.submission_id)
        answer = look(history, said, attempts=(tried,), further=("attempts",), **facts)
    assert answer is not None
    assert decided(answer) == (Action.RELAUNCH, "R1")
    assert ("w-3 was lost" in answer.the(DecisionMade).because) is named
