"""Newest NaN or infinite values from sources without steps or history."""

import math
from collections.abc import Mapping

from watchkeeper.domain.reading.metrics.series import FINITE_ROLES, Series
from watchkeeper.domain.values.check import Progress
from watchkeeper.domain.values.contract.metric_names import is_loss_scale, recognise
from watchkeeper.domain.values.earlier import Earlier
from watchkeeper.domain.values.instance import Instance
from watchkeeper.domain.values.observation.measured import NotFinite


def nonfinite_latest(
    past: Earlier,
    instance: Instance,
    newest: Mapping[str, float],
    progress: Progress | None,
    series: Series | None,
) -> tuple[NotFinite, ...]:
    """Return the newest values that are NaN or infinite and in no series.

    A NaN or infinite value of the previous check counts until enough later values are finite.

    Args:
        past: What the run's earlier checks showed.
        instance: The checked instance.
        newest: The newest values by name.
        progress: The step that the check shows; without one, the newest known step is used.
        series: What was logged with steps.
    """
    names = recognise(tuple(newest), past.contract.detect.metrics)
    covered = frozenset(series.columns) if series is not None else frozenset[str]()
    bad = frozenset(series.bad) if series is not None else frozenset[str]()
    scaled = (series is not None and series.scaled) or any(map(is_loss_scale, newest))
    before = _before(past, instance)
    step = progress.step if progress is not None else _newest_known(instance)
    found: list[NotFinite] = []
    for role in FINITE_ROLES:
        name = names.get(role)
        if name is None or role in bad or (role == "grad_norm" and scaled):
            continue
        value, known = newest[name], before.pop(name, None)
        if not math.isfinite(value):
            found.append(_again(known, name, step))
        elif known is not None and role not in covered:
            after = known.finite_since + 1
            found.append(known.model_copy(update={"new": 0, "finite_since": after}))
    roles = recognise(tuple(before), past.contract.detect.metrics)
    # A missing answer does not count as a finite value.
    left = (before[name] for role, name in roles.items() if role not in covered)
    return (*found, *(one.model_copy(update={"new": 0}) for one in left))


def _again(known: NotFinite | None, name: str, step: int) -> NotFinite:
    count, first = (known.count + 1, known.first_step) if known is not None else (1, step)
    return NotFinite(metric=name, count=count, first_step=first, last_step=step, new=1)


def _before(past: Earlier, instance: Instance) -> dict[str, NotFinite]:
    """Return the NaN and infinite values of this instance's previous check, by metric name."""
    last = past.last
    if last is None or last.instance != instance.plan.instance:
        return {}
    return {one.metric: one for one in last.measured.not_finite if not one.line}


def _newest_known(instance: Instance) -> int:
    return max(instance.plan.resume_step or 0, instance.step_best or 0)
