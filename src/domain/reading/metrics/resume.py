"""Compares the losses after a resume with the losses before it.

The earlier lineage logged the losses before the resume.
"""

from dataclasses import dataclass

import numpy as np

from watchkeeper.domain.reading.metrics.numeric import Floats, Ints
from watchkeeper.domain.reading.metrics.numeric_offset import offset_by_steps, offset_by_trend
from watchkeeper.domain.reading.metrics.series import Series
from watchkeeper.domain.reading.metrics.series_checks import printed_losses
from watchkeeper.domain.values.contract.detect_limits import Limits, limits_of
from watchkeeper.domain.values.earlier import Earlier
from watchkeeper.domain.values.exits import significant
from watchkeeper.domain.values.instance import Instance
from watchkeeper.domain.values.observation.measured import Measured, Overlap
from watchkeeper.domain.values.observation.observation import Observation

LIKE_STEPS_MIN = 10
"""How many common steps after the resume's warm-up are needed to measure the offset."""

TREND_POINTS_MIN = 64
"""How many points a trend needs on each side. Fewer points give only noise."""

TREND_POINTS_MAX = 512
"""How many points a trend uses on each side. It is a line only over a short stretch."""


@dataclass(frozen=True, slots=True)
class _Both:
    """Losses of the same steps before and after, in the order of steps."""

    steps: Ints
    before: Floats
    after: Floats
    slack: Floats


def overlap_of(
    past: Earlier,
    instance: Instance,
    seen: Observation,
    series: Series,
    last: Measured | None,
    mark: int | None,
    segment: int,
) -> Overlap | None:
    """Compare the losses of an instance after a resume with the earlier ones.

    Args:
        past: What the run's earlier checks showed, with the losses that it remembers.
        instance: The checked instance.
        seen: The observation. Its output lines are needed: a tracker may accept nothing during
            catch-up.
        series: What was logged.
        last: The comparison of the previous check in this stretch.
        mark: The highest step before this stretch.
        segment: How often the instance stepped back.

    Returns:
        None if nothing was resumed.
    """
    if mark is None:
        return None
    contract = past.contract
    limits = limits_of(contract)
    known = last.resume if last is not None and last.resume is not None else Overlap()
    if limits.resume_differs == "expected":
        return Overlap(reason="a difference was agreed in the contract")
    known = known.model_copy(update={"new_beyond": 0})
    if is_comparison_over(known, last, mark):
        return known
    planned = contract.detect.resume_planned
    before = _before(past, instance, series, segment)
    both = _both(before, series, seen, instance, mark)
    found = _merged(known, both, limits, planned)
    return _with_offset(found, both, before, series, mark, instance, limits, planned)


def is_comparison_over(known: Overlap | None, last: Measured | None, mark: int | None) -> bool:
    """Return whether the comparison is over: training is past all comparable steps."""
    if last is None or last.last_step is None or mark is None or last.last_step <= mark:
        return False
    if known is None:
        return True
    far = last.last_step - mark > 2 * TREND_POINTS_MAX * (last.stride or 1.0)
    return far or known.offset_like or known.offset_points >= TREND_POINTS_MAX


@dataclass(frozen=True, slots=True)
class _Lineage:
    """Losses before the resume: ascending steps, each once."""

    steps: Ints
    losses: Floats
    slack: Floats


def _before(past: Earlier, instance: Instance, series: Series, segment: int) -> _Lineage:
    """Return the losses of the earlier lineage, the newest of each step."""
    steps, losses, times = series.before_steps, series.before_losses, series.before_times
    for left in past.lineages:
        beyond = steps > left.above_step
        if times is not None:
            # Steps that were trained again after a rollback belong to the lineage.
            beyond &= times <= left.at.timestamp()
        steps, losses = steps[~beyond], losses[~beyond]
        times = times[~beyond] if times is not None else None
    own = (instance.plan.instance, segment)
    remembered = [one for one in past.losses if one.stretch != own]
    old = np.array([one.step for one in remembered], dtype=np.int64)
    steps = np.concatenate((old, steps))
    losses = np.concatenate((np.array([one.loss for one in remembered]), losses))
    slack = np.zeros(steps.size)
    slack[: old.size] = [one.slack for one in remembered]
    return _once(steps, losses, slack)


def _once(steps: Ints, losses: Floats, slack: Floats) -> _Lineage:
    """Keep the newest loss of each step."""
    unique, places = np.unique(steps[::-1], return_index=True)
    newest = steps.size - 1 - places
    return _Lineage(unique, losses[newest], slack[newest])


def _both(
    before: _Lineage, series: Series, seen: Observation, instance: Instance, mark: int
) -> _Both:
    steps, losses, slack = series.steps[:0], np.zeros(0), np.zeros(0)
    catching = not series.steps.size or int(series.steps[-1]) < mark
    if series.source == "history" and catching:
        # A tracker that accepts each step once is silent now. The output still shows losses.
        shown = [one for one in printed_losses(seen, instance) if one[0].loss is not None]
        steps = np.array([step for _, step in shown], dtype=np.int64)
        losses = np.array([line.loss or 0.0 for line, _ in shown])
        slack = np.array([line.loss_slack for line, _ in shown])
    if (loss := series.columns.get("loss")) is not None:
        here = np.isfinite(loss) & (series.steps <= mark)
        steps = np.concatenate((steps, series.steps[here]))
        losses = np.concatenate((losses, loss[here]))
        slack = np.concatenate((slack, np.full(int(here.sum()), series.slack)))
    finite = np.isfinite(losses)
    after = _once(steps[finite], losses[finite], slack[finite])
    like, old, new = np.intersect1d(
        before.steps, after.steps, assume_unique=True, return_indices=True
    )
    return _Both(
        steps=like,
        before=before.losses[old],
        after=after.losses[new],
        slack=before.slack[old] + after.slack[new],
    )


def _merged(known: Overlap, both: _Both, limits: Limits, planned: float) -> Overlap:
    """Add the common steps that no earlier check compared."""
    new = both.steps > (known.last_step if known.last_step is not None else -1)
    if not new.any():
        return known
    steps, before = both.steps[new], both.before[new]
    apart = np.abs(both.after[new] - before - planned)
    # The record keeps seven digits, and a printed loss may be rounded.
    beyond = apart > limits.resume_overlap + both.slack[new] + 1e-6
    worst = int(np.argmax(apart))
    close = int(beyond.size - 1 - np.flatnonzero(beyond)[-1]) if beyond.any() else int(beyond.size)
    worse = known.max_abs is None or float(apart[worst]) > known.max_abs
    relative = float((apart / np.maximum(np.abs(before), 1e-12)).max())
    update: dict[str, object] = {
        "steps": known.steps + int(steps.size),
        "new_beyond": int(beyond.sum()),
        "beyond": known.beyond + int(beyond.sum()),
        "first_step": known.first_step if known.first_step is not None else int(steps[0]),
        "last_step": int(steps[-1]),
        "max_rel": significant(max(relative, known.max_rel or 0.0)),
        "slack": significant(max(float(both.slack[new].max()), known.slack)),
        "close": close + (known.close if close == beyond.size else 0),
    }
    if worse:
        update |= {
            "worst_step": int(steps[worst]),
            "worst_before": significant(float(before[worst])),
            "worst_after": significant(float(both.after[new][worst])),
            "max_abs": significant(float(apart[worst])),
        }
    return known.model_copy(update=update)


def _with_offset(
    found: Overlap,
    both: _Both,
    before: _Lineage,
    series: Series,
    mark: int,
    instance: Instance,
    limits: Limits,
    planned: float,
) -> Overlap:
    start = instance.plan.resume_step
    if start is None:
        start = int(series.steps[0]) if series.steps.size else mark
    warm = both.steps > start + limits.resume_warmup_steps
    if int(warm.sum()) >= LIKE_STEPS_MIN:
        offset = offset_by_steps(both.before[warm], both.after[warm], planned)
        return _offered(found, offset.share, offset.error, offset.points, True)
    # Agreement on common steps is stronger evidence than a trend.
    if found.offset_like or (found.steps >= LIKE_STEPS_MIN and not found.beyond):
        return found
    loss = series.columns.get("loss")
    first = max(mark, start + limits.resume_warmup_steps) + 1
    if loss is None or not series.steps.size or int(series.steps[-1]) < first:
        return found
    here = (series.steps >= first) & np.isfinite(loss)
    steps, after = series.steps[here][:TREND_POINTS_MAX], loss[here][:TREND_POINTS_MAX]
    known = before.steps <= mark
    old, losses = before.steps[known][-TREND_POINTS_MAX:], before.losses[known][-TREND_POINTS_MAX:]
    if steps.size < TREND_POINTS_MIN or old.size < TREND_POINTS_MIN:
        return found
    # Later the earlier trend is too far away, so the first result is kept.
    if int(steps[0]) - int(old[-1]) > int(old[-1]) - int(old[0]):
        return found
    offset = offset_by_trend(old, losses, steps, after, planned)
    return _offered(found, offset.share, offset.error, offset.points, False)


def _offered(found: Overlap, share: float, error: float, points: int, like: bool) -> Overlap:
    return found.model_copy(
        update={
            "offset": significant(share, 4),
            "offset_error": significant(error, 4),
            "offset_points": points,
            "offset_like": like,
        }
    )
