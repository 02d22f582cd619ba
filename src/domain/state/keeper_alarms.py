"""Which findings tell of which cause before it ends a run, so that one of them is due."""

from collections.abc import Mapping
from types import MappingProxyType

DUE_BEFORE: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "numerical_instability": frozenset(
            {
                "not_finite",
                "gradient_explosion",
                "z_loss_jump",
                "router_collapse",
                "optimizer_instability",
                "loss_raised",
                "loss_shift",
            }
        ),
        "collective_hang": frozenset({"not_training", "degraded"}),
        "disk_full": frozenset({"disk_low"}),
        "checkpoint_error": frozenset({"checkpoint_stalled", "checkpoint_incomplete"}),
        "capacity_wedge": frozenset({"pending", "partial_allocation", "degraded"}),
    }
)
"""By cause: the kinds of findings that tell of it. One of them is due before such an end."""

PRINTED = frozenset(
    {
        "hbm_oom",
        "code_bug",
        "config_error",
        "data_error",
        "network_storage_transient",
        "wandb_error",
        "controller_failure",
    }
)
"""Causes that a process prints. Most often it ends in the same moment, so an alarm is due only
where the log of the live job showed a failure before, of which H13 named this class or another. All
else comes from outside, without a sign."""

LOG_SIGNATURE = "log_signature"
"""H13's kind; what it is about are the classes that it named, with commas between them."""

TELLING = frozenset[str]().union(*DUE_BEFORE.values())
"""The kinds that count at all."""
