"""The one module that reads clocks and waits.

Wall-clock times are aware datetimes and come from `now`. Limits use the monotonic clock, so a step
of the wall clock does not change them.
"""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

_WAIT_MIN_S = 0.001
"""No wait is shorter than this, so that a zero back-off does not spin."""


_CHANCE = random.Random()
"""A private generator: code that seeds or saves the global one is not disturbed by waits on other
threads."""


def _monotonic_s() -> float:
    # Not `time.monotonic`: a test that freezes the wall clock freezes that one too. A limit must
    # still fire.
    return time.clock_gettime(time.CLOCK_MONOTONIC)


def now() -> datetime:
    """Return the wall-clock time, in UTC and aware."""
    return datetime.now(UTC)


def sleep(duration: timedelta) -> None:
    """Wait for a duration; a negative one does not wait."""
    time.sleep(max(0.0, duration.total_seconds()))


@dataclass(frozen=True, slots=True)
class Deadline:
    """A moment on the monotonic clock after which an operation times out.

    Args:
        at_s: Seconds on the monotonic clock; made by `Deadline.after`.
    """

    at_s: float

    @classmethod
    def after(cls, limit: timedelta) -> "Deadline":
        """Return the deadline that is `limit` from now."""
        return cls(_monotonic_s() + limit.total_seconds())

    def expired(self) -> bool:
        """Say whether the moment has come."""
        return _monotonic_s() >= self.at_s

    def remaining(self) -> timedelta:
        """Return the time left, never below zero."""
        return timedelta(seconds=max(0.0, self.at_s - _monotonic_s()))

    def raise_if_expired(self, doing: str) -> None:
        """Raise when the moment has come.

        Args:
            doing: What was in progress, for the message.

        Raises:
            TimeoutError: The deadline has passed.
        """
        if self.expired():
            raise TimeoutError(f"{doing}: no answer within the time allowed")


@dataclass(slots=True)
class Timer:
    """Measures how long something took, on the monotonic clock."""

    started_s: float = field(default_factory=_monotonic_s)

    def elapsed(self) -> timedelta:
        """Return the time since the start or the last reset."""
        return timedelta(seconds=_monotonic_s() - self.started_s)

    def reset(self) -> None:
        """Start again from zero."""
        self.started_s = _monotonic_s()


@dataclass(slots=True)
class ExponentialBackoff:
    """Waits that grow by a factor up to a maximum, each spread by jitter.

    The jitter is applied after the maximum, so a wait may exceed it by that share.

    Args:
        initial: The first wait.
        maximum: The wait that is not exceeded before jitter.
        factor: Growth from one wait to the next, 1 or more.
        jitter: Share by which a wait is spread either way, from 0 to 1.

    Raises:
        ValueError: An argument is outside its range.
    """

    initial: timedelta = timedelta(milliseconds=50)
    maximum: timedelta = timedelta(seconds=1)
    factor: float = 1.5
    jitter: float = 0.1
    attempt: int = 0

    def __post_init__(self) -> None:
        """Check the ranges."""
        if self.initial <= timedelta(0):
            raise ValueError(f"initial must be more than zero, got {self.initial}")
        if self.maximum < self.initial:
            raise ValueError(f"maximum must be at least initial, got {self.maximum}")
        if self.factor < 1:
            raise ValueError(f"factor must be 1 or more, got {self.factor}")
        if not 0 <= self.jitter <= 1:
            raise ValueError(f"jitter must lie between 0 and 1, got {self.jitter}")

    def next_wait(self) -> timedelta:
        """Return the next wait and move on to the one after it."""
        # The exponent is capped so that thousands of attempts do not overflow a float.
        grown_s = self.initial.total_seconds() * self.factor ** min(self.attempt, 200)
        wait_s = min(grown_s, self.maximum.total_seconds())
        self.attempt += 1
        spread_s = wait_s * self.jitter * _CHANCE.uniform(-1, 1)
        return timedelta(seconds=max(_WAIT_MIN_S, wait_s + spread_s))

    def reset(self) -> None:
        """Begin again at the first wait."""
        self.attempt = 0

    def copy(self) -> "ExponentialBackoff":
        """Return a fresh back-off with the same settings."""
        return ExponentialBackoff(self.initial, self.maximum, self.factor, self.jitter)

    def wait_until(self, condition: Callable[[], bool], limit: timedelta) -> bool:
        """Wait until a condition holds; test it first, then the limit, then wait.

        Args:
            condition: Called between waits; it should be quick.
            limit: How long to wait at most.

        Returns:
            Whether the condition held before the limit.
        """
        deadline = Deadline.after(limit)
        while not condition():
            if deadline.expired():
                return False
            sleep(min(self.next_wait(), deadline.remaining()))
        return True

    def wait_until_or_raise(
        self, condition: Callable[[], bool], limit: timedelta, doing: str
    ) -> None:
        """Wait until a condition holds, or raise.

        Raises:
            TimeoutError: The condition did not hold within the limit.
        """
        if not self.wait_until(condition, limit):
            raise TimeoutError(f"{doing}: not within {limit.total_seconds():g} s")
