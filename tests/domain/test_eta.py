"""The expected end of a run: from its progress, its pace and the final step."""

from dataclasses import replace
from datetime import timedelta

from tests.domain.given import History
from watchkeeper.domain.run.check_history import Eta, expected_end
from watchkeeper.domain.run.run import Run, contract_of

MINUTE = timedelta(minutes=1)


def at_steps(*steps: int) -> Run:
    """Return a live run whose checks, a minute apart, showed these steps."""
    history = History().draft().approve().request().take_watch().confirm()
    for step in steps:
        history.train(step)
    run = history.run
    checks = [
        one._replace(at=history.now + number * MINUTE)
        for number, one in enumerate(run.watch.recent_checks[-len(steps) :])
    ]
    return replace(run, watch=replace(run.watch, recent_checks=tuple(checks)))


def test_the_end_follows_from_the_pace_and_its_range_from_the_halves() -> None:
    run = at_steps(1000, 1010, 1020, 1050)
    left, last = contract_of(run).final_step.value - 1050, run.watch.recent_checks[-1].at
    fast = last + timedelta(minutes=left / 30)
    slow = last + timedelta(minutes=left / 10)
    usual = last + timedelta(minutes=left / (50 / 3))
    found = expected_end(run)
    assert found is not None
    assert abs(found.at - usual) < timedelta(seconds=1)
    assert abs(found.earliest - fast) < timedelta(seconds=1)
    assert found.latest is not None
    assert abs(found.latest - slow) < timedelta(seconds=1)


def test_a_stall_leaves_the_latest_end_open() -> None:
    found = expected_end(at_steps(1000, 1010, 1020, 1020, 1020))
    assert found is not None
    assert found.latest is None


def test_no_end_is_promised_without_a_pace() -> None:
    none: list[Eta | None] = [
        expected_end(at_steps(1000, 1010)),
        expected_end(at_steps(1000, 1000, 1000)),
        expected_end(at_steps(1000, 1010, 900, 910)),
    ]
    assert none == [None, None, None]
