"""Milestone seals: a verified checkpoint of a run that continues.

Phase and watch stay unchanged.
"""

from watchkeeper.domain.reading.metrics.latest_metrics import kept_metrics
from watchkeeper.domain.rules.seal.artefacts import (
    checkpoint_lack,
    commit_lack,
    identity_lack,
    own_checkpoint,
)
from watchkeeper.domain.rules.seal.commands import VerifyMilestone
from watchkeeper.domain.rules.shared.refusals import Refusal, Refused
from watchkeeper.domain.run.events import RunEvent
from watchkeeper.domain.run.run import Run, contract_of
from watchkeeper.domain.run.seal import MilestoneVerified
from watchkeeper.domain.values.contract.contract import Contract, Lane


def milestone_tag(contract: Contract, step: int) -> str:
    """Return the name of the tag of a milestone."""
    kind = "hero" if contract.lane is Lane.HERO else "run"
    return f"{kind}/{contract.run}/step-{step}"


def verify_milestone(run: Run, command: VerifyMilestone) -> list[RunEvent] | Refused:
    """Verify a checkpoint for a milestone, or refuse it and name what is missing."""
    contract, facts = contract_of(run), command.facts
    tag = milestone_tag(contract, command.step)
    if tag in run.seal.milestones:
        return []  # The milestone is already verified. Its tag was pushed or is being pushed.
    found = own_checkpoint(run, facts, command.step)
    lacks = (
        checkpoint_lack(run, facts, f"checkpoint step-{command.step}", found, "not there"),
        identity_lack(run, facts),
        commit_lack(run, facts, "milestone tag"),
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
            metrics=kept_metrics(tracker.metrics),
        )
    ]
