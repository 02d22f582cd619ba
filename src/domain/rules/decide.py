"""Decides which events a command causes, or which rule refuses it.

All functions are pure. The command carries the time.
"""

from typing import assert_never

from watchkeeper.domain.rules.after_check import events_after_check
from watchkeeper.domain.rules.ends.advised import consent_used_by
from watchkeeper.domain.rules.ends.case import Case
from watchkeeper.domain.rules.ends.commands import ReportFix, Revise, SuggestCause
from watchkeeper.domain.rules.ends.fixing import report_fix
from watchkeeper.domain.rules.ends.recovery import (
    attributed_to_consent,
    relaunch_on_answer,
    relaunch_what_never_ran,
)
from watchkeeper.domain.rules.ends.revision import receive_and_revise, revise, suggest
from watchkeeper.domain.rules.ends.success import cleared_by_seal
from watchkeeper.domain.rules.health.commands import ReportStaleMonitor
from watchkeeper.domain.rules.health.freshness import report_stale
from watchkeeper.domain.rules.launch.adopting import adopt
from watchkeeper.domain.rules.launch.commands import (
    AdoptInstance,
    AmendContract,
    ApproveLaunch,
    ConfirmLaunched,
    DraftRun,
    Relaunch,
    ReportRefusedLaunch,
    RequestLaunch,
)
from watchkeeper.domain.rules.launch.launching import (
    Outcome,
    approve,
    confirm,
    launch,
    refused_launch,
    relaunch,
)
from watchkeeper.domain.rules.operator.commands import (
    Abandon,
    AddNote,
    AnnounceAct,
    AnswerQuestion,
    Correct,
    EndAct,
    NameAncestor,
    PlanRollback,
    RequestRelaunch,
    Stop,
    Supersede,
    TakeQuestion,
)
from watchkeeper.domain.rules.operator.planned import announce, end_act
from watchkeeper.domain.rules.operator.relaunching import (
    approve_rollback,
    decide_answered,
    plan_rollback,
    request_relaunch,
)
from watchkeeper.domain.rules.operator.superseding import name_ancestor, supersede
from watchkeeper.domain.rules.permits.commands import GiveConsent, Propose, Revoke, Waive
from watchkeeper.domain.rules.permits.guarded import GuardedAction
from watchkeeper.domain.rules.permits.permissions import (
    decide_permission,
    permit,
    reason_of,
    refuse_non_human,
)
from watchkeeper.domain.rules.seal.commands import CompleteSeal, VerifyMilestone, VerifySeal
from watchkeeper.domain.rules.seal.findings import artefacts_at_seal
from watchkeeper.domain.rules.seal.milestone import verify_milestone
from watchkeeper.domain.rules.seal.seal import missing_for_seal, permission_to_seal, seal_of
from watchkeeper.domain.rules.shared.apply_pending import apply_pending
from watchkeeper.domain.rules.shared.refusals import Refusal, Refused
from watchkeeper.domain.rules.signals.commands import ReceiveSignal
from watchkeeper.domain.rules.table import JudgementCommand, OperatorCommand, RunCommand, refusal_of
from watchkeeper.domain.rules.watch.check import LEASE_SLACK, summarise
from watchkeeper.domain.rules.watch.commands import (
    DeclineWatch,
    HandOver,
    RecordCheck,
    ReleaseWatch,
    TakeWatch,
)
from watchkeeper.domain.rules.watch.handover import decline, hand_over, refuses_taking
from watchkeeper.domain.run.ends import Action, RunAbandoned, RunStopped
from watchkeeper.domain.run.health import UNACCOUNTED
from watchkeeper.domain.run.launch import ContractAmended, RunDrafted
from watchkeeper.domain.run.operator import CorrectionRecorded, NoteAdded, StopRequested
from watchkeeper.domain.run.phases import (
    Cleared,
    Draft,
    Finished,
    Interrupted,
    Launching,
    Running,
    Stabilizing,
)
from watchkeeper.domain.run.queries import escalation_of
from watchkeeper.domain.run.questions import EscalationAcknowledged, QuestionTaken
from watchkeeper.domain.run.run import Run, contract_of
from watchkeeper.domain.run.seal import RunSealed, SealBlocked
from watchkeeper.domain.run.watch import HistoryLimitPassed, WatchReleased, WatchTaken
from watchkeeper.domain.values.contract.contract import cadence_of
from watchkeeper.domain.values.contract.flat import changed_keys
from watchkeeper.domain.values.contract.lane_policy import forbids_resuming
from watchkeeper.domain.values.history_limits import HARD_EVENTS, SOFT_EVENTS, limit_passed


def decide(run: Run, command: RunCommand) -> Outcome:
    """Decide which events a command causes, or which rule refuses it.

    Args:
        run: The run, folded from every event recorded so far.
        command: The request. It carries the time, because nothing here reads a clock.
    """
    refusal = refusal_of(type(command), type(run.phase))
    if refusal is not None:
        return Refused(refusal, run.slug)
    if isinstance(command, OperatorCommand):
        return _operator(run, command)
    if isinstance(command, JudgementCommand):
        return _judgement(run, command)
    match command:
        case RecordCheck():
            return _check(run, command)
        case DraftRun():
            return [RunDrafted(contract=command.contract)]
        case AmendContract():
            changed = changed_keys(contract_of(run), command.contract)
            # A repeated contract adds nothing to the history.
            return [ContractAmended(contract=command.contract, changed=changed)] if changed else []
        case RequestLaunch():
            return launch(run, command)
        case ApproveLaunch():
            return (
                approve_rollback(run, command)
                if _is_rollback(run, command)
                else approve(run, command)
            )
        case ConfirmLaunched():
            return confirm(run, command)
        case ReportRefusedLaunch():
            return refused_launch(run, command)
        case TakeWatch():
            return _take_watch(run, command)
        case ReleaseWatch():
            if command.token != run.watch.token or run.watch.holder is None:
                return Refused(Refusal.WATCH_SUPERSEDED, f"token {command.token}")
            return [WatchReleased(token=command.token, reason=command.reason)]
        case Relaunch():
            return relaunch(run, command)
        case VerifySeal():
            return _verify_seal(run, command)
        case CompleteSeal():
            return _complete_seal(run, command)
        case Propose() | GiveConsent() | Waive() | Revoke():
            return decide_permission(run, command)
        case ReceiveSignal():
            return receive_and_revise(run, command)
        case _:
            return _people(run, command)


def _judgement(run: Run, command: JudgementCommand) -> Outcome:
    match command:
        case Revise():
            return revise(run, command)
        case ReportFix():
            return report_fix(run, command)
        case SuggestCause():
            return suggest(run, command)
        case _:
            assert_never(command)


def _operator(run: Run, command: OperatorCommand) -> Outcome:
    match command:
        case HandOver():
            return hand_over(run, command)
        case DeclineWatch():
            return decline(run, command)
        case ReportStaleMonitor():
            return report_stale(run, command)
        case AnnounceAct():
            return announce(run, command)
        case EndAct():
            return end_act(run, command)
        case AdoptInstance():
            return adopt(run, command)
        case RequestRelaunch():
            return request_relaunch(run, command)
        case PlanRollback():
            return plan_rollback(run, command)
        case Supersede():
            return supersede(run, command)
        case NameAncestor():
            return name_ancestor(run, command)
        case VerifyMilestone():
            return verify_milestone(run, command)
        case _:
            assert_never(command)


def _people(
    run: Run, command: TakeQuestion | AnswerQuestion | AddNote | Correct | Stop | Abandon
) -> Outcome:
    match command:
        case TakeQuestion():
            if refused := _no_answer(run, command):
                return refused
            return [QuestionTaken(question=command.question, note=command.note)]
        case AnswerQuestion():
            return _answer(run, command)
        case AddNote():
            if not command.text.strip():
                return Refused(Refusal.TEXT_EMPTY)
            return [NoteAdded(text=command.text.strip())]
        case Correct():
            if not command.text.strip():
                return Refused(Refusal.TEXT_EMPTY)
            if command.corrects > run.version:
                return Refused(Refusal.EVENT_UNKNOWN, f"event {command.corrects}")
            return [CorrectionRecorded(corrects=command.corrects, text=command.text.strip())]
        case Stop():
            return _stop(run, command)
        case Abandon():
            if command.actor.kind != "human":
                return refuse_non_human(run, command)
            return [RunAbandoned(reason=command.reason)]
        case _:
            assert_never(command)


# --- Watch ---------------------------------------------------------------------------------------


def _take_watch(run: Run, command: TakeWatch) -> Outcome:
    watch = run.watch
    theirs = watch.holder is not None and watch.holder != command.holder
    held = watch.lease_until is not None and command.now < watch.lease_until
    if watch.holder is not None and not theirs and not command.same_home:
        return Refused(Refusal.WATCH_HELD, "another process of this home")
    if theirs and held and not command.force:
        assert watch.holder is not None, "theirs means that there is a holder"
        until = watch.lease_until
        who = f"{watch.holder.principal}@{watch.holder.host}, lease until {until:%H:%M:%S %Z}"
        return Refused(Refusal.WATCH_HELD, who)
    if command.force and command.actor.kind == "agent":
        return refuse_non_human(run, command)
    kept = refuses_taking(watch, command)
    if kept is not None:
        return kept
    reserved = watch.kept_for not in ("", command.holder.principal)
    due = watch.next_due or command.now
    lease = max(due, command.now) + 2 * cadence_of(contract_of(run)) + LEASE_SLACK
    return [
        WatchTaken(
            holder=command.holder,
            token=watch.token + 1,
            lease_until=lease,
            next_due=due,
            forced=(theirs or reserved) and held,
        )
    ]


def _check(run: Run, command: RecordCheck) -> Outcome:
    if command.token != run.watch.token:
        return Refused(Refusal.WATCH_SUPERSEDED, f"token {command.token}")
    instance = run.instances[-1]
    if command.observation.instance != instance.plan.instance:
        return Refused(Refusal.WRONG_INSTANCE, command.observation.instance)
    check, answers = summarise(run, instance, command)
    after = apply_pending(run, [check], command)
    follow = events_after_check(after, instance, check, command, answers)
    return [check, *follow, *_history_limit(run)]


def _history_limit(run: Run) -> list[HistoryLimitPassed]:
    limit = limit_passed(run.version, run.watch.history_limit)
    if limit is None:
        return []
    most = HARD_EVENTS if limit == "hard" else SOFT_EVENTS
    return [HistoryLimitPassed(limit=limit, events=run.version, most=most)]


# --- People --------------------------------------------------------------------------------------


def _no_answer(run: Run, command: TakeQuestion | AnswerQuestion) -> Refused | None:
    """Refuse an actor who is no human, and a question that is not open."""
    if command.actor.kind != "human":
        return refuse_non_human(run, command)
    if command.question not in run.questions.open:
        by = run.questions.resolved_by.get(command.question)
        at = f", closed by event {by}" if by else ""
        return Refused(Refusal.QUESTION_NOT_OPEN, f"{command.question}{at}")
    return None


def _answer(run: Run, command: AnswerQuestion) -> Outcome:
    if refused := _no_answer(run, command):
        return refused
    taken = EscalationAcknowledged(
        question=command.question, answer=command.answer, note=command.note
    )
    if command.answer != "relaunch":
        return [taken]
    if not isinstance(run.phase, Interrupted):
        return Refused(Refusal.ANSWER_NOT_POSSIBLE, command.question)
    asked = decide_answered(apply_pending(run, [taken], command))
    if asked is not None:
        return asked if isinstance(asked, Refused) else [taken, *asked]
    if run.instances[-1].launched_at is None:
        return [taken, relaunch_what_never_ran(run.instances[-1].plan, command.question)]
    if not run.ends.failures or run.watch.last_check is None:
        return Refused(Refusal.ANSWER_NOT_POSSIBLE, command.question)
    if forbids_resuming(contract_of(run)):
        return Refused(Refusal.ANSWER_NOT_POSSIBLE, "tracker.resume is never")
    after = apply_pending(run, [taken], command)
    case = Case(after, run.ends.failures[-1], (), run.watch.last_check.event, command.now)
    decision = relaunch_on_answer(case, command.question)
    used = consent_used_by(after, command.now)
    if decision.action is Action.RELAUNCH and used:
        decision = attributed_to_consent(decision, after, used[0])
    return [taken, *used, decision, *escalation_of(after, decision)]


def _stop(run: Run, command: Stop) -> Outcome:
    if not isinstance(run.phase, Launching | Stabilizing | Running):
        if command.actor.kind != "human":
            return refuse_non_human(run, command)
        return [RunStopped(reason=command.reason)]
    instance = run.phase.plan.instance
    # A second stop after the job was lost ends the instance on the human's request.
    means_more = UNACCOUNTED in run.health.findings and run.operator.given_up != instance
    if run.operator.stop_requested == instance and not means_more:
        return Refused(Refusal.STOP_ASKED, instance)
    leave = permit(
        run, GuardedAction.STOP, instance, command.reason, command, consent=command.consent
    )
    if isinstance(leave, Refused):
        return leave
    reason = command.reason or reason_of(run, leave.consent)
    asked = StopRequested(instance=instance, reason=reason, consent=leave.consent)
    return [*leave.events, asked]


def _is_rollback(run: Run, command: ApproveLaunch) -> bool:
    """Say whether an approval can only mean a rollback, or names the planned one."""
    if isinstance(run.phase, Draft | Cleared):
        return False
    planned = run.operator.rollback
    if isinstance(run.phase, Interrupted):
        return planned is not None and planned.digest.startswith(command.digest)
    return True


# --- Seal ----------------------------------------------------------------------------------------


def _verify_seal(run: Run, command: VerifySeal) -> Outcome:
    if not run.instances:
        return Refused(Refusal.NOT_FINISHED, run.slug)  # Stopped before anything was launched.
    if isinstance(run.phase, Finished) and run.phase.verified is not None:
        return Refused(Refusal.SEAL_VERIFIED, run.slug)
    plan = run.instances[-1].plan
    if command.facts.observation.instance != plan.instance:
        return Refused(Refusal.WRONG_INSTANCE, command.facts.observation.instance)
    missing = missing_for_seal(run, command.facts)
    leave = permission_to_seal(run, missing, command)
    if isinstance(leave, Refused):
        return leave
    if leave.unwaived:
        blocked = SealBlocked(missing=missing)
        # A repeated answer adds nothing to the history.
        same = blocked.missing == run.seal.missing
        found = artefacts_at_seal(run, blocked, command.now)
        return [*found] if same else [blocked, *found]
    found = [*artefacts_at_seal(run, None, command.now), *cleared_by_seal(run)]
    # The act directly follows the consent that it uses.
    return [*found, *leave.events, seal_of(run, command.facts, leave.waived)]


def _complete_seal(run: Run, command: CompleteSeal) -> Outcome:
    assert isinstance(run.phase, Finished), "the table lets only a finished run be sealed"
    verified = run.phase.verified
    if verified is None:
        return Refused(Refusal.SEAL_NOT_VERIFIED, run.slug)
    return [RunSealed(tag=verified.tag, commit=verified.commit, head=command.head)]
