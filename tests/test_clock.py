"""The one clock: wall time can be frozen for tests, limits cannot."""

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import freezegun
import pytest

from watchkeeper import clock
from watchkeeper.ports.sources import Unavailable
from watchkeeper.services.time_limit import call

FROZEN = datetime(2026, 11, 21, 4, 0, tzinfo=UTC)


def test_now_is_aware_and_can_be_frozen() -> None:
    with freezegun.freeze_time(FROZEN):
        assert clock.now() == FROZEN
    assert clock.now().tzinfo is UTC


def test_limits_still_fire_while_the_wall_clock_is_frozen() -> None:
    with freezegun.freeze_time(FROZEN):
        deadline = clock.Deadline.after(timedelta(milliseconds=50))
        assert clock.ExponentialBackoff().wait_until(deadline.expired, timedelta(seconds=5))
        with pytest.raises(subprocess.TimeoutExpired):
            subprocess.run(
                [sys.executable, "-c", "import time; time.sleep(30)"], timeout=0.3, check=False
            )
        with pytest.raises(Unavailable, match="no answer within"):
            call("a silent service", timedelta(milliseconds=200), clock.sleep, timedelta(seconds=2))


def test_a_deadline_expires_and_never_shows_less_than_nothing() -> None:
    deadline = clock.Deadline.after(timedelta(seconds=-1))
    assert deadline.expired()
    assert deadline.remaining() == timedelta(0)
    with pytest.raises(TimeoutError, match="push"):
        deadline.raise_if_expired("push")
    assert not clock.Deadline.after(timedelta(hours=1)).expired()


def test_a_timer_starts_again_after_a_reset() -> None:
    timer = clock.Timer()
    clock.sleep(timedelta(milliseconds=300))
    first = timer.elapsed()
    timer.reset()
    assert timer.elapsed() < first


def test_waits_grow_to_the_maximum_and_start_again_after_a_reset() -> None:
    backoff = clock.ExponentialBackoff(timedelta(seconds=1), timedelta(seconds=4), 2, 0)
    waits = [backoff.next_wait().total_seconds() for _ in range(4)]
    assert waits == [1, 2, 4, 4]
    backoff.reset()
    assert backoff.next_wait().total_seconds() == 1
    assert backoff.copy().next_wait().total_seconds() == 1


def test_jitter_spreads_a_wait_and_no_wait_is_nothing() -> None:
    backoff = clock.ExponentialBackoff(timedelta(seconds=1), timedelta(seconds=1), 1, 0.5)
    waits = {backoff.next_wait() for _ in range(50)}
    assert len(waits) > 1
    assert all(timedelta(seconds=0.5) <= wait <= timedelta(seconds=1.5) for wait in waits)
    tiny = clock.ExponentialBackoff(timedelta(microseconds=1), timedelta(microseconds=1), 1, 0)
    assert tiny.next_wait() == timedelta(milliseconds=1)


def test_a_condition_that_holds_is_not_waited_for() -> None:
    backoff = clock.ExponentialBackoff(timedelta(hours=1), timedelta(hours=1))
    assert backoff.wait_until(lambda: True, timedelta(0))
    assert not backoff.wait_until(lambda: False, timedelta(0))
    with pytest.raises(TimeoutError, match="ray"):
        backoff.wait_until_or_raise(lambda: False, timedelta(0), "ray")


@pytest.mark.parametrize(
    "wrong",
    [
        {"initial": timedelta(0)},
        {"maximum": timedelta(milliseconds=1)},
        {"factor": 0.5},
        {"jitter": 2.0},
    ],
)
def test_a_setting_out_of_range_is_named(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        clock.ExponentialBackoff(**wrong)
