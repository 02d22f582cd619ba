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

_LEVEL = "checks keep how long the metric was beyond the recorded limit, not its values"
_LOSS = "checks keep how many steps differed by the recorded limit, not the losses"
_TRACKER = "checks keep the result of the comparison with the output, not the printed lines"
_QUIET = "checks keep that no step was due by the recorded limit, not why"
_LAUNCH = "only launches and seals use it"
_LINES = "checks keep only lines with the recorded texts, not the output"
_INSTANCE_ID = "each recorded plan names the tracker id of its instance"
_WORDS = "it changes only words, no decision"
_DUE = "it sets when checks are due, and the recorded checks are given"
_READ_THERE = "checks read the recorded tracker"

NOT_FROM_THE_RECORD: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        f"{part}.{key}": (reason, others)
        for part, keys, reason, others in (
            ("detect", "metrics", "checks keep only the metrics that were recognised", _STEPS),
            ("detect", "warmup_steps", "checks keep only whether the warm-up was over", _STEPS),
            ("detect", "loss_rise", _LEVEL, "detect.loss_steps"),
            ("detect", "loss_sigma", "checks keep only whether the loss had shifted", _STEPS),
            ("detect", "grad_norm_factor grad_norm_max", _LEVEL, "detect.sustained_steps"),
            ("detect", "z_loss_factor router_drop", _LEVEL, "detect.sustained_steps"),
            ("detect", "resume_overlap resume_warmup_steps", _LOSS, "detect.resume_offset"),
            ("detect", "resume_differs resume_planned", _LOSS, "detect.resume_offset"),
            ("detect", "tracker_ahead tracker_loss", _TRACKER, "detect.tracker_checks"),
            ("live", "initialising startup_watchdog compiling", _QUIET, _LIVE),
            ("policy", "temporary_retention material_keys immaterial_keys", _LAUNCH, _POLICY),
            ("policy", "tracker_id", _INSTANCE_ID, _POLICY),
            ("policy", "startup_forbidden", "it changes only the question to the DRI", _POLICY),
            ("policy", "lines_expected lines_forbidden", _LINES, _POLICY),
            ("recover", "bad_node", _WORDS, "recover.trajectory, recover.harmless"),
            ("watch", "holder", "it names who watches, and no check depends on it", _WATCH),
            ("watch", "declined", "it says that nobody watches, but checks were made", _WATCH),
            ("watch", "after_submit stabilizing", _DUE, _WATCH),
            ("tracker", "kind url mode base_url dir", _READ_THERE, _TRACKED),
            ("tracker", "id", _INSTANCE_ID, _TRACKED),
            ("checkpoints", "root", "checks listed the recorded root", _KEPT),
            ("checkpoints", "milestones", _LAUNCH, _KEPT),
            ("hardware", "topology", _LAUNCH, _MACHINES),
            ("hardware", "region", _WORDS, _MACHINES),
        )
        for key in keys.split()
    }
)
"""For each key, why the record cannot show its effect, and what can."""

JUDGING_PARTS = (
    *("lane", "policy", "retries", "watch", "tracker", "checkpoints"),
    *("final_step", "hardware", "detect", "live", "recover"),
)
"""The policy keys of a contract, which decide on checks and ends."""

OTHER_PARTS: Mapping[str, str] = MappingProxyType(
    {
        part: reason
        for parts, reason in (
            ("run title goal issue labels", "it only names or describes the run"),
            ("dri", "it names who is asked, and no decision depends on it"),
            ("stop", "it is for people, and no check depends on it"),
            ("timezone", "it sets how times are shown"),
            (
                "command env env_from working_dir orchestrator code output_root output_region "
                "initialize_from ancestors model resume",
                "it defines the launched job, and checks saw the results of that job",
            ),
            ("stopping", "it sets where the watch ends, and the recorded checks are given"),
            ("seal", "only the seal uses it"),
            ("logbook", "it sets where the logbook is kept"),
            ("signals", "it binds signals, and the recorded signals are already bound"),
            ("telemetry hosts", "checks keep only the values of the recorded sources"),
        )
        for part in parts.split()
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
