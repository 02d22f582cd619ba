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
"""Loss difference that is always accepted, however small both losses are."""

LOSS_LINES_MAX = 4
"""The number of newest progress lines whose losses are compared."""

HISTORY_ROWS = 128
"""The number of newest history rows whose losses are compared."""

LOSS_STEPS_SHARE = 0.01
"""How far apart two steps may be to be compared, as a share of the step number. After warm-up, the
loss changes little over so few steps."""


def loss_difference(scene: Scene) -> SourceResult:
    """Return how the tracker's losses differ from the printed losses; False if they agree.

    None means that no comparison is possible.
    """
    highest_step = max(scene.had or 0, scene.was.step_logged or 0) if _is_repeating(scene) else -1
    start = scene.run.instances[0].plan.resume_step or 0
    warm_from = start + warmup_of(contract_of(scene.run), scene.instance.config)
    logged = _logged(scene)
    if scene.shown is None or not logged:
        return None
    logged_steps = sorted(logged)
    pairs: list[tuple[Step, float, float]] = []
    for shown in scene.losses:
        if shown.loss is None or shown.step - shown.uncertainty <= max(warm_from, highest_step):
            continue
        tolerance = shown.uncertainty + max(STEPS_MIN, LOSS_STEPS_SHARE * shown.step)
        index = bisect_left(logged_steps, shown.step)
        step = shown.step
        distances = {at: abs(at - step) for at in logged_steps[max(index - 1, 0) : index + 1]}
        closest = min(distances, key=distances.__getitem__)
        if distances[closest] <= tolerance:
            pairs.append((step, shown.loss, logged[closest]))
        if len(pairs) == LOSS_LINES_MAX:
            break
    if not pairs or any(printed < 0 or logged_loss < 0 for _, printed, logged_loss in pairs):
        return None
    excess = median(_excess(pair, scene.limits.tracker_loss) for pair in pairs)
    if excess <= 0:
        return False
    step, printed, logged_loss = max(
        pairs, key=lambda pair: _excess(pair, scene.limits.tracker_loss)
    )
    return (
        f"at step {step} the tracker holds a loss of {logged_loss:.4g}, the output printed "
        f"{printed:.4g}"
    )


def _is_repeating(scene: Scene) -> bool:
    """Return whether training repeats steps below the highest step that was seen before."""
    mark = max(scene.had or 0, scene.was.step_logged or 0)
    return scene.shown is not None and scene.shown.step < mark


def _excess(pair: tuple[Step, float, float], share: float) -> float:
    _, printed, logged_loss = pair
    return abs(printed - logged_loss) - share * min(printed, logged_loss) - LOSS_MIN


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
