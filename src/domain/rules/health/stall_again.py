"""Repeats the stall verdict on a recorded check under other limits.

A check keeps what each clock showed, since when, and over how many checks. That is enough for the
verdict, except that only the outcome of an excuse is kept, such as of a line about compiling.
"""

from datetime import datetime

from watchkeeper.domain.rules.health.checkpoint_pace import expected_time
from watchkeeper.domain.rules.health.stall import Scene, overdue_verdict
from watchkeeper.domain.run.run import Run, contract_of, end_asked
from watchkeeper.domain.run.watch import CheckRecorded
from watchkeeper.domain.values.basic import JobState
from watchkeeper.domain.values.contract.live_limits import live_limits_of, stall_limit
from watchkeeper.domain.values.instance import Instance
from watchkeeper.domain.values.observation.liveness import Liveness, Moves, Quiet, Witness

_CLOCKS = ("logs", "output", "tracker", "checkpoints", "telemetry")

_STALL_VERDICTS = frozenset({Quiet.RUN_HUNG, Quiet.MONITOR_BLIND, Quiet.NOT_JUDGED})
"""Verdicts that depend on the stall time; the others hold under any limit."""


def liveness_again(run: Run, instance: Instance, check: CheckRecorded, now: datetime) -> Liveness:
    """Return a recorded check's liveness under the run's limits.

    Args:
        run: The run before the check, under the contract to apply.
        instance: The checked instance.
        check: The check.
        now: When it was made.
    """
    live = check.liveness
    if live.since is None or not _missed_a_step(run, instance, check):
        return live
    contract = contract_of(run)
    shown = {one.name: one for one in live.witnesses}
    scene = Scene(
        contract=contract,
        limits=live_limits_of(contract),
        stall=stall_limit(contract),
        state=check.job.state if check.job is not None else None,
        phase=live.phase,
        phase_since=live.phase_since or live.since,
        since=live.since,
        excused_at=live.excused_at,
        checks=live.checks,
        # The check does not keep a clock that the run never had.
        witnesses=tuple(
            shown.get(name, Witness(name=name, moves=Moves.SILENT)) for name in _CLOCKS
        ),
        busy="",
        lost_all_machines=False,
        final=False,
        # While no step is seen, the pace stays the same.
        checkpoint_every=expected_time(run, live.rate),
        now=now,
    )
    quiet, because = overdue_verdict(scene)
    return live.model_copy(update={"quiet": quiet, "because": because})


def _missed_a_step(run: Run, instance: Instance, check: CheckRecorded) -> bool:
    """Return whether a check saw no step although a step was due."""
    state = check.job.state if check.job is not None else None
    if state not in (JobState.RUNNING, None) or not check.liveness.witnesses:
        return False
    asked = end_asked(run, instance.plan.instance)
    return check.liveness.quiet in _STALL_VERDICTS and not asked
