"""Revisions of a cause by a late signal, an attempt's report, or a person.

The original record of an end stays unchanged. A new event gives the revised cause. Later decisions,
budgets and comparisons read that event.
"""

import hashlib
from datetime import datetime

from watchkeeper.domain.reading.triage.attempt_evidence import (
    attempt_line,
    first_failed,
    lost_machine_cause,
)
from watchkeeper.domain.rules.ends.advised import proposal_for
from watchkeeper.domain.rules.ends.case import Case
from watchkeeper.domain.rules.ends.commands import Revise, SuggestCause
from watchkeeper.domain.rules.ends.recovery import recover
from watchkeeper.domain.rules.permits.permissions import refuse_non_human
from watchkeeper.domain.rules.shared.apply_pending import apply_pending
from watchkeeper.domain.rules.shared.refusals import Refusal, Refused
from watchkeeper.domain.rules.signals.commands import ReceiveSignal
from watchkeeper.domain.rules.signals.receiving import cause_by_witnesses, receive, witnesses
from watchkeeper.domain.run.ends import Action, CauseSuggested, Failure, FailureRevised
from watchkeeper.domain.run.events import RunEvent
from watchkeeper.domain.run.phases import Interrupted
from watchkeeper.domain.run.queries import escalation_of, requested_end
from watchkeeper.domain.run.questions import EscalationAcknowledged
from watchkeeper.domain.run.run import Run
from watchkeeper.domain.run.watch import CheckRecorded
from watchkeeper.domain.values.causes import CAUSES, INFRASTRUCTURE, UNKNOWN

Outcome = list[RunEvent] | Refused


def revise(run: Run, command: Revise) -> Outcome:
    """Revise the cause of an end to what a person says it was."""
    if command.actor.kind != "human":
        return refuse_non_human(run, command)
    if not command.reason.strip():
        return Refused(Refusal.TEXT_EMPTY)
    failure = next((one for one in run.ends.failures if one.version == command.failure), None)
    if failure is None:
        return Refused(Refusal.FAILURE_UNKNOWN, f"event {command.failure}")
    if command.cause not in CAUSES:
        return Refused(Refusal.CAUSE_UNKNOWN, f"{command.cause}; one of {', '.join(CAUSES)}")
    if command.cause == failure.cause:
        return Refused(Refusal.CAUSE_SAME, command.cause)
    who = command.actor.principal
    because = f"{who} says that it was {command.cause}: {command.reason.strip()}"
    revised = _revised(failure, command.cause, because, (f"the word of {who}",))
    return [revised, *_decide_again(apply_pending(run, [revised], command), command.now)]


def suggest(run: Run, command: SuggestCause) -> Outcome:
    """Record a second reader's hypotheses on an end. Nothing is decided or changed."""
    failure = next((one for one in run.ends.failures if one.version == command.failure), None)
    if failure is None:
        return Refused(Refusal.FAILURE_UNKNOWN, f"event {command.failure}")
    suggestion = CauseSuggested(
        instance=failure.instance,
        failure=failure.version,
        source=command.source,
        hypotheses=command.hypotheses,
        failed=command.failed,
    )
    return [suggestion]


def _decide_again(run: Run, now: datetime) -> list[RunEvent]:
    """Decide again on the newest end, if nobody has acted on it yet."""
    if not isinstance(run.phase, Interrupted) or run.phase.decision is None:
        return []
    before = run.phase.decision
    by_rule = before.action in (Action.RELAUNCH, Action.ESCALATE, Action.NOTIFY)
    mine = run.ends.failures[-1].instance == before.instance == run.instances[-1].plan.instance
    if not by_rule or not mine or requested_end(run) is not None or run.watch.last_check is None:
        return []
    failure = run.ends.failures[-1]
    case = Case(run, failure, failure.evidence, run.watch.last_check.event, now)
    decision = recover(case)
    if decision is None or (decision.action, decision.rule) == (before.action, before.rule):
        return []
    about = [
        q.name for q in run.questions.open.values() if q.asks.startswith(f"{before.instance}: ")
    ]
    answered: list[RunEvent] = []
    if decision.action is Action.RELAUNCH:
        answered = [
            EscalationAcknowledged(
                question=name, answer="relaunch", note=failure.cause, closed_by="revised cause"
            )
            for name in about
        ]
    return [*answered, decision, *escalation_of(run, decision), *proposal_for(run, decision)]


def receive_and_revise(run: Run, command: ReceiveSignal) -> list[RunEvent]:
    """Record a signal, and revise an end of unknown cause if the signal names the cause.

    Nothing is started. Earlier decisions stay valid. Later decisions read the new cause.
    """
    events = receive(run, command)
    if not events:
        return events
    after = apply_pending(run, events, command)
    return [*events, *_by_witnesses(after)]


def _by_witnesses(run: Run) -> list[RunEvent]:
    made: list[RunEvent] = []
    for failure in run.ends.failures:
        if failure.cause not in UNKNOWN or failure.revised:
            continue
        if any("Traceback" in line for line in failure.evidence) or failure.traced:
            continue  # A traceback in the lines of the end outranks any outside report.
        cause = cause_by_witnesses(run, failure.ended_at or failure.at)
        if cause:
            claims = witnesses(run, failure.ended_at or failure.at)
            because = f"a signal that came later names {cause}"
            made.append(_revised(failure, cause, because, claims))
    return made


def revised_by_attempts(run: Run, check: CheckRecorded) -> list[FailureRevised]:
    """Revise an end of unknown cause by the orchestrator's report on the tries.

    Args:
        run: The run, interrupted.
        check: A later check of the instance that ended.
    """
    failure = run.ends.failures[-1] if run.ends.failures else None
    if failure is None or failure.instance != check.instance or failure.cause not in UNKNOWN:
        return []
    if failure.traced or check.traceback:
        return []
    first = first_failed(check)
    cause = lost_machine_cause(first) if first is not None else ""
    if first is None or not cause:
        return []
    because = f"the orchestrator calls its first failed attempt {first.state.value}"
    return [_revised(failure, cause, because, (attempt_line(first),))]


def _revised(
    failure: Failure, cause: str, because: str, evidence: tuple[str, ...]
) -> FailureRevised:
    return FailureRevised(
        instance=failure.instance,
        failure=failure.version,
        before=failure.cause,
        cause=cause,
        outlook=CAUSES[cause].outlook,
        fingerprint=_print(failure, cause),
        because=because,
        evidence=evidence,
    )


def _print(failure: Failure, cause: str) -> str:
    """Return the key that compares ends: same fingerprint and same revision mean same failure."""
    if cause in INFRASTRUCTURE and failure.cause in INFRASTRUCTURE:
        return failure.fingerprint
    return hashlib.sha256(f"{failure.fingerprint}\n{cause}".encode()).hexdigest()[:8]
