"""What a run remembers of its checks is enough to judge the next one, and no more than that."""

from datetime import timedelta

import pytest

from bench.judge import command_of
from tests.domain.given import History
from tests.domain.looking import CADENCE
from tests.domain.samples import START, bar, check_of, contract, half_written, listing
from watchkeeper.domain.rules import after_check as judging
from watchkeeper.domain.rules.health.registry import detector_answers
from watchkeeper.domain.rules.shared.apply_pending import apply_pending
from watchkeeper.domain.rules.watch.check import summarise
from watchkeeper.domain.run.check_history import RECENT_CHECKS_MAX, past_check, with_checks
from watchkeeper.domain.run.watch import CheckRecorded
from watchkeeper.domain.values.earlier import PastCheck
from watchkeeper.domain.values.observation.measured import Level, Measured


def watched(checks: int) -> History:
    """A run with a history of metrics and a checkpoint that stays incomplete."""
    history = History().launch(contract(final_step={"value": 119_209, "source": "config"}))
    for number in range(checks):
        history.later(CADENCE)
        step = 100 * (number + 1)
        found = listing(step, half_written(50_000))
        history.check(step=step, lines=[bar(f"{step}it/5155")], found=found)
    return history.later(CADENCE)


@pytest.mark.parametrize(
    "checks", [1, 2, RECENT_CHECKS_MAX - 1, RECENT_CHECKS_MAX, RECENT_CHECKS_MAX + 1]
)
def test_detectors_say_the_same_before_and_after_a_check_is_folded_in(checks: int) -> None:
    history = watched(checks)
    command = history.check_command(step=9_000, found=listing(9_000, half_written(50_000)))
    instance = history.run.instances[-1]
    check, answers = summarise(history.run, instance, command)
    after = apply_pending(history.run, [check], command)
    assert detector_answers(after, instance, check, command.now) == answers
    assert len(after.watch.recent_checks) == min(checks + 1, RECENT_CHECKS_MAX)


def test_a_check_asks_its_detectors_once(monkeypatch: pytest.MonkeyPatch) -> None:
    history = watched(2)

    def asked(*_: object) -> None:
        raise AssertionError("the detectors were asked again")

    monkeypatch.setattr(judging, "detector_answers", asked)
    history.check(step=300).the(CheckRecorded)


def test_only_the_newest_checks_are_remembered_whole() -> None:
    history = History().launch(contract(final_step={"value": 119_209, "source": "config"}))
    for _ in range(8):
        history.later(timedelta(hours=1))
        history.tell(command_of(history, 600))
    *earlier, newest = history.run.watch.recent_checks
    assert newest.measured is not None
    assert set(newest.levels) == {"loss", "grad_norm", "z_loss", "router"}
    assert [(one.measured, dict(one.levels)) for one in earlier] == [(None, {})] * 7


def level(metric: str, expected: float) -> Level:
    return Level(
        metric=metric, expected=expected, noise=0.1, limit=9.0, current=expected, newest=expected
    )


def measured(loss: Level, router: Level | None = None) -> PastCheck:
    """A check that measured some levels."""
    found = Measured(source="history", points=100, loss=loss, router=router)
    return past_check(check_of(measured=found), START, 1)


def test_what_no_later_check_measured_stays_remembered() -> None:
    first = measured(loss=level("loss", 2.5), router=level("entropy", 2.0))
    recent_checks = with_checks((), [first])
    for later in (2.4, 2.3):
        recent_checks = with_checks(recent_checks, [measured(loss=level("loss", later))])
    assert [dict(one.levels) for one in recent_checks] == [
        {"router": level("entropy", 2.0)},
        {},
        {"loss": level("loss", 2.3)},
    ]


def test_a_metric_of_another_name_replaces_nothing() -> None:
    recent_checks = with_checks((), [measured(loss=level("loss", 2.5))])
    recent_checks = with_checks(recent_checks, [measured(loss=level("train/loss", 2.4))])
    assert [one.levels["loss"].metric for one in recent_checks] == ["loss", "train/loss"]


def test_a_check_that_measured_nothing_leaves_the_newest_measure_whole() -> None:
    known = measured(loss=level("loss", 2.5))
    nothing = past_check(check_of(), START, 2)
    recent_checks = with_checks(with_checks(with_checks((), [known]), [nothing]), [nothing])
    assert [one.measured is not None for one in recent_checks] == [True, False, True]
    assert recent_checks[0] == known
    recent_checks = with_checks(recent_checks, [measured(loss=level("loss", 2.4))])
    assert [one.measured is not None for one in recent_checks] == [False, False, False, True]
