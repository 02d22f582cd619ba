"""The metric series of one check, split into the newest stretch and earlier ones.

A stretch begins with a start or a resume. The tracker's history is used if there is one. Otherwise
the series is built from the lines of the output and from the newest values of earlier checks, which
are in the run's state.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from watchkeeper.domain.reading.metrics.numeric import Flags, Floats, Ints, float_array, int_array
from watchkeeper.domain.values.basic import SourceState
from watchkeeper.domain.values.contract.metric_names import is_loss_scale, recognise
from watchkeeper.domain.values.earlier import Earlier
from watchkeeper.domain.values.instance import Instance
from watchkeeper.domain.values.observation.observation import Observation
from watchkeeper.domain.values.observation.sources import MetricHistory

ROWS_MAX = 2_048
"""How many newest rows of a history are read, unless an earlier lineage has to be compared."""

PACE_ROWS_MAX = 2_048
"""How many rows of the whole history give the pace."""

PAUSE_S = 300.0
"""Seconds. A longer gap between two rows, such as an evaluation or restart, does not count for a
pace."""

ROW_ROLES = frozenset({"loss", "grad_norm", "z_loss", "router", "update_norm", "skipped"})
"""Metrics that are read row by row. For the others the pace or the newest value is enough."""

NEWEST_ROWS = 64
"""How many newest rows are searched for the newest value of a metric."""

FINITE_ROLES = ("loss", "grad_norm", "z_loss", "router", "update_norm")
"""Metrics that must be finite. A perplexity may overflow, and an evaluation may be empty."""


@dataclass(frozen=True, slots=True)
class Series:
    """What was logged, oldest first.

    Attributes:
        source: See `Measured.source`.
        steps: Steps of the newest stretch, ascending.
        times: Seconds since 1970; `None` if no source gives them.
        columns: Values by role, one for each step; NaN if a step has no value.
        names: The metric's name by role.
        before_steps: Steps of earlier stretches with a loss.
        before_losses: The losses at these steps.
        before_times: When they were logged; `None` if no source gives it.
        highest_before: The highest step before the newest stretch, within these rows.
        turns: How often steps went back since the launch, within these rows.
        bad: Steps of the newest stretch at which a metric was not finite, by role.
        pace_times: Times of all rows with a throughput.
        pace_values: The throughput at these times.
        slack: The rounding error of the losses.
        scaled: Whether a loss scale is logged, as for float16.
        mfu: The newest model FLOPs utilisation.
    """

    source: Literal["history", "logs", "checks"]
    steps: Ints
    times: Floats | None
    columns: Mapping[str, Floats]
    names: Mapping[str, str]
    before_steps: Ints
    before_losses: Floats
    before_times: Floats | None = None
    highest_before: int | None = None
    turns: int = 0
    bad: Mapping[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    pace_times: Floats | None = None
    pace_values: Floats | None = None
    slack: float = 0.0
    scaled: bool = False
    mfu: float | None = None


NO_STEPS: Ints = np.zeros(0, dtype=np.int64)
NO_VALUES: Floats = np.zeros(0)


def usable_history(seen: Observation) -> MetricHistory | None:
    """Return the tracker's history, unless its reading is unavailable."""
    reading = next((one for one in seen.readings if one.source == "history"), None)
    if reading is not None and reading.state is SourceState.UNAVAILABLE:
        return None
    return seen.history


def series_of_history(
    past: Earlier, instance: Instance, history: MetricHistory, whole: bool
) -> Series:
    """Return the series that a tracker's history holds.

    Args:
        past: What the run's earlier checks showed.
        instance: The checked instance.
        history: At least one row.
        whole: Whether to read all rows, to compare earlier stretches.
    """
    stated = past.contract.detect.metrics
    names = recognise((*history.columns, *history.not_finite), stated)
    size = len(history.steps)
    rows = size if whole else min(size, ROWS_MAX)
    steps = int_array(history.steps[size - rows :])
    times = _floats(history.times, rows) if history.times else None
    columns = {
        role: _floats(history.columns[name], rows)
        for role, name in names.items()
        if role in ROW_ROLES and name in history.columns
    }
    first = _launched(past, instance, times)
    loss = columns.get("loss")
    begin, turns = _last_turn(steps, loss, first)
    known = np.isfinite(loss[:begin]) if loss is not None and begin else np.zeros(begin, dtype=bool)
    pace_times, pace_values = _pace_rows(history, names)
    later, own, own_times = _ascending(steps[begin:], columns, times, begin)
    return Series(
        source="history",
        steps=later,
        times=own_times,
        columns=own,
        names=names,
        before_steps=steps[:begin][known],
        before_losses=loss[:begin][known] if loss is not None else NO_VALUES,
        before_times=times[:begin][known] if times is not None else None,
        highest_before=int(steps[:begin].max()) if begin else None,
        turns=turns,
        bad=_bad_steps(history, names, later, own, int(steps[:begin].max()) if begin else -1),
        pace_times=pace_times,
        pace_values=pace_values,
        scaled=any(is_loss_scale(name) for name in history.columns),
        mfu=_newest(history, names.get("mfu", "")),
    )


def _newest(history: MetricHistory, name: str) -> float | None:
    rows = history.columns.get(name, ())[-NEWEST_ROWS:]
    return next((value for value in reversed(rows) if math.isfinite(value)), None)


def _floats(values: tuple[float, ...], rows: int) -> Floats:
    return float_array(values[len(values) - rows :])


def _launched(past: Earlier, instance: Instance, times: Floats | None) -> int:
    """Return the first row since the launch. It is 0 for the run's first instance."""
    if len(past.instances) < 2 or times is None or instance.launched_at is None:
        return 0
    return int(np.searchsorted(times, instance.launched_at.timestamp()))


def _last_turn(steps: Ints, loss: Floats | None, first: int) -> tuple[int, int]:
    """Return where the newest stretch begins, and how often steps went back since the launch."""
    # Without a step back in all rows, the rows with a loss have no step back either.
    if not (np.diff(steps[first:]) < 0).any():
        return first, 0
    logged: Ints = np.arange(first, steps.size)
    if loss is not None:
        # Late values, such as evaluations, are logged under an earlier step.
        logged = logged[np.isfinite(loss[first:])]
    moves = np.diff(steps[logged])
    if not moves.size:
        return first, 0
    usual = int(np.partition(np.abs(moves), moves.size // 2)[moves.size // 2])
    back = np.flatnonzero(moves < -min(max(2, 2 * usual), 1_000))
    return (int(logged[back[-1] + 1]), int(back.size)) if back.size else (first, 0)


def _ascending(
    steps: Ints, columns: Mapping[str, Floats], times: Floats | None, begin: int
) -> tuple[Ints, dict[str, Floats], Floats | None]:
    own = {role: column[begin:] for role, column in columns.items()}
    mine = times[begin:] if times is not None else None
    if steps.size > 1 and bool((np.diff(steps) < 0).any()):
        order = np.argsort(steps, kind="stable")
        own = {role: column[order] for role, column in own.items()}
        mine = mine[order] if mine is not None else None
        steps = steps[order]
    if mine is not None and mine.size:
        mine = np.maximum.accumulate(mine)
    return steps, own, mine


def _pace_rows(
    history: MetricHistory, names: Mapping[str, str]
) -> tuple[Floats | None, Floats | None]:
    """Return times and throughput over the whole history, thinned evenly."""
    name = names.get("throughput")
    size = len(history.steps)
    if not history.times or size < 2:
        return None, None
    thin = max(1, -(-size // PACE_ROWS_MAX))
    times = float_array(history.times[::thin])
    if name is not None and name in history.columns:
        values = float_array(history.columns[name][::thin])
        if thin > 1 and not np.isfinite(values).any():
            times, values = float_array(history.times), float_array(history.columns[name])
    else:
        steps = np.array(history.steps[::thin], dtype=np.float64)
        gaps, moves = np.diff(times), np.diff(steps)
        # A pause between two instances is no slow step.
        whole = (gaps > 0) & (gaps < PAUSE_S) & (moves > 0)
        values = np.full(times.size, np.nan)
        values[1:][whole] = moves[whole] / gaps[whole]
    finite = np.isfinite(values)
    return np.maximum.accumulate(times[finite]), values[finite]


def _bad_steps(
    history: MetricHistory,
    names: Mapping[str, str],
    steps: Ints,
    columns: Mapping[str, Floats],
    highest_before: int,
) -> dict[str, tuple[int, ...]]:
    """Return the steps of the newest stretch where a metric was NaN or infinite."""
    found: dict[str, tuple[int, ...]] = {}
    for role in FINITE_ROLES:
        name = names.get(role, "")
        named = history.not_finite.get(name, ())
        column = columns.get(role)
        infinite = np.isinf(column) if column is not None else np.zeros(steps.size, dtype=bool)
        if not named and not infinite.any():
            continue
        named_steps = np.array(named, dtype=np.int64)
        # A NaN of an earlier stretch belongs to that stretch, even if the step is trained again.
        here: Flags = np.isin(steps, named_steps)
        if column is not None:
            here &= np.isnan(column)
        alone = named_steps[~np.isin(named_steps, steps) & (named_steps > highest_before)]
        alone = alone[alone >= (int(steps[0]) if steps.size else 0)]
        whole = sorted({*steps[here | infinite].tolist(), *alone.tolist()})
        if whole:
            found[role] = tuple(whole)
    return found
