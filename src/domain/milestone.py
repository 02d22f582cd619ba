"""A milestone seal: a verified checkpoint of a run that goes on. Phase and watch stay."""

from watchkeeper.domain.check import (
    is_older_than_the_run,
    is_own_checkpoint,
    is_rejected,
    kept_metrics,
    unavailable_reason,
)
from watchkeeper.domain.commands_manoeuvres import VerifyMilestone
from watchkeeper.domain.contract import Contract, Lane
from watchkeeper.domain.events import MilestoneVerified, RunEvent
from watchkeeper.domain.observation import SealFacts
from watchkeeper.domain.refusals import Refusal, Refused
from watchkeeper.domain.state import Run, contract_of
from watchkeeper.domain.values import CheckpointFacts


def milestone_tag(contract: Contract, step: int) -> str:
    """Return the name of the tag of a milestone."""
    kind = "hero" if contract.lane is Lane.HERO else "run"
    return f"{kind}/{contract.run}/step-{step}"


def verify_milestone(run: Run, command: VerifyMilestone) -> list[RunEvent] | Refused:
    """Hold a checkpoint against what a milestone needs; whatever is missing refuses it by name."""
    contract, facts = contract_of(run), command.facts
    tag = milestone_tag(contract, command.step)
    if tag in run.manoeuvres.milestones:
        return []  # It is verified; its tag is pushed, or is being pushed.
    found = _named(contract, facts, command.step)
    lacks = (
        _checkpoint(run, facts, found, command.step),
        _tracker(run, facts),
        _commit(run, facts),
    )
    missing = [lack for lack in lacks if lack]
    if missing:
        return Refused(Refusal.MILESTONE_BLOCKED, "; ".join(missing))
    tracker = facts.observation.tracker
    assert found is not None, "a missing checkpoint refuses"
    assert tracker is not None, "an unavailable tracker refuses"
    return [
        MilestoneVerified(
            tag=tag,
            commit=contract.code.git_sha,
            instance=run.instances[-1].plan.instance,
            step=command.step,
            checkpoint=found.path,
            tracker_id=tracker.tracker_id,
            display_name=tracker.display_name,
            tracker_step=tracker.step,
            output_root=contract.output_root,
            metrics=kept_metrics(tracker),
        )
    ]


def _named(contract: Contract, facts: SealFacts, step: int) -> CheckpointFacts | None:
    listing = facts.observation.checkpoints
    here = listing.checkpoints if listing is not None else ()
    return next((c for c in here if c.step == step and is_own_checkpoint(contract, c)), None)


def _checkpoint(run: Run, facts: SealFacts, found: CheckpointFacts | None, step: int) -> str:
    wanted = f"checkpoint step-{step}"
    if facts.observation.checkpoints is None:
        return f"{wanted}: {unavailable_reason(facts.observation, 'checkpoints')}"
    if found is None:
        return f"{wanted}: not there"
    if not found.complete:
        return f"{wanted}: {found.reason}"
    if found.metadata_step != found.step:
        return f"{wanted}: its metadata says step {found.metadata_step}"
    if is_rejected(run, found):
        return f"{wanted}: rejected, {run.rejected.get(found.path, 'its lineage was left')}"
    if is_older_than_the_run(run, found):
        return f"{wanted}: written before this run's first launch, so by another run"
    return ""


def _tracker(run: Run, facts: SealFacts) -> str:
    tracker = facts.observation.tracker
    wanted = contract_of(run).tracker.id
    if tracker is None:
        reason = unavailable_reason(facts.observation, "tracker")
        return f"tracker: {reason or 'it has no such run'}"
    if tracker.tracker_id != wanted:
        return f"tracker identity: it shows {tracker.tracker_id}, not {wanted}"
    return ""


def _commit(run: Run, facts: SealFacts) -> str:
    code = contract_of(run).code
    if facts.commit_found is None:
        return f"launch commit {code.git_sha[:8]}: its remote gives no answer"
    if not facts.commit_found:
        return f"launch commit {code.git_sha[:8]}: not on {code.remote}"
    if facts.tag_target and facts.tag_target != code.git_sha:
        return f"milestone tag: it exists already, on {facts.tag_target[:8]}"
    return ""
