"""Planned relaunch, and rollback to a named checkpoint.

Both end the live instance at a human's request. They continue only after the orchestrator reports a
terminal state (R18), so that the output root has no second writer. A lost job is the only
exception; see `lost`.
"""

from watchkeeper.domain.rules.ends.recovery import (
    bad_checkpoints,
    newest_resumable,
    refused_checkpoints,
)
from watchkeeper.domain.rules.ends.store_silence import PROPOSES, silent_too_long
from watchkeeper.domain.rules.launch.commands import ApproveLaunch
from watchkeeper.domain.rules.launch.gate.gate import Gate, blocks, preflight
from watchkeeper.domain.rules.launch.launching import previous_launch_of
from watchkeeper.domain.rules.operator.commands import PlanRollback, RequestRelaunch
from watchkeeper.domain.rules.operator.lost import end_lost, is_lost, lost_job_commands
from watchkeeper.domain.rules.permits.guarded import GuardedAction
from watchkeeper.domain.rules.permits.permissions import permit, refuse_non_human
from watchkeeper.domain.rules.shared.apply_pending import apply_pending
from watchkeeper.domain.rules.shared.refusals import Refusal, Refused
from watchkeeper.domain.run.bad_numbers import bad_from, last_good
from watchkeeper.domain.run.checkpoints import Checkpoint, CheckpointRejected
from watchkeeper.domain.run.ends import Action, DecisionMade
from watchkeeper.domain.run.events import RunEvent
from watchkeeper.domain.run.health import DRIFTED
from watchkeeper.domain.run.launch import LaunchApproved
from watchkeeper.domain.run.operator import (
    LineageRejected,
    RelaunchRequested,
    RollbackApproved,
    RollbackPlanned,
)
from watchkeeper.domain.run.phases import Interrupted
from watchkeeper.domain.run.queries import escalation_of, requested_end, source_is_fresh
from watchkeeper.domain.run.questions import EscalationAcknowledged
from watchkeeper.domain.run.run import Run, contract_of, end_asked
from watchkeeper.domain.run.watch import CheckRecorded
from watchkeeper.domain.values.basic import UNACCOUNTABLE
from watchkeeper.domain.values.contract.lane_policy import forbids_resuming
from watchkeeper.domain.values.contract.plan import (
    DIGEST_SHOWN,
    identity_digest,
    make_plan,
    names_plan,
    plan_digest,
)
from watchkeeper.domain.values.exits import describe_end

Outcome = list[RunEvent] | Refused


# --- Relaunch ------------------------------------------------------------------------------------


def request_relaunch(run: Run, command: RequestRelaunch) -> Outcome:
    """Request a relaunch: at once after an end, or after the live instance has ended."""
    refused = _refused(run, command)
    if refused is not None:
        return refused
    newest = run.instances[-1].plan.instance
    if is_lost(run):
        return _relaunch_of_lost(run, command)
    # Without a live instance nothing is ended, so a relaunch is not guarded.
    if isinstance(run.phase, Interrupted):
        asked = RelaunchRequested(instance=newest, reason=command.reason.strip(), consent="")
        events: list[RunEvent] = [asked, *_answered(run, "relaunch", asked.reason)]
        after = apply_pending(run, events, command)
        return events + _relaunch_of_ended(after, asked)
    leave = permit(run, GuardedAction.STOP, newest, command.reason, command)
    if isinstance(leave, Refused):
        return leave
    reason = command.reason.strip()
    return [
        *leave.events,
        RelaunchRequested(instance=newest, reason=reason, consent=leave.consent),
        *_answered(run, "relaunch", reason),
    ]


def _relaunch_of_lost(run: Run, command: RequestRelaunch) -> Outcome:
    """End a lost instance by a human's consent, and decide where the run resumes."""
    answered = _answered(run, "relaunch", command.reason.strip())
    ended = end_lost(apply_pending(run, answered, command), command)
    if isinstance(ended, Refused):
        return ended
    asked = next(one for one in ended if isinstance(one, RelaunchRequested))
    events = [*answered, *ended]
    return events + _relaunch_of_ended(apply_pending(run, events, command), asked)


def _answered(run: Run, by: str, reason: str) -> list[EscalationAcknowledged]:
    """Close the questions about the newest instance: a relaunch answers them.

    The question about a wrong identity stays open, because the next instance has it too.
    """
    newest = run.instances[-1].plan.instance
    about = [q.name for q in run.questions.open.values() if q.instance == newest]
    return [
        EscalationAcknowledged(question=name, answer="relaunch", note=reason, closed_by=by)
        for name in about
        if run.questions.open[name].finding != DRIFTED
    ]


def _refused(run: Run, command: RequestRelaunch | PlanRollback) -> Refused | None:
    """Return the rule that forbids a relaunch requested by a human."""
    if command.actor.kind != "human":
        return refuse_non_human(run, command)
    if not command.reason.strip():
        return Refused(Refusal.TEXT_EMPTY)
    if forbids_resuming(contract_of(run)):
        return Refused(Refusal.RESUME_NEVER, run.slug)
    newest = run.instances[-1].plan.instance
    if is_lost(run) and run.operator.stop_requested != newest:
        # Requests from before the job was lost have no effect.
        is_relaunch = isinstance(command, RequestRelaunch)
        return None if is_relaunch else Refused(Refusal.JOB_LOST, lost_job_commands(run))
    if _under_way(run):
        return Refused(Refusal.RELAUNCH_DECIDED, newest)
    if not isinstance(run.phase, Interrupted):
        return Refused(Refusal.STOP_ASKED, newest) if end_asked(run, newest) else None
    decided = run.phase.decision
    if decided is None or decided.action is not Action.RELAUNCH:
        return None
    # A rollback may replace a decided relaunch; another relaunch may not.
    return None if isinstance(command, PlanRollback) else Refused(Refusal.RELAUNCH_DECIDED, newest)


def _under_way(run: Run) -> bool:
    """Return whether a human's request is pending and not blocked by the gate or R10."""
    if requested_end(run) is None:
        return False
    decided = run.phase.decision if isinstance(run.phase, Interrupted) else None
    return decided is None or decided.action is Action.RELAUNCH


def decide_answered(run: Run) -> Outcome | None:
    """Decide again on a human's held request, after they answered: relaunch.

    Returns:
        The decision, from the record. The gate checks the start again. `None` without a request.
    """
    asked = requested_end(run)
    if asked is None:
        return None
    if _under_way(run):
        return Refused(Refusal.RELAUNCH_DECIDED, asked.instance)
    if isinstance(asked, RelaunchRequested):
        return _relaunch_of_ended(run, asked)
    assert run.watch.last_check is not None, (
        "a rollback goes to a checkpoint that a check validated"
    )
    return _from(run, asked, run.checkpoints.validated.get(asked.step), run.watch.last_check.event)


def _relaunch_of_ended(run: Run, asked: RelaunchRequested) -> list[RunEvent]:
    instance = run.instances[-1]
    plan = instance.plan
    if instance.end is None:
        # The orchestrator never took the job, so it wrote nothing and its planned start stays.
        return [
            _decision(asked, plan.resume_from, plan.resume_step, (f"{plan.instance} never ran",))
        ]
    assert run.watch.last_check is not None, "an instance that ended was checked"
    check = run.watch.last_check.event
    if source_is_fresh(check, "checkpoints"):
        chosen = newest_resumable(run, check)
    else:
        # The gate verifies that it is complete before a launch, or asks again.
        chosen = last_good(run)
    return _from(run, asked, chosen, check)


def _from(
    run: Run,
    asked: RelaunchRequested | RollbackApproved,
    chosen: Checkpoint | None,
    check: CheckRecorded,
) -> list[RunEvent]:
    end = run.instances[-1].end
    ended = (describe_end(end),) if end is not None else ()
    if chosen is None:
        nothing = DecisionMade(
            instance=asked.instance,
            action=Action.ESCALATE,
            rule="R10",
            because="a relaunch was asked for, and there is no complete, validated checkpoint",
            evidence=(*ended, *refused_checkpoints(check, -1)) or (asked.reason,),
        )
        return [nothing, *escalation_of(run, nothing)]
    cited = (*ended, f"checkpoint: event {chosen.version}")
    refused: tuple[str, ...] = ()
    if isinstance(asked, RelaunchRequested):
        refused = (*refused_checkpoints(check, chosen.step), *bad_checkpoints(run))
    decided = _decision(asked, chosen.path, chosen.step, cited)
    if end is not None and end.state in UNACCOUNTABLE:
        why = f"a human declared that no process of {asked.instance} lives ({asked.consent})"
        decided = decided.model_copy(update={"recoverable": why})
    return [decided.model_copy(update={"refused": refused})]


def _decision(
    asked: RelaunchRequested | RollbackApproved,
    path: str,
    step: int | None,
    evidence: tuple[str, ...],
) -> DecisionMade:
    what = "rollback" if isinstance(asked, RollbackApproved) else "relaunch"
    where = f"step-{step}" if path else "the start"
    return DecisionMade(
        instance=asked.instance,
        action=Action.RELAUNCH,
        rule="R18",
        because=f"a human asked for a {what}: {asked.reason}; from {where}",
        evidence=(*evidence, f"consent {asked.consent}"),
        resume_path=path,
        resume_step=step,
        recoverable=f"the end was asked for: a planned {what}",
    )


# --- Rollback ------------------------------------------------------------------------------------


def plan_rollback(run: Run, command: PlanRollback) -> Outcome:
    """Plan an instance from a named checkpoint; nothing happens before a human approves it."""
    refused = _refused(run, command)
    if refused is not None:
        return refused
    chosen = run.checkpoints.validated.get(command.step)
    if chosen is None:
        return Refused(Refusal.CHECKPOINT_UNKNOWN, f"step-{command.step}")
    reason, since = command.reason.strip(), bad_from(run, chosen)
    if since is not None:
        good = last_good(run)
        named = f"the last good one is step-{good.step}" if good is not None else "none is good"
        says = f"step-{chosen.step} holds NaN since step {since}, {named}"
        if not command.accept_bad:
            return Refused(Refusal.CHECKPOINT_BAD, says)
        reason = f"{reason} (accepted by {command.actor.principal}: {says})"
    plan = make_plan(
        contract_of(run),
        number=len(run.instances) + 1,
        submission_id=command.submission_id,
        resume_from=chosen.path,
        resume_step=chosen.step,
        carried=run.instances[-1].plan.carried,
    )
    gate = Gate(
        contract_of(run),
        plan,
        command.facts,
        run.permits.approvals,
        previous=previous_launch_of(run),
        consents=run.permits.consents,
        now=command.now,
    )
    findings = preflight(gate)
    blocked = [f"{f.rule} {f.says}" for f in blocks(findings) if f.rule != "L11"]
    if blocked:
        return Refused(Refusal.PLAN_BLOCKED, "; ".join(blocked))
    return [
        RollbackPlanned(
            plan=plan,
            digest=plan_digest(plan),
            step=chosen.step,
            checkpoint=chosen.path,
            reason=reason,
        )
    ]


def approve_rollback(run: Run, command: ApproveLaunch) -> Outcome:
    """Approve the last planned rollback, which needs an approval of its own."""
    if command.actor.kind != "human":
        return refuse_non_human(run, command)
    planned = run.operator.rollback
    if planned is None:
        return Refused(Refusal.ALREADY_LAUNCHED, run.slug)
    # A newer instance needs a new plan.
    stale = planned.plan.instance != f"i{len(run.instances) + 1}"
    if stale or not names_plan(command.digest, planned.digest):
        waits = "" if stale else f"; the plan that waits is {planned.digest[:DIGEST_SHOWN]}"
        return Refused(Refusal.ROLLBACK_UNKNOWN, f"{command.digest}{waits}")
    newest = run.instances[-1].plan.instance
    if is_lost(run):
        return Refused(Refusal.JOB_LOST, lost_job_commands(run))
    if _under_way(run) or run.operator.stop_requested == newest:
        return Refused(Refusal.RELAUNCH_DECIDED, newest)
    chosen = run.checkpoints.validated.get(planned.step)
    if chosen is None or chosen.path != planned.checkpoint:
        return Refused(Refusal.CHECKPOINT_UNKNOWN, f"step-{planned.step}")
    why = command.note.strip() or planned.reason
    leave = permit(run, GuardedAction.LINEAGE_CHANGE, planned.checkpoint, why, command)
    if isinstance(leave, Refused):
        return leave
    approval = LaunchApproved(
        approval=f"a-{run.permits.approvals_given + 1}",
        digest=planned.digest,
        identity=identity_digest(planned.plan),
        note=command.note,
    )
    approved = RollbackApproved(
        instance=newest,
        approval=approval.approval,
        consent=leave.consent,
        step=planned.step,
        checkpoint=planned.checkpoint,
        reason=planned.reason,
    )
    events: list[RunEvent] = [approval, *leave.events, approved]
    if isinstance(run.phase, Interrupted):
        events += _answered(run, "rollback", planned.reason)
    if run.instances[-1].end is None and isinstance(run.phase, Interrupted):
        # The instance never ran, so all checkpoints are on record.
        after = apply_pending(run, events, command)
        return events + _rolled_back(after, approved, None)
    return events


def decide_asked(run: Run, check: CheckRecorded) -> list[RunEvent] | None:
    """Decide on the end of an instance that an operator act requested.

    Args:
        run: The run with the end folded in.
        check: The check that saw the end, or a later one.

    Returns:
        The decision and its events. No events while the store has not answered, and a question
        after the timeout. `None` without a request.
    """
    asked = requested_end(run)
    if asked is None:
        return None
    if not source_is_fresh(check, "checkpoints"):
        return _silent(run, asked, check)
    if isinstance(asked, RollbackApproved):
        return _rolled_back(run, asked, check)
    return _from(run, asked, newest_resumable(run, check), check)


def _silent(
    run: Run, asked: RelaunchRequested | RollbackApproved, check: CheckRecorded
) -> list[RunEvent]:
    assert run.watch.last_check is not None, "the check is folded in"
    because = silent_too_long(run, check, run.watch.last_check.at)
    if not because:
        return []
    decision = DecisionMade(
        instance=asked.instance,
        action=Action.ESCALATE,
        rule="R19",
        because=because,
        evidence=(f"asked for: {asked.reason}",),
        proposes=PROPOSES,
    )
    return [decision, *escalation_of(run, decision)]


def _rolled_back(run: Run, asked: RollbackApproved, check: CheckRecorded | None) -> list[RunEvent]:
    """Reject all checkpoints beyond the step, then relaunch from it."""
    reason = f"rolled back to step-{asked.step} ({asked.consent}): {asked.reason}"
    rejected: list[RunEvent] = [
        LineageRejected(through=asked.instance, above_step=asked.step, reason=reason)
    ]
    rejected += [
        CheckpointRejected(step=one.step, path=one.path, reason=reason, written_at=one.written_at)
        for one in sorted(run.checkpoints.validated.values(), key=lambda one: one.step)
        if one.step > asked.step
    ]
    chosen = run.checkpoints.validated.get(asked.step)
    if check is not None:
        return [*rejected, *_from(run, asked, chosen, check)]
    assert chosen is not None, "an approved rollback names a validated checkpoint"
    cited = (f"{asked.instance} never ran", f"checkpoint: event {chosen.version}")
    return [*rejected, _decision(asked, chosen.path, chosen.step, cited)]
