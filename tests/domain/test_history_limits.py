"""A history that grows too long is told by an event of its own, once for each limit."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.domain.given import History, enveloped, given
from watchkeeper.domain.rules.decide import decide
from watchkeeper.domain.rules.shared.refusals import Refused
from watchkeeper.domain.rules.whatif.rejudging import rejudge
from watchkeeper.domain.run.events import RunEvent
from watchkeeper.domain.run.evolve.evolve import evolve
from watchkeeper.domain.run.run import Run
from watchkeeper.domain.run.watch import CheckRecorded, HistoryLimitPassed
from watchkeeper.domain.values import history_limits
from watchkeeper.domain.values.history_limits import HARD_EVENTS, SOFT_EVENTS, Limit
from watchkeeper.projections.status import limits as limits_told


@pytest.fixture
def training() -> History:
    history = given().launch()
    history.train(step=10)
    return history


def checked_at(history: History, version: int, told: Limit | None = None) -> Sequence[RunEvent]:
    """Return what a check of a run records that has so many events; making them takes minutes."""
    watch = replace(history.run.watch, history_limit=told)
    run = replace(history.run, version=version, watch=watch)
    outcome = decide(run, history.check_command(step=20))
    assert not isinstance(outcome, Refused)
    return outcome


def limits(events: Sequence[RunEvent]) -> list[str]:
    return [event.limit for event in events if isinstance(event, HistoryLimitPassed)]


@pytest.mark.parametrize(
    ("version", "told", "limit"),
    [
        (SOFT_EVENTS - 1, None, []),
        (SOFT_EVENTS, None, ["soft"]),
        (SOFT_EVENTS + 1, "soft", []),
        (HARD_EVENTS - 1, "soft", []),
        (HARD_EVENTS, "soft", ["hard"]),
        (HARD_EVENTS, None, ["hard"]),
        (HARD_EVENTS * 2, "hard", []),
    ],
)
def test_each_limit_is_recorded_once_by_the_check_that_finds_it_passed(
    training: History, version: int, told: Limit | None, limit: list[str]
) -> None:
    events = checked_at(training, version, told)
    assert limits(events) == limit
    assert isinstance(events[0], CheckRecorded)  # Nothing is refused for it, ever.


def test_what_status_tells_of_a_length_is_what_is_recorded_of_it() -> None:
    assert (limits_told.SOFT_EVENTS, limits_told.HARD_EVENTS) == (SOFT_EVENTS, HARD_EVENTS)


def test_what_was_recorded_is_not_recorded_again(training: History) -> None:
    run = replace(training.run, version=SOFT_EVENTS)
    command = training.check_command(step=20)
    outcome = decide(run, command)
    assert not isinstance(outcome, Refused)
    after: Run = run
    for number, fact in enumerate(outcome, SOFT_EVENTS + 1):
        folded = evolve(after, enveloped(fact, number, at=command.now))
        assert isinstance(folded, Run)
        after = folded
    assert after.watch.history_limit == "soft"
    again = decide(after, command)
    assert not isinstance(again, Refused)
    assert limits(again) == []


def test_a_length_that_was_told_is_no_part_of_how_a_check_is_judged_again(
    training: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history_limits, "SOFT_EVENTS", training.run.version)
    answer = training.check(step=20)
    assert limits(answer.events) == ["soft"]
    assert [one.version for one in rejudge("", training.events) if one.differs] == []
