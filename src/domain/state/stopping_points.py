"""The stopping point of a watch: there it ends and the DRI is told; nothing is stopped."""

from datetime import datetime, timedelta

from watchkeeper.domain.contracts.contract import Contract
from watchkeeper.domain.events import CheckRecorded, EscalationRaised, RunEvent, WatchEnded
from watchkeeper.domain.state.run import Run, contract_of


def stopping_point(run: Run, check: CheckRecorded, now: datetime) -> str:
    """Return the stopping point that a check reached, in words; empty for none.

    One that was reached once is not reached again, so that a human may go on watching.
    """
    point = contract_of(run).stopping
    reached: list[str] = []
    progress = check.progress
    if point.step and progress is not None and progress.step - progress.uncertainty >= point.step:
        reached.append(f"step {point.step}")
    if point.at is not None and now >= point.at:
        reached.append(f"{point.at.isoformat(timespec='seconds')}")
    if point.event == "first_checkpoint" and run.checkpoints:
        reached.append(f"first complete checkpoint, step-{min(run.checkpoints)}")
    if run.manoeuvres.stopped_at:
        return ""
    return reached[0] if reached else ""


def end_at(run: Run, point: str, check: CheckRecorded) -> list[RunEvent]:
    """End the watch at the point that was agreed, and tell the DRI that nobody watches."""
    reason = f"the agreed stopping point is reached: {point}"
    asks = (
        f"{check.instance}: {reason}, so the watch ended. The job was not stopped and goes on "
        "unwatched; watch on, stop it, or leave it?"
    )
    return [
        WatchEnded(token=check.token, reason=reason, stopping_point=point),
        EscalationRaised(
            question=f"q-{run.questions_raised + 1}",
            rule="R19",
            to=contract_of(run).dri,
            asks=asks,
            evidence=(f"stopping point of the contract: {point}", f"health {check.health.value}"),
        ),
    ]


def sooner(contract: Contract, due: datetime, now: datetime) -> datetime:
    """Return when the next check falls due, no later than a stopping time that is still ahead."""
    at = contract.stopping.at
    if at is None or not now < at < due:
        return due
    return max(at, now + timedelta(seconds=1))
