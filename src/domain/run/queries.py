"""Questions about a whole run that several modules ask."""

from collections.abc import Iterable
from datetime import datetime, timedelta

from watchkeeper.domain.run.ends import (
    NOT_RECOVERED,
    RECOVERING,
    Action,
    DecisionMade,
    is_recovered,
)
from watchkeeper.domain.run.events import RunEvent
from watchkeeper.domain.run.operator import (
    ActKind,
    PlannedActAnnounced,
    RelaunchRequested,
    RollbackApproved,
)
from watchkeeper.domain.run.phases import Launching, Running, Stabilizing
from watchkeeper.domain.run.questions import EscalationRaised
from watchkeeper.domain.run.run import Run, contract_of, dri_of
from watchkeeper.domain.run.watch import CheckRecorded, WatchEnded
from watchkeeper.domain.values.basic import SourceState
from watchkeeper.domain.values.check import Health
from watchkeeper.domain.values.contract.contract import Contract
from watchkeeper.domain.values.durations import utc_minute
from watchkeeper.domain.values.earlier import Earlier

MISSING_ARTEFACTS = "missing_artefacts"
"""The finding that a run ended well but lacks the proof of it (H11)."""


_LIVE = (Launching, Stabilizing, Running)


def health_now(run: Run) -> Health:
    """Return a run's health after all that is on record.

    The health of a check includes its findings. A later finding about a success (H11) also counts.
    A resumed run is not healthy before its resume is proven.
    """
    if run.health.verdict is not Health.HEALTHY or not isinstance(run.phase, _LIVE):
        return Health.DEGRADED if is_contradicted(run) else run.health.verdict
    proof = run.ends.judgement.proof
    return Health.HEALTHY if is_recovered(run.ends.judgement) else unproven_health(proof)


def unproven_health(proof: str) -> Health:
    """Return the health of a run that trains well but is not recovered, by its verdict."""
    return Health.DEGRADED if proof == "differs" else Health.UNKNOWN


def is_unproven(check: CheckRecorded) -> bool:
    """Return whether a check saw training for which only the resume proof is open.

    The check's reason shows it. Checks of older releases never show it.
    """
    return check.health is Health.UNKNOWN and f"; {RECOVERING}:" in check.because


def health_words(check: CheckRecorded) -> str:
    """Return a check's health for people: a resumed run is `recovering` until proven."""
    if is_unproven(check):
        return RECOVERING
    differs = f"; {NOT_RECOVERED}:" in check.because
    return f"{check.health.value}, {NOT_RECOVERED}" if differs else check.health.value


def is_recovering(run: Run) -> bool:
    """Return whether a live run is healthy except for the pending proof of its resume."""
    due = not is_recovered(run.ends.judgement) and not run.ends.judgement.proof
    live = isinstance(run.phase, _LIVE)
    return live and due and run.health.verdict is Health.UNKNOWN and not run.health.findings


def is_contradicted(run: Run) -> bool:
    """Return whether a finding opened since contradicts the newest check's health."""
    return run.health.verdict is Health.HEALTHY and MISSING_ARTEFACTS in run.health.findings


def escalation_of(run: Run, decision: DecisionMade) -> list[RunEvent]:
    """Return the question that goes with a decision to escalate."""
    if decision.action is not Action.ESCALATE:
        return []
    question = EscalationRaised(
        question=f"q-{run.questions.raised + 1}",
        rule=decision.rule,
        to=dri_of(run),
        asks=f"{decision.instance}: {decision.because}. {_what_now(decision)}",
        evidence=decision.evidence,
    )
    return [question]


def _what_now(decision: DecisionMade) -> str:
    if decision.proposes:
        return decision.proposes
    if decision.rule == "R10":
        return "Nothing can be resumed from: abandon it, and launch a new run?"
    return "Relaunch, or leave it?"


def stopping_point(run: Run, check: CheckRecorded, now: datetime) -> str:
    """Return the stopping point that a check reached, in words; else empty.

    A point counts only once, so that a human may continue the watch after it.
    """
    point = contract_of(run).stopping
    reached: list[str] = []
    progress = check.progress
    if point.step and progress is not None and progress.step - progress.uncertainty >= point.step:
        reached.append(f"step {point.step}")
    if point.at is not None and now >= point.at:
        reached.append(f"{point.at.isoformat(timespec='seconds')}")
    if point.event == "first_checkpoint" and run.checkpoints.validated:
        reached.append(f"first complete checkpoint, step-{min(run.checkpoints.validated)}")
    if run.operator.stopped_at:
        return ""
    return reached[0] if reached else ""


def end_at(run: Run, point: str, check: CheckRecorded) -> list[RunEvent]:
    """End the watch at the agreed point, and notify the DRI that nobody watches."""
    reason = f"the agreed stopping point is reached: {point}"
    asks = (
        f"{check.instance}: {reason}, so the watch ended. The job was not stopped and goes on "
        "unwatched; watch on, stop it, or leave it?"
    )
    return [
        WatchEnded(token=check.token, reason=reason, stopping_point=point),
        EscalationRaised(
            question=f"q-{run.questions.raised + 1}",
            rule="R19",
            to=contract_of(run).dri,
            asks=asks,
            evidence=(f"stopping point of the contract: {point}", f"health {check.health.value}"),
        ),
    ]


def due_before_stop(contract: Contract, due: datetime, now: datetime) -> datetime:
    """Return when the next check is due, no later than a future stopping time."""
    at = contract.stopping.at
    if at is None or not now < at < due:
        return due
    return max(at, now + timedelta(seconds=1))


HOLDING = frozenset({ActKind.PAUSE, ActKind.SWAP, ActKind.MAINTENANCE})
"""Kinds of acts that expect an end, so that no rule relaunches. A drill is not included, since it
tests the recovery."""


def acts_at(run: Run, at: datetime) -> list[PlannedActAnnounced]:
    """Return the announced acts whose window contains a time."""
    return [act for act in run.operator.acts.values() if act.starts_at <= at < act.ends_at]


def act_expecting(run: Run, rule: str, at: datetime) -> PlannedActAnnounced | None:
    """Return the act that expects a rule's findings at a time, or `None`."""
    return next((act for act in acts_at(run, at) if rule in act.expects), None)


def act_around(run: Run, times: Iterable[datetime | None]) -> PlannedActAnnounced | None:
    """Return the act in whose window an end is expected at one of these times."""
    for at in times:
        found = [act for act in acts_at(run, at) if act.kind in HOLDING] if at is not None else []
        if found:
            return found[0]
    return None


def describe_act(act: PlannedActAnnounced) -> str:
    """Write an act in one line; times in UTC."""
    window = f"{utc_minute(act.starts_at)} to {utc_minute(act.ends_at)}"
    expects = f", expects {', '.join(act.expects)}" if act.expects else ""
    return f"{act.act} {act.kind.value} {window}{expects}: {act.reason}"


def source_is_fresh(check: CheckRecorded, source: str) -> bool:
    """Return whether a source gave a fresh answer at a check."""
    return any(r.source == source and r.state is SourceState.FRESH for r in check.readings)


def requested_end(run: Run) -> RelaunchRequested | RollbackApproved | None:
    """Return a human's pending request about the newest instance, or `None`."""
    asked = run.operator.requested
    newest = run.instances[-1].plan.instance if run.instances else ""
    return asked if asked is not None and asked.instance == newest else None


def earlier_of(run: Run) -> Earlier:
    """Return the earlier checks of a run for readers of logs and metrics."""
    last = run.watch.last_check
    return Earlier(
        contract=contract_of(run),
        instances=run.instances,
        checks=run.watch.recent_checks,
        last=last.event if last is not None else None,
        last_at=last.at if last is not None else None,
        open_rules=frozenset(found.rule for found in run.health.findings.values()),
        losses=run.watch.losses,
        lineages=run.operator.lineages,
    )
