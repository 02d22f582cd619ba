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
"""By cause: the kinds of findings that tell of it. The other causes come without a sign."""

TELLING = frozenset[str]().union(*DUE_BEFORE.values())
"""The kinds that count at all."""
