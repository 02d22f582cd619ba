"""Event lines of handovers, planned acts and operator acts."""

from typing import assert_never

from watchkeeper.domain.run.events import HandoverEvent, OperatorEvent
from watchkeeper.domain.run.operator import (
    AncestorNamed,
    LineageRejected,
    PlannedActAnnounced,
    PlannedActEnded,
    RelaunchRequested,
    RollbackApproved,
    RollbackPlanned,
    RunSuperseded,
)
from watchkeeper.domain.run.queries import describe_act
from watchkeeper.domain.run.seal import MilestoneVerified
from watchkeeper.domain.run.watch import WatchEnded, WatchHandedOver
from watchkeeper.domain.values.contract.plan import short


def operator_summary(data: HandoverEvent | OperatorEvent) -> str:
    """Describe such an event in one line."""
    if isinstance(data, HandoverEvent):
        return _watched(data)
    match data:
        case RelaunchRequested():
            return f"planned relaunch of {data.instance} asked for: {data.reason}"
        case RollbackPlanned():
            plan = short(data.digest)
            return f"rollback to step-{data.step} planned, plan {plan}: {data.reason}"
        case RollbackApproved():
            where = f"from {data.instance} to step-{data.step}"
            return f"rollback {where} approved as {data.approval}: {data.reason}"
        case LineageRejected():
            return f"lineage through {data.through} above step {data.above_step} rejected"
        case RunSuperseded():
            return f"superseded by {data.successor} from step-{data.step}: {data.reason}"
        case AncestorNamed():
            chain = " -> ".join(data.ancestors)
            return f"goes on from {data.ancestor} at step-{data.step} ({chain})"
        case MilestoneVerified():
            return f"milestone step-{data.step} verified: {data.tag} on {data.commit[:8]}"
        case _:
            assert_never(data)


def _watched(data: HandoverEvent) -> str:
    match data:
        case WatchHandedOver():
            forced = " by force" if data.forced else ""
            note = f": {data.note}" if data.note else ""
            return f"watch handed over{forced} to {data.to}, token {data.token}{note}"
        case WatchEnded():
            return f"watch ended: {data.reason}"
        case PlannedActAnnounced():
            return f"planned act {describe_act(data)}"
        case PlannedActEnded():
            return f"planned act {data.act} is over: {data.reason}"
        case _:
            assert_never(data)
