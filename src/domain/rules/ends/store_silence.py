"""Timeout for a checkpoint store that gives no answer after an end.

Nothing is relaunched without the store's listing. After the timeout the DRI is asked, so that the
run does not wait unnoticed.
"""

from datetime import datetime

from watchkeeper.domain.run.phases import Interrupted
from watchkeeper.domain.run.run import Run, contract_of
from watchkeeper.domain.run.watch import CheckRecorded
from watchkeeper.domain.values.contract.live_limits import stall_limit
from watchkeeper.domain.values.durations import render_duration
from watchkeeper.domain.values.observation.observation import source_reading

PROPOSES = (
    "Nothing was done. Look at the store; then relaunch from the newest checkpoint on record, or "
    "leave it?"
)
"""Advice to a person: the gate (L6) checks the store again before any launch."""


def silent_too_long(run: Run, check: CheckRecorded, now: datetime) -> str:
    """Return why the store of an ended instance counts as silent for too long.

    The timeout equals the stall limit of a live run (`live.stall` and `live.stall_cadences`). It
    starts when the end was first seen.

    Args:
        run: The run, with the end folded in.
        check: A check of the instance that ended, in which the store gave no fresh answer.
        now: The time of the decision.

    Returns:
        One sentence with the store's reason; empty before the timeout.
    """
    limit = stall_limit(contract_of(run))
    if not isinstance(run.phase, Interrupted) or run.since is None or now - run.since < limit:
        return ""
    reading = source_reading(check.readings, "checkpoints")
    why = reading.reason or reading.state.value
    return (
        f"the checkpoint store gives no answer ({why}) since {check.instance} ended at "
        f"{run.since:%H:%M} UTC, {render_duration(limit)} or more: nobody knows what can be "
        "resumed from, so nothing relaunches by rule"
    )
