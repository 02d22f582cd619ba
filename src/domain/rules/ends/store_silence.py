"""How long an end waits for a silent checkpoint store, and what is asked then.

Without its listing nothing is relaunched; and a dead run must not wait unseen for ever.
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
"""What a person is advised to do: before anything is launched the gate (L6) looks there again."""


def silent_too_long(run: Run, check: CheckRecorded, now: datetime) -> str:
    """Say that the store of an ended instance is silent for longer than is waited.

    That is as long as steps may stand still before a live run counts as hung, or nobody can tell
    (`live.stall` and `live.stall_cadences`), from when its end was first seen.

    Args:
        run: The run, with the end folded in.
        check: A check of the instance that ended, in which the store gave no fresh answer.
        now: The time of the decision.

    Returns:
        One sentence that names the store's reason; empty where its answer is still awaited.
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
