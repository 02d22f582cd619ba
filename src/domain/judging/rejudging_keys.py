"""Which limits and switches cannot be judged again: what a check kept is their outcome alone.

A check records what the rules read, which is less than what was seen: of a loss its expected value
and how long it lay above the limit, not the losses; of the output no lines. Where a limit was used
to make such a number, another limit cannot be tried on it, and saying that nothing changes would
be false.
"""

from collections.abc import Mapping
from types import MappingProxyType

from watchkeeper.domain.contracts.contract import Contract

_LEVEL = "each check kept only how long the metric was beyond the limit of then, not its values"
_LOSS = "each check kept only how many like steps differed by the limit of then, not the losses"
_QUIET = "each check kept only that no step was due by the limit of then, not what had excused it"
_TRACKER = "each check kept only what the comparison with the output gave, not what was printed"
_LINES = "each check kept only the lines that showed a text of then, not the output"
_LAUNCH = "it is read where something is launched or sealed, and no check reads it"
_QUESTION = "it changes no decision, only what the DRI is asked about a wrong start"

_STEPS = "detect.loss_steps, detect.sustained_steps, detect.skipped_steps"
_LIVE = (
    "live.stall, live.stall_cadences, live.checkpoint_slack, live.checkpoint_write, "
    "live.disk_warn, live.disk_alert"
)
_POLICY = "policy.oom, policy.distributed, policy.approvals"

NOT_FROM_THE_RECORD: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "detect.metrics": ("each check kept only the metrics that were recognised then", _STEPS),
        "detect.warmup_steps": ("each check kept only whether it was past the warm-up", _STEPS),
        "detect.loss_rise": (_LEVEL, "detect.loss_steps"),
        "detect.loss_sigma": ("each check kept only whether the loss had shifted by it", _STEPS),
        "detect.grad_norm_factor": (_LEVEL, "detect.sustained_steps"),
        "detect.grad_norm_max": (_LEVEL, "detect.sustained_steps"),
        "detect.z_loss_factor": (_LEVEL, "detect.sustained_steps"),
        "detect.router_drop": (_LEVEL, "detect.sustained_steps"),
        "detect.resume_overlap": (_LOSS, "detect.resume_offset"),
        "detect.resume_warmup_steps": (_LOSS, "detect.resume_offset"),
        "detect.resume_differs": (_LOSS, "detect.resume_offset"),
        "detect.resume_planned": (_LOSS, "detect.resume_offset"),
        "detect.tracker_ahead": (_TRACKER, "detect.tracker_checks"),
        "detect.tracker_loss": (_TRACKER, "detect.tracker_checks"),
        "live.initialising": (_QUIET, _LIVE),
        "live.startup_watchdog": (_QUIET, _LIVE),
        "live.compiling": (_QUIET, _LIVE),
        "policy.temporary_retention": (_LAUNCH, _POLICY),
        "policy.stopped": (_LAUNCH, _POLICY),
        "policy.material_keys": (_LAUNCH, _POLICY),
        "policy.immaterial_keys": (_LAUNCH, _POLICY),
        "policy.tracker_id": ("each plan on record names the tracker id of its instance", _POLICY),
        "policy.startup_forbidden": (_QUESTION, _POLICY),
        "policy.lines_expected": (_LINES, _POLICY),
        "policy.lines_forbidden": (_LINES, _POLICY),
    }
)
"""By key: why it cannot be judged from the record, and what can."""

JUDGING_PARTS = (
    "lane",
    "policy",
    "retries",
    "watch",
    "tracker",
    "checkpoints",
    "final_step",
    "hardware",
    "detect",
    "live",
    "recover",
)
"""The keys of a contract that are policy: by them checks are judged, and ends answered. The others
say what is launched, watched or asked, and what each check saw came of that."""


def why_not(part: str, key: str) -> str:
    """Return why a key cannot be judged from the record, and what can; empty where it can."""
    found = NOT_FROM_THE_RECORD.get(f"{part}.{key}")
    if found is None:
        return ""
    reason, others = found
    return f"cannot be judged from the record: {reason}; what can: {others}"


def under_policy_of(own: Contract, other: Contract) -> Contract:
    """Return a contract with another's policy; what cannot be judged from the record stays."""
    changed = own.model_copy(update={part: getattr(other, part) for part in JUDGING_PARTS})
    for name in NOT_FROM_THE_RECORD:
        part, key = name.split(".")
        kept = {key: getattr(getattr(own, part), key)}
        taken = getattr(changed, part).model_copy(update=kept)
        changed = changed.model_copy(update={part: taken})
    return changed


def stays_as_recorded(own: Contract, other: Contract) -> list[str]:
    """Name the keys that `under_policy_of` leaves as they were though another has them otherwise.

    Returns:
        One sentence each.
    """
    told: list[str] = []
    for name in NOT_FROM_THE_RECORD:
        part, key = name.split(".")
        if getattr(getattr(own, part), key) != getattr(getattr(other, part), key):
            told.append(f"{name} stays as it was: it {why_not(part, key)}")
    return told
