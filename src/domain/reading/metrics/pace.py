"""Measures the speed of training per cadence, and the expected speed."""

from collections.abc import Mapping
from datetime import datetime
from itertools import pairwise

import numpy as np

from watchkeeper.domain.reading.metrics.numeric import bins_of, float_array, median_of
from watchkeeper.domain.reading.metrics.series import Series
from watchkeeper.domain.values.contract.contract import Contract, cadence_of
from watchkeeper.domain.values.contract.detect_limits import Limits
from watchkeeper.domain.values.contract.metric_names import is_duration
from watchkeeper.domain.values.earlier import Earlier
from watchkeeper.domain.values.exits import significant
from watchkeeper.domain.values.instance import Instance
from watchkeeper.domain.values.observation.measured import BY_STEPS, Pace, low_and_ended
from watchkeeper.domain.values.observation.observation import Observation


def comparable_since(past: Earlier, name: str) -> datetime | None:
    """Return since when the run has used an instance's hardware and batch.

    Args:
        past: With all instances of the run.
        name: Of the instance.

    Returns:
        The launch of the oldest instance such that it and all later ones are alike; `None` if no
        earlier instance differs.
    """
    names = [one.plan.instance for one in past.instances]
    place = names.index(name) if name in names else len(names) - 1
    upto = past.instances[: place + 1]
    for before, after in reversed(list(pairwise(upto))):
        if not _is_alike(before, after):
            return after.launched_at
    return None


def _is_alike(before: Instance, after: Instance) -> bool:
    """Return whether the recorded machines and batch of two instances are the same."""
    if before.plan.base_command != after.plan.base_command:
        return False  # The arguments may name the machines or the batch.
    was, now = before.contract, after.contract
    if was is not None and now is not None and was is not now:
        machines = {"type", "topology", "count"}
        if was.hardware.model_dump(include=machines) != now.hardware.model_dump(include=machines):
            return False
        if was.model.batch_size != now.model.batch_size:
            return False
        if was.model.sequence_length != now.model.sequence_length:
            return False
    if not before.config or not after.config:
        return True  # Without a configuration only the contracts are compared.
    return _batch(before.config) == _batch(after.config)


def _batch(config: Mapping[str, str]) -> dict[str, str]:
    """Return the batch settings of a configuration."""
    words = ("batch", "gradient_accum", "seq")
    return {name: value for name, value in config.items() if any(w in name.lower() for w in words)}


PACES_SHOWN = 8
"""Cadences whose pace a check records."""

BASELINE_FALL = 0.002
"""Share by which a pace's baseline may fall with each cadence. The best hours give the baseline."""


def pace_of(
    series: Series, limits: Limits, seen: Observation, contract: Contract, past: Earlier
) -> Pace | None:
    """Return the training pace by cadence, with its baseline; `None` without a source.

    If only the checks' own steps show the pace, the result is `None` while the pace is normal.

    Args:
        series: What was logged.
        limits: The run's.
        seen: The observation, for its time.
        contract: For the cadence.
        past: What the run's earlier checks showed: they know a baseline.
    """
    if series.pace_times is None or series.pace_values is None or not series.pace_times.size:
        return None
    name = series.names.get("throughput", BY_STEPS)
    inverted = is_duration(name)
    values = series.pace_values
    if inverted:
        values = np.where(values > 0, 1.0 / np.maximum(values, 1e-12), np.nan)
    known = np.isfinite(values)
    alike = comparable_since(past, seen.instance)
    if alike is not None:
        known &= series.pace_times > alike.timestamp()
    now, cadence_s = seen.at.timestamp(), cadence_of(contract).total_seconds()
    bins = bins_of(series.pace_times[known], values[known], now, cadence_s).values
    last = _pace_before(past, name, alike)
    baseline, count = _baseline(bins, limits, last, now, cadence_s)
    # A check records the rounded pace, so that the rules can count again later.
    baseline = significant(baseline) if baseline is not None else None
    low = 0 if baseline is None else low_and_ended(bins, (1 - limits.throughput_drop) * baseline)[0]
    h4_open = "H4" in past.open_rules
    if series.times is None and "throughput" not in series.names and not low and not h4_open:
        # The steps of checks are recorded anyway. They give a pace only once it is low.
        return None
    return Pace(
        metric=name,
        baseline=baseline,
        baseline_bins=count,
        newest=bins[:PACES_SHOWN],
        low=low,
        inverted=inverted,
    )


def _pace_before(past: Earlier, name: str, alike: datetime | None) -> tuple[Pace, float] | None:
    for one in reversed(past.checks):
        if alike is not None and one.at <= alike:
            break
        if one.pace is not None and one.pace.metric == name:
            return one.pace, one.at.timestamp()
    return None


def _baseline(
    bins: tuple[float | None, ...],
    limits: Limits,
    last: tuple[Pace, float] | None,
    now: float,
    cadence_s: float,
) -> tuple[float | None, int]:
    """Return the expected pace, from the cadences before the judged ones."""
    pool = [value for value in bins[limits.throughput_cadences :] if value is not None]
    enough = len(pool) >= limits.throughput_cadences
    own = median_of(float_array(pool)) if enough else None
    if last is None:
        return own, len(pool)
    pace, at = last
    assert pace.baseline is not None, "only such a pace is taken from an earlier check"
    # The best pace is a fact about the machines, so the baseline falls only slowly.
    kept = pace.baseline * (1 - BASELINE_FALL) ** max((now - at) / cadence_s, 0.0)
    if own is None or own < kept:
        return kept, pace.baseline_bins
    return own, len(pool)
