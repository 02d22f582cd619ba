"""The orchestrator's own retries within an instance.

A retry is recorded as the time of the failure, and the time by which the last checkpoint was
complete. It resumes from this checkpoint, not from the launch's checkpoint.
"""

from datetime import datetime, timedelta

from watchkeeper.domain.run.watch import CheckRecorded
from watchkeeper.domain.values.basic import TERMINAL
from watchkeeper.domain.values.check import Progress
from watchkeeper.domain.values.instance import Retried, Tried
from watchkeeper.domain.values.observation.sources import AttemptFacts, AttemptState

FOLLOWS_WITHIN = timedelta(minutes=10)
"""How long after a failed attempt its last checkpoint may still become complete."""

RETRIES_MAX = 16
"""Maximum number of failed attempts kept for an instance, the newest."""

TRIES_MAX = 64
"""Maximum number of the whole job's failed attempts kept for an instance, the newest."""

TOGETHER = timedelta(minutes=10)
"""Tasks of a gang that fail within this time of each other are one failed attempt."""


def with_tries(
    known: tuple[Tried, ...],
    failed: int,
    check: CheckRecorded,
    at: datetime,
    progress: Progress | None,
) -> tuple[Tried, ...]:
    """Return an instance's failed attempts, including those that a check first shows.

    Args:
        known: The failed attempts that were known before the check.
        failed: How many failed attempts the orchestrator counted before.
        check: The check. Its job gives the number of failed attempts; no more are taken from its
            tasks.
        at: When it was made.
        progress: The newest progress before it.
    """
    job = check.job
    if job is None or job.attempts_failed <= len(known):
        return known
    seen = (None, 0) if progress is None else (progress.step, progress.uncertainty)
    rows = list(check.attempts)
    if job.state in TERMINAL:
        # No attempt follows the one that ended the instance.
        rows = [one for one in rows if _is_followed(one, check)]
    # In a gang, killed tasks are consequences of the failed task, so they come last.
    rows.sort(key=lambda one: one.state is AttemptState.KILLED and not one.oom)
    tries = list(known)
    for row in rows:
        new = Tried(row.ended_at or row.started_at or at, row, *seen)
        if len(tries) < job.attempts_failed and not any(is_same(one, new) for one in tries):
            tries.append(new)
    if len(tries) == len(known) and job.attempts_failed > failed and job.state not in TERMINAL:
        tries.append(Tried(at, None, *seen))
    return tuple(sorted(tries, key=lambda one: one.at))[-TRIES_MAX:]


def is_same(known: Tried, new: Tried) -> bool:
    """Return whether a task's failure belongs to an already known failed attempt."""
    if known.facts is None or new.facts is None:
        return new.at <= known.at
    if new.facts.ended_at is None and new.facts.started_at is None:
        return new.facts.attempt <= known.facts.attempt
    if known.facts.task == new.facts.task and known.facts.attempt != new.facts.attempt:
        return False
    return abs(known.at - new.at) <= TOGETHER


def with_retries(
    known: tuple[Retried, ...], failed: int, check: CheckRecorded, before: datetime | None
) -> tuple[Retried, ...]:
    """Return the failed attempts inside an instance that another attempt followed.

    Args:
        known: The instance's known retries. The result is the same with or without this check's
            retries.
        failed: Number of the instance's known failed attempts.
        check: The check.
        before: When the previous check of the instance was made.
    """
    job = check.job
    if job is None:
        return known
    ended = [one for one in check.attempts if one.ended_at is not None]
    if job.state in TERMINAL:
        # No attempt follows the one that ended the instance.
        ended = [one for one in ended if _is_followed(one, check)]
    found = [Retried(at, at + FOLLOWS_WITHIN) for one in ended if (at := one.ended_at) is not None]
    more = job.attempts_failed > failed
    if more and not found and job.state not in TERMINAL and before is not None:
        found = [Retried(before, None)]
    new = [one for one in dict.fromkeys(found) if one not in known]
    return (*known, *new)[-RETRIES_MAX:] if new else known


def _is_followed(attempt: AttemptFacts, check: CheckRecorded) -> bool:
    later = (one for one in check.attempts if one.task == attempt.task)
    return any(one.attempt > attempt.attempt for one in later)
