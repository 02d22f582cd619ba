"""Decides which listed checkpoints belong to the run, and which are rejected."""

from collections.abc import Mapping

from watchkeeper.domain.run.checkpoints import Checkpoint
from watchkeeper.domain.run.run import Run
from watchkeeper.domain.run.unverified_checkpoints import ONLY_UNNAMED, is_older_than_the_run
from watchkeeper.domain.values.basic import CheckpointFacts
from watchkeeper.domain.values.contract.contract import Contract, checkpoint_root_of
from watchkeeper.domain.values.places import contract_root


def complete_by_step(run: Run) -> Mapping[int, Checkpoint]:
    """Return the run's complete checkpoints so far, by step.

    A checkpoint without a known metadata step counts too: nothing resumes from it, but checkpoints
    are still being written.
    """
    if not run.checkpoints.unverified:
        return run.checkpoints.validated
    own = {
        step: one
        for step, one in run.checkpoints.unverified.items()
        if not is_older_than_the_run(run, one.written_at)
    }
    return {**own, **run.checkpoints.validated}


def has_metadata_now(run: Run, found: CheckpointFacts) -> bool:
    """Say whether a checkpoint, rejected only for missing metadata, now shows its metadata.

    It is then judged as new, whatever its time: perhaps only the listing lacked the metadata.
    Rejections for other reasons stay.
    """
    if found.metadata_step is None or run.checkpoints.rejected.get(found.path) not in ONLY_UNNAMED:
        return False
    seen = next(
        (one for one in run.checkpoints.unverified.values() if one.path == found.path), None
    )
    # A listing without times does not turn another run's checkpoint into one of this run.
    return seen is not None and not is_older_than_the_run(run, found.written_at or seen.written_at)


def is_rejected(run: Run, found: CheckpointFacts) -> bool:
    """Say whether a checkpoint in its current state must not be resumed from.

    After a rollback the paths above its step are written again. A checkpoint written later than the
    rejected one, and after the rejection, belongs to the new lineage. A checkpoint that only lacked
    its metadata is judged again once it shows it.
    """
    written = found.written_at
    if found.path in run.checkpoints.rejected and not has_metadata_now(run, found):
        known = run.operator.rejected_at.get(found.path)
        if known is None or written is None or written <= known:
            return True
    left = [one for one in run.operator.lineages if found.step > one.above_step]
    return any(written is None or written <= one.at for one in left)


def is_own_checkpoint(contract: Contract, found: CheckpointFacts) -> bool:
    """Say whether a checkpoint lies directly below the run's own root.

    A store may list another prefix by mistake; only this run's root counts as lineage.
    """
    return lies_in(contract_root(checkpoint_root_of(contract)), found)


def lies_in(root: str, found: CheckpointFacts) -> bool:
    """Say whether a checkpoint lies directly below a root."""
    return contract_root(found.path).rpartition("/")[0] == root
