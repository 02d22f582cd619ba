"""Measures a check: turns logged metrics into bounded statistics.

The detectors read these statistics.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

import numpy as np

from watchkeeper.domain.reading.log_tail import LogTail
from watchkeeper.domain.reading.metrics.latest_metrics import current_tracker_facts, latest_metrics
from watchkeeper.domain.reading.metrics.nonfinite_latest import nonfinite_latest
from watchkeeper.domain.reading.metrics.numeric import (
    LEVEL_POINTS_MAX,
    Floats,
    Ints,
    LevelRule,
    ShiftRule,
    level_of,
    median_of,
    shift_of,
)
from watchkeeper.domain.reading.metrics.pace import pace_of
from watchkeeper.domain.reading.metrics.resume import is_comparison_over, overlap_of
from watchkeeper.domain.reading.metrics.series import Series, series_of_history, usable_history
from watchkeeper.domain.reading.metrics.series_checks import series_of_checks
from watchkeeper.domain.reading.nonfinite_lines import bad_lines
from watchkeeper.domain.values.basic import TrackerFacts
from watchkeeper.domain.values.check import Progress
from watchkeeper.domain.values.contract.detect_limits import Limits, limits_of, warmup_of
from watchkeeper.domain.values.contract.metric_names import falls_on_collapse
from watchkeeper.domain.values.earlier import Earlier, PastCheck
from watchkeeper.domain.values.exits import significant
from watchkeeper.domain.values.instance import Instance
from watchkeeper.domain.values.lineage import highest_before
from watchkeeper.domain.values.observation.measured import (
    FINITE_AGAIN,
    NOT_FINITE_MAX,
    SAMPLES_MAX,
    Level,
    Measured,
    NotFinite,
    Shift,
)
from watchkeeper.domain.values.observation.observation import Observation

SHIFT_MIN = 0.05
"""A smaller rise of the loss is not reported as a shift, even if the loss is very steady. From
operating practice."""

SKIPPED_WINDOW = timedelta(minutes=15)
"""Practice counts skipped optimizer steps over 15 min."""


@dataclass(frozen=True, slots=True)
class EarlierChecks:
    """The results of earlier checks.

    Attributes:
        own: The checks of the newest stretch of training, oldest first.
        segment: How often the instance had stepped back before this stretch.
        last: The newest measurement of the stretch; `None` at its first check.
        all: All checks of the run with measurements, oldest first.
    """

    own: tuple[PastCheck, ...]
    segment: int
    last: Measured | None
    all: tuple[PastCheck, ...]


def measure(
    past: Earlier,
    instance: Instance,
    seen: Observation,
    tail: LogTail,
    tracker: TrackerFacts | None,
    progress: Progress | None,
) -> Measured:
    """Return the statistics of one check.

    Args:
        past: What the run's earlier checks showed.
        instance: The checked instance.
        seen: The observation.
        tail: What the tail of its output says.
        tracker: The tracker's facts if they are fresh.
        progress: The step that the check shows.
    """
    contract = past.contract
    limits = limits_of(contract)
    highest = highest_before(past, instance.plan.instance)
    tracker = current_tracker_facts(past, instance, tracker)
    latest = latest_metrics(past, seen, tracker)
    series, before = _series(past, instance, seen, _placed(tracker, progress, latest), progress)
    loose = nonfinite_latest(past, instance, latest, progress, series)
    if series is None:
        lines = bad_lines(past, instance, seen, {}, before.last)
        whole = (*loose, *lines)[:NOT_FINITE_MAX]
        return Measured(segment=before.segment, not_finite=whole)
    steps = series.steps
    mark = max((m for m in (series.highest_before, highest) if m is not None), default=None)
    if before.last is not None and before.last.high_water is not None:
        mark = max(mark or 0, before.last.high_water)
    newest = int(steps[-1]) if steps.size else None
    step = newest if newest is not None else _shown_step(instance, tail)
    # Training repeats known steps until it logs a step above the mark.
    catching = mark is not None and (step is None or step < mark)
    warm_from = _first_step(past) + warmup_of(contract, instance.config)
    new_from = before.last.last_step + 1 if before.last and before.last.last_step is not None else 0
    pick = _Pick(series, max(warm_from, -1 if mark is None else mark + 1), new_from, before, limits)
    not_finite = _not_finite(series, new_from)
    not_finite = (*not_finite, *_counted_on(series, before.last))
    printed = bad_lines(past, instance, seen, series.bad, before.last)
    return Measured(
        points=int(steps.size),
        source=series.source,
        first_step=int(steps[0]) if steps.size else None,
        last_step=newest,
        stride=_stride(series),
        segment=before.segment,
        high_water=mark,
        catching_up=catching,
        warm=step is not None and step >= warm_from,
        loss=_level(pick, "loss", LevelRule(limits.loss_rise)),
        grad_norm=_level(
            pick, "grad_norm", LevelRule(limits.grad_norm_factor - 1, most=limits.grad_norm_max)
        ),
        z_loss=_level(pick, "z_loss", LevelRule(limits.z_loss_factor - 1)),
        router=_router(pick),
        shift=_shift(pick, before.own[-1].at.timestamp() if before.own else 0.0),
        pace=pace_of(series, limits, seen, contract, past),
        mfu=significant(series.mfu) if series.mfu is not None else None,
        not_finite=(*not_finite, *loose, *printed)[:NOT_FINITE_MAX],
        skipped=_skipped(series, seen),
        resume=overlap_of(past, instance, seen, series, before.last, mark, before.segment),
        losses=_samples(series, new_from),
        losses_slack=series.slack,
    )


# --- What is old and what is new -----------------------------------------------------------------


def _series(
    past: Earlier,
    instance: Instance,
    seen: Observation,
    latest: tuple[int | None, Mapping[str, float]],
    progress: Progress | None,
) -> tuple[Series | None, EarlierChecks]:
    history = usable_history(seen)
    if history is not None and history.steps:
        series = series_of_history(past, instance, history, _compares(past, instance))
        newest = int(series.steps[-1]) if series.steps.size else None
        return series, _before(past, instance, newest, series.turns)
    newest = progress.step if progress is not None else None
    before = _before(past, instance, newest, 0)
    return series_of_checks(past, instance, seen, latest, before.own, progress), before


def _placed(
    tracker: TrackerFacts | None, progress: Progress | None, newest: Mapping[str, float]
) -> tuple[int | None, Mapping[str, float]]:
    """Return the newest values and their step, from the tracker or else from the check."""
    if tracker is not None and tracker.step is not None:
        return tracker.step, newest
    return (progress.step if progress is not None and newest else None), newest


def _compares(past: Earlier, instance: Instance) -> bool:
    """Return whether the losses after a resume still have to be compared."""
    if len(past.instances) < 2 and instance.plan.resume_step is None:
        return False
    last = past.checks[-1] if past.checks else None
    measured = last.measured if last is not None else None
    if last is None or measured is None or last.instance != instance.plan.instance:
        return True
    return not is_comparison_over(measured.resume, measured, measured.high_water)


def _before(past: Earlier, instance: Instance, newest: int | None, turns: int) -> EarlierChecks:
    measured = [one for one in past.checks if one.source]
    own = [one for one in measured if one.instance == instance.plan.instance]
    known = own[-1].measured if own else None
    segment = max(turns, known.segment if known is not None else 0)
    back = known is not None and known.last_step is not None and newest is not None
    if back and known is not None and known.last_step is not None and newest is not None:
        usual = 2 * (known.stride or 1.0)
        if newest < known.last_step - usual and segment == known.segment:
            segment += 1
    same = tuple(one for one in own if one.segment == segment)
    last = same[-1].measured if same else None
    return EarlierChecks(same, segment, last, tuple(measured))


def _shown_step(instance: Instance, tail: LogTail) -> int | None:
    """Return the newest step that this instance printed."""
    own = instance.plan.resume_step or 0
    return tail.progress.step if tail.progress is not None and tail.progress.step >= own else None


def _first_step(past: Earlier) -> int:
    return past.instances[0].plan.resume_step or 0


def _stride(series: Series) -> float | None:
    loss = series.columns.get("loss")
    steps = series.steps if loss is None else series.steps[np.isfinite(loss)]
    if steps.size < 2:
        return None
    return median_of(np.diff(steps[-257:]).astype(np.float64))


# --- Levels --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Pick:
    """The points of a level: only points after warm-up and catch-up."""

    series: Series
    judged_from: int
    new_from: int
    before: EarlierChecks
    limits: Limits


def _points(pick: _Pick, role: str) -> tuple[Ints, Floats, Floats | None]:
    series = pick.series
    column = series.columns[role]
    begin = int(np.searchsorted(series.steps, pick.judged_from))
    values, steps = column[begin:], series.steps[begin:]
    times = series.times[begin:] if series.times is not None else None
    known = np.isfinite(values)
    if known.all():
        return steps, values, times
    return steps[known], values[known], times[known] if times is not None else None


def _level(pick: _Pick, role: str, rise: LevelRule) -> Level | None:
    name = pick.series.names.get(role)
    if name is None or role not in pick.series.columns:
        return None
    steps, values, _ = _points(pick, role)
    kept = LEVEL_POINTS_MAX if role == "loss" else LEVEL_POINTS_MAX // 2
    before = _level_before(pick, role, name)
    return level_of(name, steps[-kept:], values[-kept:], rise, pick.new_from, before)


def _level_before(pick: _Pick, role: str, name: str) -> Level | None:
    """Return the expected value of a metric at the newest check. A resume continues from it."""
    for one in reversed(pick.before.all):
        level = one.levels.get(role)
        if level is not None and level.metric == name:
            return level
    return None


def _router(pick: _Pick) -> Level | None:
    name = pick.series.names.get("router")
    if name is None:
        return None
    falls = falls_on_collapse(name)
    share = 1 - pick.limits.router_drop if falls else pick.limits.z_loss_factor - 1
    return _level(pick, "router", LevelRule(share, falls=falls))


def _shift(pick: _Pick, since: float) -> Shift | None:
    if not pick.limits.loss_sigma or pick.series.times is None or "loss" not in pick.series.columns:
        return None
    steps, values, times = _points(pick, "loss")
    before = pick.before.last.shift if pick.before.last is not None else None
    rule = ShiftRule(SHIFT_MIN, pick.limits.loss_sigma)
    return None if times is None else shift_of(steps, times, values, rule, since, before)


# --- Numbers that are none, and what is sampled --------------------------------------------------


def _not_finite(series: Series, new_from: int) -> tuple[NotFinite, ...]:
    found: list[NotFinite] = []
    for role, steps in series.bad.items():
        if role == "grad_norm" and series.scaled and "loss" not in series.bad:
            # In float16 gradients overflow now and then, and the step is skipped: see `skipped`.
            continue
        column = series.columns.get(role)
        since = 0
        if column is not None:
            later = column[np.searchsorted(series.steps, steps[-1], side="right") :]
            since = int(np.isfinite(later).sum())
        found.append(
            NotFinite(
                metric=series.names.get(role, role),
                count=len(steps),
                first_step=steps[0],
                last_step=steps[-1],
                new=sum(1 for step in steps if step >= new_from),
                finite_since=since,
            )
        )
    return tuple(found)


def _counted_on(series: Series, last: Measured | None) -> tuple[NotFinite, ...]:
    """Return a NaN or infinite loss whose line has left the output's tail."""
    column = series.columns.get("loss")
    if series.source == "history" or "loss" in series.bad or last is None or column is None:
        return ()
    known = [one for one in last.not_finite if one.metric == series.names.get("loss")]
    known = [one for one in known if not one.line and one.finite_since < FINITE_AGAIN]
    newer = series.steps > (last.last_step if last.last_step is not None else -1)
    since = int(np.isfinite(column[newer]).sum())
    return tuple(
        one.model_copy(update={"new": 0, "finite_since": one.finite_since + since}) for one in known
    )


def _skipped(series: Series, seen: Observation) -> int | None:
    times = series.times
    if times is None:
        return None
    begin = int(np.searchsorted(times, seen.at.timestamp() - SKIPPED_WINDOW.total_seconds()))
    column = series.columns.get("skipped")
    count: int | None = None
    if column is not None:
        values = column[np.isfinite(column)]
        rises = np.diff(column[begin:][np.isfinite(column[begin:])])
        # A running total only rises. Another value is the number of skipped steps at its step.
        total = values.size > 1 and bool((np.diff(values) >= 0).all()) and float(values[-1]) > 1
        recent = column[begin:]
        count = int(rises.sum()) if total else int(recent[np.isfinite(recent)].sum())
    if series.scaled and "grad_norm" in series.bad:
        first = int(series.steps[begin]) if begin < series.steps.size else math.inf
        overflown = sum(1 for step in series.bad["grad_norm"] if step >= first)
        count = max(count or 0, overflown)
    return count


def _samples(series: Series, new_from: int) -> tuple[tuple[int, float], ...]:
    """Return losses at multiples of a power of two, so that all checks sample alike."""
    column = series.columns.get("loss")
    if column is None:
        return ()
    begin = int(np.searchsorted(series.steps, new_from))
    steps, values = series.steps[begin:], column[begin:]
    known = np.isfinite(values)
    steps, values = steps[known], values[known]
    spacing = 1
    while np.count_nonzero(steps % spacing == 0) > SAMPLES_MAX:
        spacing *= 2
    chosen = steps % spacing == 0
    pairs = zip(steps[chosen].tolist(), values[chosen].tolist(), strict=True)
    return tuple((step, significant(loss)) for step, loss in dict(pairs).items())
