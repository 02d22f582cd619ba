"""Builds a metric history from logged rows: the newest points of used columns."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from watchkeeper.domain.values.observation.sources import HISTORY_POINTS_MAX, MetricHistory

COLUMNS_MAX = 32
"""Metrics of a history; a run that logs every layer has thousands, and nothing reads them all."""

_RANKS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"^(?:train(?:ing)?[/_. ])?(?:lm[ _])?(?:total_)?loss$",
        r"^(?:\w+[/_.])?(?:global_)?grad(?:ient)?[_ ]?norm(?:[/_.](?:total|global))?$",
        r"tokens?[_/]per|throughput|\bmfu\b|samples?[_/]per|step_time|duration|skipped|\bphase\b",
        r"router|z_?loss|load_balanc|loss_scale|(?:^|[/_.])lr$|learning_rate|aux_loss",
        r"loss|bpb|perplexity",
    )
)
"""The order of metrics: first those that show divergence, then speed, then the rest."""

STEP_KEYS = (
    "trainer.num_train_steps",
    "num_train_steps",
    "trainer.max_steps",
    "max_steps",
    "train.steps",
    "train.num_steps",
    "training.max_steps",
    "training.train_steps",
    "train_iters",
    "max_train_steps",
    "train_steps",
    "total_steps",
    "num_steps",
)
"""Where configurations say how long to train: Levanter, Lightning and NeMo, torchtitan, Megatron,
Hugging Face's scripts; the first that holds a count wins."""

_OUTER_MAX = 4
"""Maximum depth of the search in a configuration."""


@dataclass(frozen=True, slots=True)
class Point:
    """One logged row.

    Attributes:
        step: The training's own step.
        at: When it was logged, in seconds since 1970; None if unknown.
        values: The logged values, including NaN and infinities.
    """

    step: int
    at: float | None
    values: Mapping[str, float]


def history_of(points: Sequence[Point]) -> MetricHistory:
    """Return the newest points as columns; times only if every point has one.

    >>> history_of([Point(1, None, {"loss": 3.0}), Point(2, None, {"loss": float("inf")})])
    MetricHistory(steps=(1, 2), times=(), columns={'loss': (3.0, nan)}, not_finite={'loss': (2,)})
    """
    newest = points[-HISTORY_POINTS_MAX:]
    names = chosen(name for point in newest for name in point.values)
    times = tuple(point.at for point in newest if point.at is not None)
    columns: dict[str, tuple[float, ...]] = {}
    not_finite: dict[str, tuple[int, ...]] = {}
    for name in names:
        logged = [point.values.get(name) for point in newest]
        wrong = [
            point.step
            for point, value in zip(newest, logged, strict=True)
            if value is not None and not math.isfinite(value)
        ]
        if wrong:
            not_finite[name] = tuple(wrong)
        columns[name] = tuple(
            value if value is not None and math.isfinite(value) else math.nan for value in logged
        )
    return MetricHistory(
        steps=tuple(point.step for point in newest),
        times=times if len(times) == len(newest) else (),
        columns=columns,
        not_finite=not_finite,
    )


def chosen(names: Iterable[str], limit: int = COLUMNS_MAX) -> tuple[str, ...]:
    """Return the metrics that a history keeps, in the order of their worth.

    >>> chosen(["eval/bpb", "layer/0/norm", "train/loss", "throughput/mfu"], 3)
    ('train/loss', 'throughput/mfu', 'eval/bpb')
    """
    return tuple(sorted(set(names), key=lambda name: (_rank(name), name.count("/"), name))[:limit])


def _rank(name: str) -> int:
    return next((n for n, known in enumerate(_RANKS) if known.search(name)), len(_RANKS))


def final_step_of(config: object) -> int | None:
    """Return the number of steps in a configuration; None if it has no such number.

    >>> final_step_of({"trainer": {"num_train_steps": 4768}}), final_step_of({"max_steps": -1})
    (4768, None)
    >>> final_step_of({"args": {"max_steps": 100}, "lr": 0.1})
    100
    """
    flat = _flat(config, "", 0)
    for key in STEP_KEYS:
        # The whole key before the same key further in: a section of another kind may hold one.
        named = sorted((name for name in flat if f".{name}".endswith(f".{key}")), key=len)
        for name in named:
            if flat[name] > 0:
                return flat[name]
    return None


def _flat(value: object, key: str, depth: int) -> dict[str, int]:
    if isinstance(value, bool):
        return {}
    if isinstance(value, float) and value.is_integer():
        return {key: int(value)}
    if isinstance(value, int):
        return {key: value}
    found: dict[str, int] = {}
    if isinstance(value, dict) and depth < _OUTER_MAX:
        for name, inner in cast("dict[object, object]", value).items():
            dotted = str(name).replace("/", ".")
            found |= _flat(inner, f"{key}.{dotted}" if key else dotted, depth + 1)
    return found
