"""Sealing: what must be seen before a run counts as complete (procedure section "Seal", H11)."""

from watchkeeper.domain.check import (
    is_older_than_the_run,
    is_own_checkpoint,
    kept_metrics,
    unavailable_reason,
)
from watchkeeper.domain.contract import checkpoint_root_of, seal_tag_of
from watchkeeper.domain.durations import local_day
from watchkeeper.domain.events import SealBlocked, SealVerified
from watchkeeper.domain.observation import SealFacts
from watchkeeper.domain.state import Finished, Run, contract_of
from watchkeeper.domain.values import CheckpointFacts, JobState


def verify_seal(run: Run, phase: Finished, facts: SealFacts) -> SealVerified | SealBlocked:
    """Hold a finished run against what a seal needs; whatever is missing blocks it by name."""
    contract = contract_of(run)
    seen = facts.observation
    final = _final_checkpoint(run, facts)
    missing = tuple(
        name
        for name in (
            _terminal(run),
            _tracker(run, facts),
            _final(run, facts, final),
            _commit(run, facts),
        )
        if name
    )
    if missing:
        return SealBlocked(missing=missing)
    assert final is not None, "a missing final checkpoint blocks"
    assert seen.tracker is not None, "an unavailable tracker blocks"
    launched = [one.launched_at for one in run.instances if one.launched_at is not None]
    assert launched, "a finished run was launched"
    caveats: list[str] = []
    if len(launched) > 1:
        count = len(launched) - 1
        caveats.append(f"{count} interruption{'s' if count > 1 else ''}, all recorded here")
    if contract.code.dirty:
        caveats.append("launched from a dirty tree")
    return SealVerified(
        tag=seal_tag_of(contract, local_day(launched[0], contract.timezone)),
        commit=contract.code.git_sha,
        instance=phase.plan.instance,
        final_step=contract.final_step.value,
        checkpoint=final.path,
        tracker_id=seen.tracker.tracker_id,
        display_name=seen.tracker.display_name,
        tracker_state=seen.tracker.state,
        tracker_step=seen.tracker.step,
        output_root=contract.output_root,
        metrics=kept_metrics(seen.tracker),
        caveats=tuple(caveats),
    )


def _final_checkpoint(run: Run, facts: SealFacts) -> CheckpointFacts | None:
    listing = facts.observation.checkpoints
    if listing is None:
        return None
    contract = contract_of(run)
    own = (c for c in listing.checkpoints if is_own_checkpoint(contract, c))
    return next((c for c in own if c.step == contract.final_step.value), None)


def _terminal(run: Run) -> str:
    # Its word is on record; a cluster that is torn down since takes nothing of it back.
    end = run.instances[-1].end
    if end is None or end.state is not JobState.SUCCEEDED:
        said = "nothing" if end is None else end.state.value.upper()
        return f"successful end: the orchestrator says {said}"
    return ""


def _tracker(run: Run, facts: SealFacts) -> str:
    contract = contract_of(run)
    tracker = facts.observation.tracker
    if tracker is None:
        reason = unavailable_reason(facts.observation, "tracker")
        return f"tracker: {reason or 'it has no such run'}"
    if tracker.tracker_id != contract.tracker.id:
        return f"tracker identity: it shows {tracker.tracker_id}, not {contract.tracker.id}"
    if tracker.state != "finished":
        return f"tracker state: {tracker.state}, not finished"
    # The tracker counts from 0 and may be one less; the checkpoint proves the step.
    if tracker.step is None or tracker.step < contract.final_step.value - 1:
        return f"tracker step: {tracker.step}, not {contract.final_step.value}"
    return ""


def _final(run: Run, facts: SealFacts, final: CheckpointFacts | None) -> str:
    contract = contract_of(run)
    wanted = f"final checkpoint step-{contract.final_step.value}"
    if facts.observation.checkpoints is None:
        return f"{wanted}: {unavailable_reason(facts.observation, 'checkpoints')}"
    if final is None:
        return f"{wanted}: not below {checkpoint_root_of(contract)}"
    if not final.complete:
        return f"{wanted}: {final.reason}"
    if final.metadata_step != final.step:
        return f"{wanted}: its metadata says step {final.metadata_step}"
    if is_older_than_the_run(run, final):
        return f"{wanted}: written before this run's first launch, so by another run"
    return ""


def _commit(run: Run, facts: SealFacts) -> str:
    contract = contract_of(run)
    sha = contract.code.git_sha
    if facts.commit_found is None:
        return f"launch commit {sha[:8]}: its remote gives no answer"
    if not facts.commit_found:
        return f"launch commit {sha[:8]}: not on {contract.code.remote}"
    if facts.tag_target and facts.tag_target != sha:
        return f"seal tag: it exists already, on {facts.tag_target[:8]}"
    return ""
