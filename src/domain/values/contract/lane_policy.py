"""A lane's defaults for the switches that a contract leaves out.

These are the switches on which practice differs.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from watchkeeper.domain.values.contract.contract import Contract, Lane
from watchkeeper.domain.values.contract.parts import (
    PolicyApprovals,
    PolicyDistributed,
    PolicyOom,
    PolicyStartup,
    PolicyStopped,
    PolicyTemporaries,
    PolicyTrackerId,
)


@dataclass(frozen=True, slots=True)
class Policy:
    """The effective switches of one run; see `PolicyPart`."""

    tracker_id: PolicyTrackerId
    oom: PolicyOom
    temporary_retention: PolicyTemporaries
    stopped: PolicyStopped
    startup_forbidden: PolicyStartup
    approvals: PolicyApprovals = "standing"
    distributed: PolicyDistributed = "ask"


_HERO = Policy("per_run", "ask", "ten_or_more", "needs_waiver", "end_with_consent")
_DAILY = Policy(
    "per_run", "one_bounded_fix", "any", "needs_waiver", "alert", distributed="retry_once"
)
_CANARY = Policy("per_run", "ask", "any", "needs_waiver", "alert")
_ORDINARY = Policy("per_run", "ask", "any", "needs_waiver", "alert")

LANE_POLICIES: Mapping[Lane, Policy] = MappingProxyType(
    {
        # The written procedure for hero runs: keep 10, never fix memory by itself.
        Lane.HERO: _HERO,
        # The written procedure for ferries allows one bounded attempt.
        Lane.DAILY: _DAILY,
        Lane.CANARY: _CANARY,
        Lane.ORDINARY: _ORDINARY,
    }
)
"""By lane."""


def policy_of(contract: Contract) -> Policy:
    """Return the switches of a run: its contract's, else its lane's."""
    stated, lane = contract.policy, LANE_POLICIES[contract.lane]
    return Policy(
        tracker_id=stated.tracker_id or lane.tracker_id,
        oom=stated.oom or lane.oom,
        temporary_retention=stated.temporary_retention or lane.temporary_retention,
        stopped=stated.stopped or lane.stopped,
        startup_forbidden=stated.startup_forbidden or lane.startup_forbidden,
        approvals=stated.approvals or lane.approvals,
        distributed=stated.distributed or lane.distributed,
    )


def forbids_resuming(contract: Contract) -> bool:
    """Return whether a relaunch is impossible: resume policy `never` with one tracker id.

    If each instance has its own tracker id, no instance resumes another's.
    """
    return contract.tracker.resume == "never" and policy_of(contract).tracker_id == "per_run"
