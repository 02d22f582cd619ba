"""H1: steps come, and the tracker shows nothing new for long."""

from datetime import timedelta
from typing import Any

import pytest

from tests.domain.given import Answer, History
from tests.domain.looking import CADENCE, cleared, look, opened, steps
from tests.domain.samples import KEPT, contract, node_lost
from tests.domain.stories import story
from watchkeeper.domain.run.health import FindingOpened
from watchkeeper.domain.run.phases import Running
from watchkeeper.domain.run.watch import CheckRecorded
from watchkeeper.domain.values.check import Health, Severity

HOURS = timedelta(hours=2)
SELDOM = {"temporary_every": "", "permanent_every_steps": 100_000}
OFFLINE = {"kind": "wandb", "url": "", "mode": "offline", "dir": "/srv/wandb"}


def trains(**parts: Any) -> History:
    """A run that is seen to train, at step 1100."""
    history = story(Running, contract(checkpoints=SELDOM, **parts))
    for step in (1050, 1100):
        look(history, step=step, lines=steps(step), found=KEPT)
    return history


def ahead(history: History, step: int, **facts: Any) -> Answer:
    """Look at output that goes on while the tracker stands."""
    return look(history, step=1100, lines=steps(step), found=KEPT, **facts)


def found_in(history: History, *shown: int, **facts: Any) -> list[int]:
    """Look at output that goes on, and return the steps at which the silence was found."""
    return [
        step for step in shown if "tracker_silent" in opened(ahead(history, step, **facts))
    ]  # fmt: skip


def test_it_is_told_once_and_the_run_is_well() -> None:
    history = trains()
    assert found_in(history, *range(1150, 1750, 50)) == []
    answer = ahead(history, 1750)
    found = answer.the(FindingOpened)
    assert (found.kind, found.rule, found.severity) == ("tracker_silent", "H1", Severity.NOTIFY)
    assert "nothing new was read from the tracker since 2026-" in found.summary
    assert "it stopped at step 1100" in found.summary
    assert answer.the(CheckRecorded).health is Health.HEALTHY
    assert opened(ahead(history, 1800)) == []
    assert "tracker_silent" in cleared(look(history, step=1850, lines=steps(1850), found=KEPT))
    further = [look(history, step=1850, lines=steps(n), found=KEPT) for n in range(1900, 2500, 50)]
    assert not any("tracker_silent" in opened(answer) for answer in further)


@pytest.mark.parametrize("without", [(), ("tracker",)])
def test_a_tracker_that_shows_a_step_within_the_time_is_not_silent(
    without: tuple[str, ...],
) -> None:
    history = trains()
    for begin in range(1150, 2650, 500):
        look(history, step=begin, lines=steps(begin), found=KEPT)
        for step in range(begin + 50, begin + 500, 50):
            answer = look(history, step=begin, lines=steps(step), found=KEPT, without=without)
            assert "tracker_silent" not in opened(answer)


@pytest.mark.parametrize("pause", [[HOURS] * 3, [CADENCE] * 20], ids=["unwatched", "watched"])
def test_time_in_which_no_step_comes_counts_for_nothing(pause: list[timedelta]) -> None:
    history = trains()
    for wait in pause:
        ahead(history, 1100, wait=wait)
    assert found_in(history, *range(1150, 1650, 50)) == []


def test_one_reading_that_fails_after_a_long_absence_is_no_silence() -> None:
    history = trains()
    assert found_in(history, 1150, wait=HOURS + HOURS, without=("tracker",)) == []
    assert found_in(history, *range(1200, 1600, 50), without=("tracker",)) == []


def test_without_the_orchestrator_a_run_that_moves_stays_as_well_as_it_was() -> None:
    history = trains()
    found_in(history, *range(1150, 1800, 50))
    assert "tracker_silent" in history.run.health.findings
    answer = ahead(history, 1850, without=("orchestrator",))
    assert answer.the(CheckRecorded).health is Health.HEALTHY


def test_the_contract_sets_the_time() -> None:
    history = trains(live={"tracker_silent": 4 * CADENCE})
    assert found_in(history, *range(1150, 1500, 50)) == [1300]


def test_an_offline_tracker_shows_nothing_until_it_is_synced() -> None:
    history = trains(tracker=OFFLINE)
    assert found_in(history, *range(1150, 2000, 50)) == []


@pytest.mark.parametrize("without", [(), ("tracker",)], ids=["stands", "no answer"])
def test_a_tracker_that_catches_up_has_nothing_new_to_show(without: tuple[str, ...]) -> None:
    history = story(Running, contract(checkpoints=SELDOM))
    for step in (1500, 2000):
        look(history, step=step, lines=steps(step), found=KEPT)
    history.fail(node_lost(), step=2000, found=KEPT)
    history.relaunch()
    for step in range(1050, 2000, 50):
        answer = look(history, step=2000, lines=steps(step), found=KEPT, without=without)
        assert "tracker_silent" not in opened(answer)
    # Beyond what it had it is silent.
    later = [
        look(history, step=2000, lines=steps(step), found=KEPT, without=without)
        for step in range(2050, 2750, 50)
    ]
    assert sum("tracker_silent" in opened(answer) for answer in later) == 1


def test_after_the_orchestrators_own_retry_it_catches_up_too() -> None:
    history = trains()
    look(history, step=2000, lines=steps(2000), found=KEPT)
    for step in range(1050, 2000, 50):
        answer = look(
            history, step=2000, lines=steps(step), found=KEPT, attempts_failed=1
        )  # fmt: skip
        assert "tracker_silent" not in opened(answer)
