"""Checkpoints that were written while the run's numbers were NaN or infinite.

A checkpoint is good only up to the last step with finite numbers. Later checkpoints hold unusable
weights.
"""

from watchkeeper.domain.run.checkpoints import Checkpoint
from watchkeeper.domain.run.run import Run
from watchkeeper.domain.run.watch import CheckRecorded
from watchkeeper.domain.values.instance import Instance
from watchkeeper.domain.values.observation.measured import FINITE_AGAIN, FINITE_AGAIN_CHECKS


def nan_since(known: int | None, check: CheckRecorded) -> int | None:
    """Return the first step of a NaN that is ongoing after a check, or `None`.

    Args:
        known: The first step of the NaN before the check.
        check: The check, with the non-finite metrics and the finite points since.
    """
    by_points = check.measured.source == "history"
    holding = [
        one.first_step
        for one in check.measured.not_finite
        if one.finite_since < (FINITE_AGAIN if by_points or one.line else FINITE_AGAIN_CHECKS)
    ]
    if holding:
        return min(holding) if known is None else min(known, *holding)
    # Without a point the answer is unknown.
    return None if check.measured.points else known


def bad_from(run: Run, checkpoint: Checkpoint) -> int | None:
    """Return the first step with bad numbers of a checkpoint's writer, or `None`."""
    writer = _writer(run, checkpoint)
    since = writer.nan_from if writer is not None else None
    return since if since is not None and checkpoint.step >= since else None


def last_good(run: Run) -> Checkpoint | None:
    """Return the newest validated checkpoint with finite numbers."""
    good = (one for one in run.checkpoints.validated.values() if bad_from(run, one) is None)
    return max(good, key=lambda one: one.step, default=None)


def _writer(run: Run, checkpoint: Checkpoint) -> Instance | None:
    """Return the instance that was live when a checkpoint came."""
    came = checkpoint.came_at
    for one in reversed(run.instances):
        if one.launched_at is not None and (came is None or one.launched_at <= came):
            return one
    return None
