"""Limits and switches that cannot be judged again from recorded checks.

A check records less than was observed. For example, it keeps how long the loss was above its limit,
but not the losses. So another limit cannot be tried on the record, and "nothing changes" would be
false.
"""

from collections.abc import Mapping
from dataclasses import asdict
from types import MappingProxyType
from typing import Any

from watchkeeper.domain.values.contract.contract import Contract
from watchkeeper.domain.values.contract.detect_limits import limits_of
from watchkeeper.domain.values.contract.lane_policy import policy_of
from watchkeeper.domain.values.contract.live_limits import live_limits_of

_LEVEL = "each check kept only how long the metric was beyond the limit of then, not its values"
_LOSS = "each check kept only how many like steps differed by the limit of then, not the losses"
_QUIET = "each check kept only that no step was due by the limit of then, not what had excused it"
_TRACKER = "each check kept only what the comparison with the output gave, not what was printed"
_LINES = "each check kept only the lines that showed a text of then, not the output"
_LAUNCH = "it is read where something is launched or sealed, and no check reads it"
_QUESTION = "it changes no decision, only what the DRI is asked about a wrong start"
_DUE = "it says when a check falls due, and the checks are those that were made"
_READ_THERE = "each check read the tracker of then"
_WORDS = "it changes no decision, only its words"

_STEPS = "detect.loss_steps, detect.sustained_steps, detect.skipped_steps"
_LIVE = (
    "live.stall, live.stall_cadences, live.tracker_silent, live.checkpoint_slack, "
    "live.checkpoint_write, live.disk_warn, live.disk_alert"
)
_POLICY = "policy.oom, policy.distributed, policy.stopped, policy.approvals"
_WATCH = "watch.cadence, watch.pending_notify"
_TRACKED = "tracker.display_name, tracker.resume, tracker.entity, tracker.project"
_KEPT = "checkpoints.permanent_every_steps, checkpoints.temporary_every, checkpoints.keep_last"
_MACHINES = "hardware.type, hardware.count"

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
        "policy.material_keys": (_LAUNCH, _POLICY),
        "policy.immaterial_keys": (_LAUNCH, _POLICY),
        "policy.tracker_id": ("each plan on record names the tracker id of its instance", _POLICY),
        "policy.startup_forbidden": (_QUESTION, _POLICY),
        "policy.lines_expected": (_LINES, _POLICY),
        "policy.lines_forbidden": (_LINES, _POLICY),
        "recover.bad_node": (_WORDS, "recover.trajectory, recover.harmless"),
        "watch.holder": ("it says who watches, and no check is judged by that", _WATCH),
        "watch.declined": ("it says that nobody watches, and each check was made", _WATCH),
        "watch.after_submit": (_DUE, _WATCH),
        "watch.stabilizing": (_DUE, _WATCH),
        "tracker.kind": (_READ_THERE, _TRACKED),
        "tracker.url": (_READ_THERE, _TRACKED),
        "tracker.id": ("each plan on record names the tracker id of its instance", _TRACKED),
        "tracker.mode": (_READ_THERE, _TRACKED),
        "tracker.base_url": (_READ_THERE, _TRACKED),
        "tracker.dir": (_READ_THERE, _TRACKED),
        "checkpoints.root": ("each check listed the root of then", _KEPT),
        "checkpoints.milestones": (_LAUNCH, _KEPT),
        "hardware.topology": (_LAUNCH, _MACHINES),
        "hardware.region": (_WORDS, _MACHINES),
    }
)
"""For each key, why the record cannot show its effect, and what can."""

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
"""The policy keys of a contract, which decide on checks and ends."""

_NAMED = "it names the run or its people, and no check is judged by that"
_LAUNCHED = "it says what is launched, and what each recorded check saw came of that"
_LOOKED_AT = "it says what is looked at, and each check kept only what was seen by the one of then"

OTHER_PARTS: Mapping[str, str] = MappingProxyType(
    {
        "run": _NAMED,
        "title": _NAMED,
        "dri": "it says who is asked, and no decision goes by that",
        "goal": _NAMED,
        "stop": "people read it, and no check is judged by it",
        "issue": _NAMED,
        "labels": _NAMED,
        "timezone": "it says how times are shown",
        "command": _LAUNCHED,
        "env": _LAUNCHED,
        "env_from": _LAUNCHED,
        "working_dir": _LAUNCHED,
        "orchestrator": _LAUNCHED,
        "code": _LAUNCHED,
        "output_root": _LAUNCHED,
        "output_region": _LAUNCHED,
        "initialize_from": _LAUNCHED,
        "ancestors": _LAUNCHED,
        "model": _LAUNCHED,
        "resume": _LAUNCHED,
        "stopping": "it says where the watch ends, and the checks beyond it were made or were not",
        "seal": "it is read once the run finished, and no check reads it",
        "logbook": "it says where the logbook is kept",
        "signals": "it says whose a signal is, and each on record was bound by the one of then",
        "telemetry": _LOOKED_AT,
        "hosts": _LOOKED_AT,
    }
)
"""The other keys of a contract, each with why it cannot be tried on recorded checks."""


def why_not_part(part: str) -> str:
    """Return why a part of a contract is not a policy; empty for a policy or an unknown part."""
    reason = OTHER_PARTS.get(part)
    if reason is None:
        return ""
    return f"cannot be judged from the record: {reason}; what can: {', '.join(JUDGING_PARTS)}"


def why_not(part: str, key: str) -> str:
    """Return why a key cannot be judged from the record; empty if it can."""
    found = NOT_FROM_THE_RECORD.get(f"{part}.{key}")
    if found is None:
        return ""
    reason, others = found
    return f"cannot be judged from the record: {reason}; what can: {others}"


def under_policy_of(own: Contract, other: Contract) -> Contract:
    """Return a contract with another's policy, except keys that cannot be judged again.

    Limits of the lane that cannot be judged again stay, too.
    """
    changed = own.model_copy(update={part: getattr(other, part) for part in JUDGING_PARTS})
    for name in NOT_FROM_THE_RECORD:
        changed = _with(changed, name, _stated(own, name))
    counted, would = _as_counted(own), _as_counted(changed)
    for name in NOT_FROM_THE_RECORD:
        if counted.get(name) != would.get(name):
            changed = _with(changed, name, counted[name])
    return changed


def unchanged_keys(own: Contract, other: Contract) -> list[str]:
    """Name the keys that `under_policy_of` leaves unchanged although the other contract differs.

    Returns:
        One sentence each.
    """
    counted, would = _as_counted(own), _as_counted(other)
    return [
        f"{name} stays as it was: it {why_not(*name.split('.'))}"
        for name in NOT_FROM_THE_RECORD
        if _stated(own, name) != _stated(other, name) or counted.get(name) != would.get(name)
    ]


def _stated(contract: Contract, name: str) -> Any:
    part, key = name.split(".")
    return getattr(getattr(contract, part), key)


def _with(contract: Contract, name: str, value: Any) -> Contract:
    part, key = name.split(".")
    other = getattr(contract, part).model_copy(update={key: value})
    return contract.model_copy(update={part: other})


def _as_counted(contract: Contract) -> dict[str, Any]:
    """Return the effective value of each key: as stated, else the lane's."""
    limits = (
        ("detect", asdict(limits_of(contract))),
        ("live", asdict(live_limits_of(contract))),
        ("policy", asdict(policy_of(contract))),
    )
    return {f"{part}.{key}": value for part, known in limits for key, value in known.items()}
