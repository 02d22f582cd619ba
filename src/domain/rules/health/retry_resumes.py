"""Checks from which checkpoint the orchestrator's own retry resumed (H17).

It must resume from the newest checkpoint.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

from watchkeeper.domain.run.check_history import is_listed
from watchkeeper.domain.run.retries import with_retries
from watchkeeper.domain.run.run import Run
from watchkeeper.domain.run.watch import CheckRecorded
from watchkeeper.domain.values.instance import Retried


class _Known(NamedTuple):
    """A complete checkpoint, with the time of its write and the time since it is known."""

    written_at: datetime | None
    came_at: datetime | None


def orchestrator_retries(run: Run, check: CheckRecorded) -> tuple[Retried, ...]:
    """Return the tries of the newest instance that failed and were followed by another."""
    before = run.watch.last_check.at if run.watch.last_check is not None else None
    newest = run.instances[-1]
    return with_retries(newest.retried, newest.attempts_failed, check, before)


def retry_mismatch(run: Run, check: CheckRecorded, retries: tuple[Retried, ...]) -> str | None:
    """Describe how a retry did not resume from the newest complete checkpoint of its time.

    Args:
        run: The run before or after the check is folded in; the answer is the same.
        check: The check, which holds the resume step.
        retries: The tries that failed before. The log does not say which try the resume followed,
            so a match with any of them is enough.

    Returns:
        Empty if it fits; `None` if unknown.
    """
    said = check.startup.resumed_step
    known = _known(run, check)
    fits = [_fits(said, retried, known, check) for retried in retries] if said is not None else []
    if True in fits:
        return ""
    if None in fits or not fits:
        return None
    newest = newest_then(run, check, retries[-1])
    wanted = f"instead of step {newest}" if newest is not None else "which nobody listed"
    return f"resumed from step {said} after a try that failed, {wanted}"


def newest_then(run: Run, check: CheckRecorded, retried: Retried) -> int | None:
    """Return the newest checkpoint that was known to be complete when a try failed."""
    there = [step for step, one in _known(run, check).items() if _came_by(one, retried.since)]
    return max(there, default=None)


def _known(run: Run, check: CheckRecorded) -> Mapping[int, _Known]:
    # A checkpoint first listed by this check is validated after it.
    new = {
        one.step: _Known(one.written_at, one.written_at)
        for one in check.new_checkpoints
        if one.metadata_step == one.step
    }
    return new | {
        step: _Known(one.written_at, one.came_at) for step, one in run.checkpoints.validated.items()
    }


def _fits(
    said: int, retried: Retried, known: Mapping[int, _Known], check: CheckRecorded
) -> bool | None:
    if any(step > said and _came_by(one, retried.since) for step, one in known.items()):
        return False
    own = known.get(said)
    if own is None:
        # A replaced checkpoint is no longer listed. A step above all listed steps never existed.
        above_all = said > max(known, default=-1)
        return False if above_all and is_listed(check) else None
    if retried.until is None or own.written_at is None:
        return True
    return own.written_at <= retried.until


def _came_by(one: _Known, at: datetime) -> bool:
    return one.came_at is not None and one.came_at <= at
