"""Compares the tracker's losses with the printed losses of the same steps (H2)."""

import math
from bisect import bisect_left
from statistics import median

from watchkeeper.domain.rules.health.tracker_scene import STEPS_MIN, Scene, SourceResult
from watchkeeper.domain.run.run import contract_of
from watchkeeper.domain.values.basic import Step
from watchkeeper.domain.values.contract.detect_limits import warmup_of
from watchkeeper.domain.values.contract.metric_names import recognise

LOSS_MIN = 0.1
"""Loss difference that is never gross, however small both losses are."""

LOSS_LINES_MAX = 4
"""Newest lines of progress whose loss is compared."""

HISTORY_ROWS = 128
"""Newest rows of a history whose losses are compared."""

LOSS_STEPS_SHARE = 0.01
"""Share of the step number within which a tracker loss counts as the same step. After warm-up no
loss changes grossly within it."""


def loss_fits(scene: Scene) -> SourceResult:
    """The tracker's losses differ from those that the output printed at the same steps."""
    high = max(scene.had or 0, scene.was.step_logged or 0) if _again(scene) else -1
    start = scene.run.instances[0].plan.resume_step or 0
    warm = start + warmup_of(contract_of(scene.run), scene.instance.config)
    logged = _logged(scene)
    if scene.shown is None or not logged:
        return None
    held_at = sorted(logged)
    pairs: list[tuple[Step, float, float]] = []
    for shown in scene.losses:
        if shown.loss is None or shown.step - shown.uncertainty <= max(warm, high):
            continue
        near = shown.uncertainty + max(STEPS_MIN, LOSS_STEPS_SHARE * shown.step)
        place = bisect_left(held_at, shown.step)
        step = shown.step
        apart_by = {at: abs(at - step) for at in held_at[max(place - 1, 0) : place + 1]}
        closest = min(apart_by, key=apart_by.__getitem__)
        if apart_by[closest] <= near:
            pairs.append((step, shown.loss, logged[closest]))
        if len(pairs) == LOSS_LINES_MAX:
            break
    if not pairs or any(printed < 0 or held < 0 for _, printed, held in pairs):
        return None
    apart = median(_beyond(pair, scene.limits.tracker_loss) for pair in pairs)
    if apart <= 0:
        return False
    step, printed, held = max(pairs, key=lambda pair: _beyond(pair, scene.limits.tracker_loss))
    return (
        f"at step {step} the tracker holds a loss of {held:.4g}, the output printed {printed:.4g}"
    )


def _again(scene: Scene) -> bool:
    """Say whether steps below an earlier high-water mark are repeated and maybe logged again."""
    mark = max(scene.had or 0, scene.was.step_logged or 0)
    return scene.shown is not None and scene.shown.step < mark


def _beyond(pair: tuple[Step, float, float], share: float) -> float:
    _, printed, held = pair
    return abs(printed - held) - share * min(printed, held) - LOSS_MIN


def _logged(scene: Scene) -> dict[Step, float]:
    """Return the tracker's finite losses by step, from its history, else its newest values.

    If a step was logged twice, the later loss counts.
    """
    stated = contract_of(scene.run).detect.metrics
    history = scene.seen.history
    if history is not None and history.steps:
        name = recognise(tuple(history.columns), stated).get("loss", "")
        column = history.columns.get(name, ())
        rows = zip(history.steps[-HISTORY_ROWS:], column[-HISTORY_ROWS:], strict=False)
        return {step: loss for step, loss in rows if math.isfinite(loss)}
    name = recognise(tuple(scene.tracker.metrics), stated).get("loss", "")
    loss = scene.tracker.metrics.get(name, math.nan)
    step = scene.tracker.step
    return {step: loss} if step is not None and math.isfinite(loss) else {}
