"""The orchestrator's own tries within an instance: when one of them failed and another followed.

What follows resumes from whatever was complete by then, and not from what the instance was launched
with.
"""

from datetime import datetime, timedelta
from typing import NamedTuple

from watchkeeper.domain.events import CheckRecorded
from watchkeeper.domain.observed.sources import AttemptFacts
from watchkeeper.domain.values import TERMINAL

FOLLOWS_WITHIN = timedelta(minutes=10)
"""How long after a try failed its last checkpoint may still become complete."""

RETRIES_MAX = 16
"""Failed tries remembered of an instance: the newest."""


class Retried(NamedTuple):
    """A try that failed, and was followed by another.

    Attributes:
        since: It failed then, or later.
        until: What it left was complete by then; none where nobody told when it failed.
    """

    since: datetime
    until: datetime | None


def with_retries(
    known: tuple[Retried, ...], failed: int, check: CheckRecorded, before: datetime | None
) -> tuple[Retried, ...]:
    """Return the tries that failed below an instance and were followed by another.

    Args:
        known: Those known of the instance, with or without the check's: the answer is the same.
        failed: How many failed tries are known of it, likewise.
        check: The check.
        before: When the instance was looked at before it.
    """
    job = check.job
    if job is None:
        return known
    ended = [one for one in check.attempts if one.ended_at is not None]
    if job.state in TERMINAL:
        # The try that ended the instance is followed by none.
        ended = [one for one in ended if _is_followed(one, check)]
    told = [Retried(at, at + FOLLOWS_WITHIN) for one in ended if (at := one.ended_at) is not None]
    more = job.attempts_failed > failed
    if more and not told and job.state not in TERMINAL and before is not None:
        told = [Retried(before, None)]
    new = [one for one in dict.fromkeys(told) if one not in known]
    return (*known, *new)[-RETRIES_MAX:] if new else known


def _is_followed(attempt: AttemptFacts, check: CheckRecorded) -> bool:
    later = (one for one in check.attempts if one.task == attempt.task)
    return any(one.attempt > attempt.attempt for one in later)
