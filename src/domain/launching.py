"""The commands that bring an instance into the world: launch, approval, relaunch."""

from watchkeeper.domain.commands import (
    ApproveLaunch,
    ConfirmLaunched,
    Relaunch,
    ReportRefusedLaunch,
    RequestLaunch,
)
from watchkeeper.domain.contract import Contract, cadence_of
from watchkeeper.domain.events import (
    Action,
    DecisionMade,
    InstanceLaunched,
    LaunchApproved,
    LaunchRefused,
    LaunchRequested,
    PreflightRecorded,
    RunEvent,
    RunStopped,
)
from watchkeeper.domain.gate import Gate, blocks, covering_approval, preflight
from watchkeeper.domain.plan import LaunchPlan, identity_digest, make_plan, plan_digest
from watchkeeper.domain.refusals import Refusal, Refused
from watchkeeper.domain.state import Interrupted, Launching, Run, contract_of
from watchkeeper.domain.values import SourceState
from watchkeeper.domain.verdict import escalation_of

_DIGEST_SHOWN_MIN = 8
"""The fewest digits by which a plan may be named."""

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
    """Hold the first instance against the gate and, when nothing blocks, ask for it."""
    plan = plan_first_instance(contract_of(run), command.submission_id)
    gate = Gate(contract_of(run), plan, command.facts, run.approvals)
    return _request(run, gate, "launch")


def _request(run: Run, gate: Gate, reason: str) -> list[RunEvent]:
    """Record the preflight and, when nothing blocks, the request that rests on it."""
    findings = preflight(gate)
    digest = plan_digest(gate.plan)
    checked = PreflightRecorded(plan=gate.plan, digest=digest, findings=findings)
    if blocks(findings):
        same = run.preflight is not None and run.preflight == checked
        # The same answer again adds nothing to the history.
        return [] if same else [checked]
    approval = covering_approval(gate.approvals, gate.plan)
    assert approval is not None, "L11 blocks a plan that no approval covers"
    requested = LaunchRequested(
        plan=gate.plan,
        digest=digest,
        approval=approval.name,
        preflight=run.version + 1,
        reason=reason,
    )
    return [checked, requested]


def approve(run: Run, command: ApproveLaunch) -> Outcome:
    """Record a human's permission for the plan that was last checked."""
    if command.actor.kind != "human":
        return Refused(Refusal.NOT_A_HUMAN, command.actor.principal)
    checked = run.preflight
    named = len(command.digest) >= _DIGEST_SHOWN_MIN
    if checked is None or not named or not checked.digest.startswith(command.digest):
        return Refused(Refusal.PLAN_UNKNOWN, command.digest)
    if covering_approval(run.approvals, checked.plan) is not None:
        return Refused(Refusal.ALREADY_CLEARED, run.slug)
    others = [finding.rule for finding in blocks(checked.findings) if finding.rule != "L11"]
    if others:
        return Refused(Refusal.PLAN_BLOCKED, ", ".join(others))
    approved = LaunchApproved(
        approval=f"a-{run.approvals_given + 1}",
        digest=checked.digest,
        identity=identity_digest(checked.plan),
        note=command.note,
    )
    return [approved]


def confirm(run: Run, command: ConfirmLaunched) -> Outcome:
    """Record that the orchestrator has the job, with all that identifies it."""
    assert isinstance(run.phase, Launching), "the table lets only a launch be confirmed"
    plan = run.phase.plan
    if command.instance != plan.instance:
        return Refused(Refusal.WRONG_INSTANCE, command.instance)
    contract = contract_of(run)
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
    return [
        InstanceLaunched(
            instance=plan.instance,
            submission_id=plan.submission_id,
            launched_at=command.launched_at,
            dri=contract.dri,
            command=plan.command,
            script=scripts[0] if scripts else "",
            orchestrator=plan.orchestrator,
            cluster=plan.cluster,
            git_sha=plan.git_sha,
            branch=contract.code.branch,
            dirty=contract.code.dirty,
            bundle=contract.code.bundle,
            hardware=hardware.type,
            topology=hardware.topology,
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
    ]


def refused_launch(run: Run, command: ReportRefusedLaunch) -> Outcome:
    """Record that the orchestrator definitely did not take the job, and ask the DRI."""
    assert isinstance(run.phase, Launching), "the table lets only a launch be refused"
    plan = run.phase.plan
    if command.instance != plan.instance:
        return Refused(Refusal.WRONG_INSTANCE, command.instance)
    refused = LaunchRefused(
        instance=plan.instance, submission_id=plan.submission_id, reason=command.reason
    )
    if run.stop_requested == plan.instance:
        left = DecisionMade(
            instance=plan.instance,
            action=Action.LEAVE,
            rule="R14",
            because="stopped by a person on record before it was submitted",
            evidence=(command.reason,),
        )
        return [refused, left, RunStopped(reason="stopped by a person before the launch")]
    decision = DecisionMade(
        instance=plan.instance,
        action=Action.ESCALATE,
        rule="R19",
        because="the orchestrator refused the job, so the same plan would be refused again",
        evidence=(command.reason,),
    )
    return [refused, decision, *escalation_of(run, decision)]


def relaunch(run: Run, command: Relaunch) -> Outcome:
    """Ask for the instance that was decided on, once the gate lets it through (R18)."""
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
        return _choose_again(run, decision)
    plan = make_plan(
        contract_of(run),
        number=len(run.instances) + 1,
        submission_id=command.submission_id,
        resume_from=decision.resume_path,
        resume_step=decision.resume_step,
    )
    events = _request(
        run, Gate(contract_of(run), plan, command.facts, run.approvals), decision.rule
    )
    if events and isinstance(events[-1], LaunchRequested):
        return events
    return _blocked_relaunch(run, events, decision, command)


def _choose_again(run: Run, decision: DecisionMade) -> Outcome:
    """The checkpoint decided on is gone: a human is asked, since what is left was not judged."""
    escalate = DecisionMade(
        instance=decision.instance,
        action=Action.ESCALATE,
        rule="R10",
        because=f"step-{decision.resume_step}, which was decided on, is no longer complete there",
        evidence=decision.evidence,
    )
    return [escalate, *escalation_of(run, escalate)]


def _blocked_relaunch(
    run: Run, events: list[RunEvent], decision: DecisionMade, command: Relaunch
) -> Outcome:
    # The same blocks as the last time are not recorded again; the question about them is.
    checked = events[-1] if events else run.preflight
    assert isinstance(checked, PreflightRecorded), "a blocked request has a preflight"
    blocked = blocks(checked.findings)
    reading = command.facts.source_reading
    if reading is not None and reading.state is not SourceState.FRESH:
        # The store gives no answer now; the decision stands and is tried again.
        return []
    escalate = DecisionMade(
        instance=decision.instance,
        action=Action.ESCALATE,
        rule="R19",
        because="the relaunch is blocked at the gate: "
        + "; ".join(f"{finding.rule} {finding.says}" for finding in blocked),
        evidence=tuple(f"{finding.rule}: {finding.fix}" for finding in blocked),
    )
    return [*events, escalate, *escalation_of(run, escalate)]
