"""The limits of the metric detectors for one run.

Each limit comes from the run's contract, or else from its lane.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from watchkeeper.domain.values.contract.contract import Contract, Lane

WARMUP_SHARE = 0.01
"""Share of the final step that counts as warm-up by default: the usual choice of schedules
(Levanter's default `warmup: 0.01`, and recipes of 0.5 to 3 %)."""

WARMUP_MIN = 100
"""Steps of warm-up at least: even short runs swing at first."""


@dataclass(frozen=True, slots=True)
class Limits:
    """See `DetectPart` for what each means."""

    throughput_drop: float
    throughput_cadences: int
    loss_rise: float
    loss_steps: int
    loss_sigma: float
    grad_norm_factor: float
    grad_norm_max: float | None
    skipped_steps: int
    z_loss_factor: float
    router_drop: float
    sustained_steps: int
    resume_overlap: float
    resume_offset: float
    resume_warmup_steps: int
    resume_differs: str
    tracker_checks: int
    tracker_ahead: float
    tracker_loss: float


_NAMES = tuple(Limits.__dataclass_fields__)

_BASE = Limits(
    throughput_drop=0.25,
    throughput_cadences=3,
    loss_rise=0.5,
    loss_steps=10,
    loss_sigma=0.0,
    grad_norm_factor=10.0,
    grad_norm_max=None,
    skipped_steps=3,
    z_loss_factor=5.0,
    router_drop=0.5,
    sustained_steps=10,
    resume_overlap=0.002,
    resume_offset=0.01,
    resume_warmup_steps=50,
    resume_differs="alert",
    tracker_checks=2,
    tracker_ahead=2.0,
    tracker_loss=0.5,
)

LANE_LIMITS: Mapping[Lane, Limits] = MappingProxyType(
    {
        # Practice of hero runs: the window of 5 min against 6 standard deviations of 55 min.
        Lane.HERO: replace(_BASE, loss_sigma=6.0),
        Lane.DAILY: _BASE,
        # Small and short, often on shared machines: the written procedure allows 20 to 30 %.
        Lane.CANARY: replace(_BASE, throughput_drop=0.3),
        Lane.ORDINARY: _BASE,
    }
)
"""By lane."""


def limits_of(contract: Contract) -> Limits:
    """Return the limits of a run: its contract's, else its lane's."""
    return Limits(*stated(contract.detect, LANE_LIMITS[contract.lane], _NAMES))


def stated(said: object, usual: object, names: Iterable[str]) -> list[Any]:
    """Return the values that a contract's part states for these names, else the defaults.

    It runs several times at each check: `dataclasses.replace` would take five times as long.
    """
    return [
        value if (value := getattr(said, name)) is not None else getattr(usual, name)
        for name in names
    ]


_WARMUP_KEYS = frozenset(
    {
        "warmup",
        "warmup_steps",
        "warmup_ratio",
        "warmup_iters",
        "num_warmup_steps",
        "lr_warmup_steps",
        "lr_warmup_iters",
        "lr_warmup_fraction",
    }
)
"""Last parts of the configuration keys under which frameworks keep the warm-up."""


def warmup_of(contract: Contract, config: Mapping[str, str]) -> int:
    """Return for how many steps after a start from scratch fast changes are expected.

    Args:
        contract: It states the warm-up, or the final step.
        config: The launched configuration, flattened.
    """
    if contract.detect.warmup_steps is not None:
        return contract.detect.warmup_steps
    final = contract.final_step.known
    for key in sorted(config):
        if key.rpartition(".")[2] not in _WARMUP_KEYS:
            continue
        try:
            value = float(config[key])
        except ValueError:
            continue
        if 0 < value < 1 and final is not None:
            return max(WARMUP_MIN, round(value * final))
        if value > 1 and (final is None or value <= final):
            return max(WARMUP_MIN, int(value))
    return max(WARMUP_MIN, round(WARMUP_SHARE * (final or 0)))
