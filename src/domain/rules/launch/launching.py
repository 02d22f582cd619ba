"""Handlers of the commands that start an instance: launch, approve, relaunch."""

from datetime import datetime

from watchkeeper.domain.rules.ends.registry import RECOVERY_RULES
from watchkeeper.domain.rules.health.registry import FindingChange
from watchkeeper.domain.rules.launch.commands import (
    ApproveLaunch,
    ConfirmLaunched,
    Relaunch,
    ReportRefusedLaunch,
    RequestLaunch,
)
from watchkeeper.domain.rules.launch.drift_finding import drift_at_gate
from watchkeeper.domain.rules.launch.gate.base import UNKNOWN_SOURCE, PreviousLaunch
from watchkeeper.domain.rules.launch.gate.gate import Gate, blocks, covering_approval, preflight
from watchkeeper.domain.rules.permits.guarded import GuardedAction, used_consent
from watchkeeper.domain.rules.permits.permissions import refuse_non_human
from watchkeeper.domain.rules.permits.standing_waivers import waivers_for
from watchkeeper.domain.rules.permits.waivers import live_waivers
from watchkeeper.domain.rules.shared.refusals import Refusal, Refused
from watchkeeper.domain.run.ends import Action, DecisionMade, RunStopped
from watchkeeper.domain.run.events import RunEvent
from watchkeeper.domain.run.launch import (
    InstanceLaunched,
    LaunchApproved,
    LaunchRefused,
    LaunchRequested,
    PreflightRecorded,
)
from watchkeeper.domain.run.monitor_accuracy import BY_A_HUMAN
from watchkeeper.domain.run.operator import RollbackApproved
from watchkeeper.domain.run.permits import ConsentUsed, Waiver
from watchkeeper.domain.run.phases import Interrupted, Launching
from watchkeeper.domain.run.queries import escalation_of
from watchkeeper.domain.run.run import Run, contract_of, dri_of
from watchkeeper.domain.values.basic import SourceState
from watchkeeper.domain.values.contract.contract import Contract, cadence_of
from watchkeeper.domain.values.contract.lane_policy import policy_of
from watchkeeper.domain.values.contract.plan import (
    DIGEST_SHOWN,
    GateFinding,
    LaunchPlan,
    identity_digest,
    make_plan,
    names_plan,
    plan_digest,
)
from watchkeeper.domain.values.observation.observation import GateFacts

COVERED_RULES = frozenset(rule.id for rule in RECOVERY_RULES if rule.covered)
"""Rules whose relaunch is covered by an approval of an earlier plan.

R7 and R16 relaunch after a repair. R5 relaunches at the commit of a small fix, which the approval
also covers. R18 relaunches at a human's request, R19 on a human's answer. A rollback and a relaunch
by any other rule need a new approval.
"""

Outcome = list[RunEvent] | Refused


def plan_first_instance(contract: Contract, submission_id: str) -> LaunchPlan:
    """Return the plan of a run's first instance."""
    source = contract.initialize_from.rstrip("/")
    name = source.rpartition("/")[2]
    numeric = name.removeprefix("step-")
    step = int(numeric) if name.startswith("step-") and numeric.isdigit() else None
    return make_plan(
        contract, number=1, submission_id=submission_id, resume_from=source, resume_step=step
    )


def launch(run: Run, command: RequestLaunch) -> Outcome:
    """Check the first instance at the gate and, if nothing blocks, request it."""
    contract = contract_of(run)
    plan = plan_first_instance(contract, command.submission_id)
    requester = command.requester or command.actor.principal
    gate = Gate(
        contract,
        plan,
        command.facts,
        run.permits.approvals,
        launcher=command.actor,
        consents=run.permits.consents,
        now=command.now,
        waivers=all_waivers(run, contract, command.facts, requester, command.now),
    )
    return _request(run, gate, "launch", requester)


def all_waivers(
    run: Run, contract: Contract, facts: GateFacts, requester: str, now: datetime
) -> tuple[Waiver, ...]:
    """Return the waivers for a launch now: the run's own, then standing waivers."""
    standing = waivers_for(facts.standing, contract.lane, requester, now) if requester else ()
    return live_waivers(run, now) + standing


def _request(run: Run, gate: Gate, reason: str, requester: str) -> list[RunEvent]:
    """Record the preflight and, if nothing blocks, the launch request."""
    findings = preflight(gate)
    digest = plan_digest(gate.plan)
    checked = PreflightRecorded(plan=gate.plan, digest=digest, findings=findings, facts=gate.facts)
    if blocks(findings):
        same = run.launch.preflight is not None and run.launch.preflight == checked
        # A repeated answer adds nothing to the history.
        return [] if same else [checked]
    approval = covering_approval(gate.approvals, gate.plan)
    waiver = next((finding.waiver for finding in findings if finding.rule == "L11"), "")
    assert approval is not None or waiver, "L11 blocks a plan that nothing covers"
    requested = LaunchRequested(
        plan=gate.plan,
        digest=digest,
        approval="" if approval is None else approval.name,
        preflight=run.version + 1,
        reason=reason,
        waiver="" if approval is not None else waiver,
        # A relaunch uses the same standing waiver, so the requester is remembered.
        requester=requester if approval is None else "",
    )
    return [checked, *consents_used(run, findings), requested]


def consents_used(run: Run, findings: tuple[GateFinding, ...]) -> list[RunEvent]:
    """Return the events that use up the consents of a launch."""
    names = {finding.consent for finding in findings if finding.consent}
    return [
        ConsentUsed(consent=one.name, action=one.action, target=one.target, digest=one.digest)
        for one in run.permits.consents
        if one.name in names
    ]


def approve(run: Run, command: ApproveLaunch) -> Outcome:
    """Record a human's approval of the plan that was last checked."""
    if command.actor.kind != "human":
        return refuse_non_human(run, command)
    checked = run.launch.preflight
    if checked is not None and any(
        checked.plan.instance == one.plan.instance for one in run.instances
    ):
        return Refused(Refusal.ALREADY_LAUNCHED, checked.plan.instance)
    if checked is None or not names_plan(command.digest, checked.digest):
        return Refused(Refusal.PLAN_UNKNOWN, other_plan(run.slug, command.digest, checked))
    known = next(
        (one for one in run.permits.approvals if one.digest == checked.digest and not one.revoked),
        None,
    )
    dri = contract_of(run).dri
    # The DRI's own approval also proves that they know of the launch (L9).
    is_contact = command.actor.principal == dri and known is not None and known.by != dri
    if known is not None and not is_contact:
        return Refused(Refusal.ALREADY_CLEARED, run.slug)
    lifted = {"L11", "L9"} if command.actor.principal == dri else {"L11"}
    others = [finding.rule for finding in blocks(checked.findings) if finding.rule not in lifted]
    if others:
        return Refused(Refusal.PLAN_BLOCKED, ", ".join(others))
    approved = LaunchApproved(
        approval=f"a-{run.permits.approvals_given + 1}",
        digest=checked.digest,
        identity=identity_digest(checked.plan),
        note=command.note,
    )
    return [approved]


def other_plan(slug: str, named: str, checked: PreflightRecorded | None) -> str:
    """Return which plan waits for approval, if another plan was named."""
    if checked is None:
        return f"{named}, and no plan of {slug} waits"
    waits = checked.digest[:DIGEST_SHOWN]
    return f"{named}; {slug} waits for plan {waits}: `watchkeeper approve {slug} --plan {waits}`"


def confirm(run: Run, command: ConfirmLaunched) -> Outcome:
    """Record that the orchestrator has the job, with its full identity."""
    assert isinstance(run.phase, Launching), "the table lets only a launch be confirmed"
    plan = run.phase.plan
    if command.instance != plan.instance:
        return Refused(Refusal.WRONG_INSTANCE, command.instance)
    return [launched_event(run, plan, command.launched_at)]


def launched_event(run: Run, plan: LaunchPlan, launched_at: datetime) -> InstanceLaunched:
    """Return the event that the orchestrator has a job, with its full identity."""
    contract = contract_of(run)
    newest = run.instances[-1] if run.instances else None
    patch, kept = (newest.patch, newest.patch_kept) if newest is not None else ("", "")
    checkpoints = contract.checkpoints
    policy = ", ".join(
        text
        for text in (
            f"permanent every {checkpoints.permanent_every_steps} steps"
            if checkpoints.permanent_every_steps
            else "",
            f"temporary every {checkpoints.temporary_every}" if checkpoints.temporary_every else "",
            f"keep {checkpoints.keep_last}" if checkpoints.keep_last else "",
        )
        if text
    )
    scripts = [word for word in plan.command if word.endswith(".py")]
    hardware = contract.hardware
    return InstanceLaunched(
        instance=plan.instance,
        submission_id=plan.submission_id,
        launched_at=launched_at,
        dri=dri_of(run),
        command=plan.command,
        script=contract.code.script or (scripts[0] if scripts else ""),
        orchestrator=plan.orchestrator,
        cluster=plan.cluster,
        git_sha=plan.git_sha,
        branch=contract.code.branch,
        dirty=contract.code.dirty or bool(patch),
        patch=patch,
        patch_kept=kept,
        dirty_consent=used_consent(run, GuardedAction.DIRTY_LAUNCH, patch),
        bundle=contract.code.bundle or contract.code.container,
        hardware=hardware.type,
        topology=hardware.topology or (f"{hardware.count} nodes" if hardware.count else ""),
        initialize_from=contract.initialize_from,
        tracker_id=plan.tracker_id,
        display_name=plan.display_name,
        output_root=plan.output_root,
        resume_from=plan.resume_from,
        resume_step=plan.resume_step,
        final_step=plan.final_step,
        checkpoint_policy=policy or "not stated",
        watch_holder=contract.watch.holder or "nobody",
        watch_cadence=cadence_of(contract),
    )


def refused_launch(run: Run, command: ReportRefusedLaunch) -> Outcome:
    """Record that the orchestrator definitely refused the job, and ask the DRI."""
    assert isinstance(run.phase, Launching), "the table lets only a launch be refused"
    plan = run.phase.plan
    if command.instance != plan.instance:
        return Refused(Refusal.WRONG_INSTANCE, command.instance)
    refused = LaunchRefused(
        instance=plan.instance, submission_id=plan.submission_id, reason=command.reason
    )
    if run.operator.stop_requested == plan.instance:
        left = DecisionMade(
            instance=plan.instance,
            action=Action.LEAVE,
            rule="R14",
            because=f"stopped before it was submitted, by {run.operator.stop_reason}",
            evidence=(command.reason,),
        )
        return [
            refused,
            left,
            RunStopped(reason=f"stopped before the launch, by {run.operator.stop_reason}"),
        ]
    because = "the orchestrator refused the job, so the same plan would be refused again"
    if clearance_revoked(run):
        because = "what cleared the launch was revoked before anything was submitted"
    decision = DecisionMade(
        instance=plan.instance,
        action=Action.ESCALATE,
        rule="R19",
        because=because,
        evidence=(command.reason,),
    )
    return [refused, decision, *escalation_of(run, decision)]


def clearance_revoked(run: Run) -> bool:
    """Return whether a human revoked the approval or waiver of the newest launch."""
    revoked = {one.name for one in run.permits.approvals if one.revoked}
    revoked |= {one.name for one in run.permits.waivers if one.revoked}
    return run.launch.cleared_by in revoked


def relaunch(run: Run, command: Relaunch) -> Outcome:
    """Request the instance that was decided, once it passes the gate (R18)."""
    assert isinstance(run.phase, Interrupted), "the table lets only an interrupted run relaunch"
    if command.token != run.watch.token:
        return Refused(Refusal.WATCH_SUPERSEDED, f"token {command.token}")
    decision = run.phase.decision
    if decision is None or decision.action is not Action.RELAUNCH:
        return Refused(Refusal.NO_RELAUNCH_DECIDED, run.slug)
    found = command.facts.source
    reading = command.facts.source_reading
    answered = reading is not None and reading.state is SourceState.FRESH
    if answered and (found is None or not found.complete):
        return _choose_again(run, decision, "is no longer complete there")
    rejected = run.checkpoints.rejected.get(decision.resume_path)
    if rejected is not None:
        return _choose_again(run, decision, f"was rejected since: {rejected}")
    plan = make_plan(
        contract_of(run),
        number=len(run.instances) + 1,
        submission_id=command.submission_id,
        resume_from=decision.resume_path,
        resume_step=decision.resume_step,
        carried=run.instances[-1].plan.carried if run.instances else None,
    )
    contract = contract_of(run)
    exact = tuple(one for one in run.permits.approvals if one.digest == plan_digest(plan))
    each = policy_of(contract).approvals == "each" and decision.rule not in BY_A_HUMAN
    asked = run.operator.requested
    # After the rollback's own instance was launched, the next relaunch is an ordinary one.
    asked_back = isinstance(asked, RollbackApproved) and asked.instance == decision.instance
    covered = decision.rule in COVERED_RULES and not asked_back and not each
    gate = Gate(
        contract,
        plan,
        command.facts,
        run.permits.approvals if covered else exact,
        previous=previous_launch_of(run),
        consents=run.permits.consents,
        now=command.now,
        waivers=all_waivers(run, contract, command.facts, run.launch.requester, command.now),
        fix=next(iter(run.ends.judgement.fixes[-1:]), ""),
    )
    events = _request(run, gate, decision.rule, run.launch.requester)
    if events and isinstance(events[-1], LaunchRequested):
        return [*events[:1], *_drift(run, events[0], command.now), *events[1:]]
    return _blocked_relaunch(run, events, decision, command.now)


def previous_launch_of(run: Run) -> PreviousLaunch | None:
    """Return the last launched instance; `None` before the first launch."""
    if not run.instances:
        return None
    before = run.instances[-1]
    return PreviousLaunch(
        contract_of(run), before.plan, dict(before.config), before.patch, before.patch_kept
    )


def _choose_again(run: Run, decision: DecisionMade, says: str) -> Outcome:
    """Ask a human about an unusable chosen checkpoint, because the others were not judged."""
    escalate = DecisionMade(
        instance=decision.instance,
        action=Action.ESCALATE,
        rule="R10",
        because=f"step-{decision.resume_step}, which was decided on, {says}",
        evidence=decision.evidence,
    )
    return [escalate, *escalation_of(run, escalate)]


def _blocked_relaunch(
    run: Run, events: list[RunEvent], decision: DecisionMade, now: datetime
) -> Outcome:
    # Unchanged blocks are not recorded again, but the question about them is.
    checked = events[-1] if events else run.launch.preflight
    assert isinstance(checked, PreflightRecorded), "a blocked request has a preflight"
    blocked = blocks(checked.findings)
    if all(finding.says.startswith(UNKNOWN_SOURCE) for finding in blocked):
        # A source gives no answer now. The decision stays valid and is retried.
        return []
    escalate = DecisionMade(
        instance=decision.instance,
        action=Action.ESCALATE,
        rule="R19",
        because="the relaunch is blocked at the gate: "
        + "; ".join(f"{finding.rule} {finding.says}" for finding in blocked),
        evidence=tuple(f"{finding.rule}: {finding.fix}" for finding in blocked),
        proposes=_after_fix(blocked[0].fix),
    )
    # This also runs for an unchanged result: the act that expected it may be over.
    found = drift_at_gate(run, checked, now)
    return [*events, *found, escalate, *escalation_of(run, escalate)]


def _after_fix(fix: str) -> str:
    """Return what to do about a blocked relaunch. Without the fix it is blocked again."""
    return f"First: {fix}. Then relaunch, or leave it?" if fix else ""


def _drift(run: Run, event: RunEvent, now: datetime) -> list[FindingChange]:
    return drift_at_gate(run, event, now) if isinstance(event, PreflightRecorded) else []
