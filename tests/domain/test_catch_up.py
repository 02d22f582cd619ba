"""After a resume a tracker may still show the newest step of the instance before."""

from typing import Any

import pytest

from tests.domain.given import History
from tests.domain.looking import CADENCE, look, steps
from tests.domain.samples import bar, contract, listing, node_lost, tracker
from tests.domain.stories import story
from watchkeeper.domain.run.ends import FailureClassified
from watchkeeper.domain.run.phases import Running, Stabilizing
from watchkeeper.domain.run.watch import CheckRecorded
from watchkeeper.domain.values.check import Progress

KEPT = listing(900, 1000)
SELDOM = contract(checkpoints={"temporary_every": "", "permanent_every_steps": 100_000})


def resumed() -> History:
    """A run that resumed from step 1000 after it had reached step 2000."""
    history = story(Running, SELDOM)
    for step in (1500, 2000):
        look(history, step=step, lines=steps(step), found=KEPT)
    history.fail(node_lost(), step=2000, found=KEPT)
    return history.relaunch()


def shown(history: History, step: int | None, lines: list[str], **facts: Any) -> Progress | None:
    """Look, with a tracker that is alive, and return the progress of the check."""
    alive = tracker(step, heartbeat_at=history.now + CADENCE)
    answer = look(history, shown=alive, lines=lines, found=KEPT, **facts)
    return answer.the(CheckRecorded).progress


def test_the_output_tells_the_step_while_the_tracker_shows_what_was_before() -> None:
    history = resumed()
    for step in (1100, 1400, 1900):
        assert shown(history, 2000, steps(step)) == Progress(step=step, source="logs")
        assert history.run.instances[-1].step_best == step
    assert shown(history, 2100, steps(2090)) == Progress(step=2100, source="tracker")


def test_a_failure_in_catch_up_is_placed_where_it_happened() -> None:
    history = resumed()
    shown(history, 2000, steps(1100))
    again = tracker(2000, heartbeat_at=history.now + CADENCE)
    answer = history.fail(node_lost(), shown=again, lines=steps(1150), found=KEPT)
    assert answer.the(FailureClassified).step == 1150


def test_what_was_before_is_no_sign_that_training_began() -> None:
    history = resumed()
    for _ in range(3):
        assert shown(history, 2000, ["up"]) is None
        assert isinstance(history.run.phase, Stabilizing)
        assert history.run.instances[-1].step_best is None
    assert shown(history, 2001, ["up"]) == Progress(step=2001, source="tracker")
    assert isinstance(history.run.phase, Running)


@pytest.mark.parametrize("lines", [["up"], steps(1000)])
def test_a_tracker_that_logs_the_same_steps_again_tells_the_step(lines: list[str]) -> None:
    history = resumed()
    shown(history, 2000, lines)
    for step in (1100, 1400, 1400):
        found = shown(history, step, lines)
        assert found == Progress(step=step, source="tracker")


def test_a_rounded_bar_and_the_tracker_that_agree_are_told_by_the_tracker() -> None:
    history = resumed()
    shown(history, 2000, steps(1900))
    assert shown(history, 2004, [bar("2.00kit/5.16kit")]) == Progress(step=2004, source="tracker")


def test_a_first_instance_believes_its_tracker() -> None:
    history = story(Running, SELDOM)
    assert shown(history, 1500, steps(1200)) == Progress(step=1500, source="tracker")


def test_an_end_that_only_the_tracker_places_counts_as_where_the_one_before_failed() -> None:
    history = resumed()
    assert shown(history, 2000, ["up"]) is None
    again = tracker(2000, heartbeat_at=history.now + CADENCE)
    answer = history.fail(node_lost(), shown=again, lines=["up"], found=KEPT)
    # A human is rather asked about a failure that comes back than not.
    assert answer.the(FailureClassified).step == 2000
