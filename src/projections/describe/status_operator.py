"""Handovers, planned acts and operator acts in a run's status row.

A row without them is unchanged, so rows of older ledgers still equal their rebuild.
"""

from watchkeeper.domain.run.ends import describe_open_proof
from watchkeeper.domain.run.phases import Interrupted, Running, Stabilizing, Superseded
from watchkeeper.domain.run.queries import describe_act, requested_end
from watchkeeper.domain.run.run import Run
from watchkeeper.domain.values.contract.plan import short
from watchkeeper.projections.quoting import cut
from watchkeeper.projections.status.rows import MonitorAccuracyRow, RollbackRow, RunRow

_TEXT_MAX = 300
"""Characters kept of a sentence; the event has the whole one."""


def with_operator(row: RunRow, run: Run) -> RunRow:
    """Add handovers, planned acts and operator acts to a run's row."""
    operator = run.operator
    if run.watch.kept_for:
        row["kept_for"] = run.watch.kept_for
    if run.watch.ended:
        row["watch_ended"] = cut(run.watch.ended, _TEXT_MAX)
    if run.contract is not None and run.contract.watch.declined:
        row["declined_because"] = cut(run.contract.watch.declined, _TEXT_MAX)
    if operator.acts:
        row["planned"] = [cut(describe_act(act), _TEXT_MAX) for act in operator.acts.values()]
    asked = requested_end(run)
    if asked is not None and isinstance(run.phase, Stabilizing | Running | Interrupted):
        what = "relaunch" if asked.topic.startswith("run.relaunch") else "rollback"
        row["asked"] = cut(f"{what}: {asked.reason}", _TEXT_MAX)
    planned = operator.rollback
    if planned is not None and planned.plan.instance == f"i{len(run.instances) + 1}":
        row["rollback"] = RollbackRow(plan=short(planned.digest), step=planned.step)
    if run.seal.milestones:
        row["milestones"] = list(run.seal.milestones)
    if operator.ancestor is not None:
        row["ancestors"] = list(operator.ancestor.ancestors)
    if isinstance(run.phase, Superseded):
        row["successor"] = run.phase.successor
    if resume := _resume(run):
        row["resume"] = resume
    counts = run.watch.monitor_accuracy
    if counts.causes or counts.restarts or counts.alarms or counts.pages:
        row["keeper"] = MonitorAccuracyRow(
            causes=[counts.causes, counts.causes_wrong],
            restarts=[counts.restarts, counts.restarts_false],
            alarms=[counts.alarms, counts.alarms_missed],
            pages=[counts.pages, counts.pages_needless],
        )
    return row


def _resume(run: Run) -> str:
    """Say what is unproven of a live instance's resume, or that it could not be compared."""
    known = run.ends.judgement
    plan = run.instances[-1].plan if run.instances else None
    if plan is None or known.resumed != plan.instance:
        return ""
    live = isinstance(run.phase, Stabilizing | Running)
    return describe_open_proof(known.proof, plan.resume_step) if live else ""
