"""Seals: what must be verified before a run counts as complete (H11).

The source is the section "Seal" of the procedure.
"""

from dataclasses import dataclass, replace

from watchkeeper.domain.reading.metrics.latest_metrics import kept_metrics
from watchkeeper.domain.rules.ends.success import wrong_numbers
from watchkeeper.domain.rules.permits.guarded import GuardedAction, live_consent, used_consent
from watchkeeper.domain.rules.permits.permissions import permit
from watchkeeper.domain.rules.permits.waivers import lack_named, lack_never_waived
from watchkeeper.domain.rules.seal.artefacts import (
    checkpoint_lack,
    commit_lack,
    identity_lack,
    own_checkpoint,
    own_checkpoints,
)
from watchkeeper.domain.rules.seal.commands import VerifySeal
from watchkeeper.domain.rules.shared.apply_pending import apply_pending
from watchkeeper.domain.rules.shared.refusals import Refusal, Refused
from watchkeeper.domain.run.events import RunEvent
from watchkeeper.domain.run.health import DRIFTED, FindingOpened
from watchkeeper.domain.run.queries import earlier_of
from watchkeeper.domain.run.run import Run, contract_of
from watchkeeper.domain.run.seal import SealVerified
from watchkeeper.domain.values.basic import CheckpointFacts, JobState
from watchkeeper.domain.values.causes import IDENTITY, LINEAGE, WRONG_NUMBERS
from watchkeeper.domain.values.contract.contract import checkpoint_root_of, seal_tag_of
from watchkeeper.domain.values.contract.lane_policy import policy_of
from watchkeeper.domain.values.contract.plan import short
from watchkeeper.domain.values.durations import local_day
from watchkeeper.domain.values.lineage import rolled_back_to
from watchkeeper.domain.values.observation.observation import SealFacts


@dataclass(frozen=True, slots=True)
class SealPermission:
    """The missing items of a seal, split by permission.

    Attributes:
        events: Consents granted and used for the waived items.
        waived: The waived items, each with its consent.
        unwaived: The items that block the seal.
    """

    events: tuple[RunEvent, ...] = ()
    waived: tuple[str, ...] = ()
    unwaived: tuple[str, ...] = ()


def missing_for_seal(run: Run, facts: SealFacts) -> tuple[str, ...]:
    """Verify an ended run for a seal; return what is missing, by name."""
    doubts = [doubt for one in run.instances for doubt in one.doubts]
    names = (
        _terminal(run),
        _tracker(run, facts),
        _final(run, facts, _final_checkpoint(run, facts)),
        commit_lack(run, facts, "seal tag"),
        *(f"{WRONG_NUMBERS}: {one.rule} open: {one.summary}" for one in wrong_numbers(run)),
        *(f"{IDENTITY}: {one.rule} open: {one.summary}" for one in _drifted(run)),
        f"{LINEAGE}: {'; '.join(doubts)}" if doubts else "",
    )
    return tuple(name for name in names if name)


def permission_to_seal(
    run: Run, missing: tuple[str, ...], command: VerifySeal
) -> SealPermission | Refused:
    """Find a consent for every missing item; propose requested waivers without a consent.

    No consent is used up while another missing item blocks.
    """
    action = GuardedAction.SEAL_WAIVER
    asked = {lack_named(missing, name) for name in command.waive}
    after, leave, proposals, needed = run, SealPermission(), list[RunEvent](), ""
    for lack in missing:
        wanted = lack in asked
        never = lack_never_waived(lack) or _nothing_to_seal(run, command.facts, lack)
        if never and wanted:
            return Refused(Refusal.WAIVER_FORBIDDEN, f"{lack}: {never}")
        if never or not (wanted or live_consent(run, action, lack, command.now)):
            leave = replace(leave, unwaived=(*leave.unwaived, lack))
            continue
        answer = permit(after, action, lack, command.reason if wanted else "", command)
        if isinstance(answer, Refused):
            if answer.refusal is not Refusal.CONSENT_NEEDED:
                return answer
            needed = ", ".join(filter(None, (needed, answer.detail)))
            proposals += answer.records
            after = apply_pending(after, answer.records, command)
            continue
        after = apply_pending(after, answer.events, command)
        named = f"{lack} (waived by {answer.by}, {answer.consent})"
        events = (*leave.events, *answer.events)
        leave = replace(leave, events=events, waived=(*leave.waived, named))
    if needed:
        return Refused(Refusal.CONSENT_NEEDED, needed, tuple(proposals))
    return leave


def _nothing_to_seal(run: Run, facts: SealFacts, lack: str) -> str:
    if lack.startswith("final checkpoint") and _newest(run, facts) is None:
        return "there is no complete checkpoint that could be sealed instead"
    if lack.startswith("successful end") and policy_of(contract_of(run)).stopped == "failure":
        return "by policy.stopped a run that was stopped is a failure"
    return ""


def seal_of(run: Run, facts: SealFacts, waived: tuple[str, ...]) -> SealVerified:
    """Return the seal of a run if nothing is missing or every missing item was waived."""
    contract = contract_of(run)
    launched = [one.launched_at for one in run.instances if one.launched_at is not None]
    assert launched, "a run that is sealed was launched"
    final = _final_checkpoint(run, facts)
    kept = final is not None and not _final(run, facts, final)
    newest = final if kept else _newest(run, facts)
    assert newest is not None, "nothing is sealed without a complete checkpoint"
    caveats: list[str] = []
    if len(launched) > 1:
        count = len(launched) - 1
        caveats.append(f"{count} interruption{'s' if count > 1 else ''}, all recorded here")
    caveats += [*_dirty(run), *_nan_ranges(run)]
    caveats += [f"sealed without {lack}" for lack in waived]
    seen = facts.observation.tracker
    return SealVerified(
        tag=seal_tag_of(contract, local_day(launched[0], contract.timezone)),
        commit=contract.code.git_sha,
        instance=run.instances[-1].plan.instance,
        final_step=newest.step,
        checkpoint=newest.path,
        tracker_id=seen.tracker_id if seen is not None else run.instances[-1].plan.tracker_id,
        display_name=seen.display_name if seen is not None else contract.tracker.display_name,
        tracker_state=seen.state if seen is not None else "unknown",
        tracker_step=seen.step if seen is not None else None,
        output_root=contract.output_root,
        metrics=kept_metrics(seen.metrics) if seen is not None else {},
        caveats=tuple(caveats),
        waived=waived,
    )


def _drifted(run: Run) -> list[FindingOpened]:
    return [found for kind, found in run.health.findings.items() if kind == DRIFTED]


def _nan_ranges(run: Run) -> list[str]:
    """Name the steps whose numbers were NaN or infinite when their instance ended."""
    back, caveats = rolled_back_to(earlier_of(run)), list[str]()
    for one in run.instances:
        since, name = one.nan_from, one.plan.instance
        if since is None:
            continue
        left = f", left behind by a rollback to step-{back[name]}" if name in back else ""
        last = max(since, one.step_best or since)
        caveats.append(f"{name} logged NaN or infinite numbers from step {since} to {last}{left}")
    return caveats


def _dirty(run: Run) -> list[str]:
    """Return a caveat for each patch of the run's launches, because the commit lacks it."""
    patches = {one.patch: one.patch_kept for one in run.instances if one.launched_at and one.patch}
    if not patches and contract_of(run).code.dirty:
        return ["launched from a dirty tree, its patch was not recorded"]
    caveats: list[str] = []
    for patch, kept in patches.items():
        consent = used_consent(run, GuardedAction.DIRTY_LAUNCH, patch)
        where = f"kept as evidence {kept}" if kept else "not kept"
        by = f" by {consent}" if consent else ""
        caveats.append(f"launched from a dirty tree{by}: patch {short(patch)} {where}")
    return caveats


def _newest(run: Run, facts: SealFacts) -> CheckpointFacts | None:
    """Return the newest checkpoint that could be sealed, by numeric step."""
    whole = [
        one for one in own_checkpoints(run, facts) if not checkpoint_lack(run, facts, "", one, "")
    ]
    return max(whole, key=lambda one: one.step, default=None)


def _final_checkpoint(run: Run, facts: SealFacts) -> CheckpointFacts | None:
    return own_checkpoint(run, facts, contract_of(run).final_step.value)


def _terminal(run: Run) -> str:
    # The orchestrator's report is recorded. A later removal of the cluster does not change it.
    end = run.instances[-1].end
    if end is None or end.state is not JobState.SUCCEEDED:
        said = "nothing" if end is None else end.state.value.upper()
        return f"successful end: the orchestrator says {said}"
    return ""


def _tracker(run: Run, facts: SealFacts) -> str:
    tracker, final = facts.observation.tracker, contract_of(run).final_step.value
    lack = identity_lack(run, facts)
    if lack or tracker is None:
        return lack
    if tracker.state != "finished":
        return f"tracker state: {tracker.state}, not finished"
    # The tracker counts from 0 and may be one less; the checkpoint proves the step.
    if tracker.step is None or tracker.step < final - 1:
        return f"tracker step: {tracker.step}, not {final}"
    return ""


def _final(run: Run, facts: SealFacts, final: CheckpointFacts | None) -> str:
    contract = contract_of(run)
    wanted = f"final checkpoint step-{contract.final_step.value}"
    absent = f"not below {checkpoint_root_of(contract)}"
    return checkpoint_lack(run, facts, wanted, final, absent)
