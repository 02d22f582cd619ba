"""Artefact checks shared by seals and milestones.

Each check returns the missing item by name, or an empty text.
"""

from watchkeeper.domain.rules.health.seen_checkpoints import is_own_checkpoint, is_rejected
from watchkeeper.domain.rules.watch.check import unavailable_reason
from watchkeeper.domain.run.run import Run, contract_of
from watchkeeper.domain.run.unverified_checkpoints import is_older_than_the_run
from watchkeeper.domain.values.basic import CheckpointFacts
from watchkeeper.domain.values.observation.observation import SealFacts


def own_checkpoints(run: Run, facts: SealFacts) -> tuple[CheckpointFacts, ...]:
    """Return the listed checkpoints below the run's own root."""
    listing, contract = facts.observation.checkpoints, contract_of(run)
    here = listing.checkpoints if listing is not None else ()
    return tuple(one for one in here if is_own_checkpoint(contract, one))


def own_checkpoint(run: Run, facts: SealFacts, step: int) -> CheckpointFacts | None:
    """Return the run's own checkpoint of a step, complete or not, or `None`."""
    return next((one for one in own_checkpoints(run, facts) if one.step == step), None)


def checkpoint_lack(
    run: Run, facts: SealFacts, wanted: str, found: CheckpointFacts | None, absent: str
) -> str:
    """Return what a checkpoint lacks for a tag; empty if nothing.

    Args:
        run: The run that the checkpoint must belong to.
        facts: The facts for the seal.
        wanted: The name, such as `final checkpoint step-1500`.
        found: The listed checkpoint; `None` if it was not listed.
        absent: The text if it was not listed.
    """
    if facts.observation.checkpoints is None:
        return f"{wanted}: {unavailable_reason(facts.observation, 'checkpoints')}"
    if found is None:
        return f"{wanted}: {absent}"
    if not found.complete:
        return f"{wanted}: {found.reason}"
    if found.metadata_step != found.step:
        return f"{wanted}: its metadata says step {found.metadata_step}"
    if is_rejected(run, found):
        why = run.checkpoints.rejected.get(found.path, "its lineage was left")
        return f"{wanted}: rejected, {why}"
    if is_older_than_the_run(run, found.written_at):
        return f"{wanted}: written before this run's first launch, so by another run"
    return ""


def identity_lack(run: Run, facts: SealFacts) -> str:
    """Return why the tracker does not show this run; empty if it does."""
    tracker, wanted = facts.observation.tracker, run.instances[-1].plan.tracker_id
    if tracker is None:
        reason = unavailable_reason(facts.observation, "tracker")
        return f"tracker: {reason or 'it has no such run'}"
    if tracker.tracker_id != wanted:
        return f"tracker identity: it shows {tracker.tracker_id}, not {wanted}"
    return ""


def commit_lack(run: Run, facts: SealFacts, tag: str) -> str:
    """Return why the launch commit cannot be tagged; empty if it can.

    Args:
        run: The run.
        facts: The facts for the seal.
        tag: The name for the tag, such as `seal tag`.
    """
    code = contract_of(run).code
    if facts.commit_found is None:
        return f"launch commit {code.git_sha[:8]}: its remote gives no answer"
    if not facts.commit_found:
        return f"launch commit {code.git_sha[:8]}: not on {code.remote}"
    if facts.tag_target and facts.tag_target != code.git_sha:
        return f"{tag}: it exists already, on {facts.tag_target[:8]}"
    return ""
