"""Shared code of both W&B trackers: client environment, states, steps, metrics."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

from watchkeeper.adapters.trackers.metric_points import Point
from watchkeeper.domain.reading.progress.numbers import COUNT_MAX
from watchkeeper.services.time_limit import base_environment

METRICS_MAX = 64
"""Metrics kept of a summary, the first by name; `TrackerFacts` allows no more."""

STATES = frozenset({"running", "finished", "failed", "crashed", "killed"})
"""W&B's states that we keep; all others, such as `pending` or `preempting`, are `unknown`."""

_PASSED_VARIABLES = (
    "WANDB_BASE_URL", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "https_proxy", "http_proxy",
    "no_proxy", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE",
)  # fmt: skip
"""Environment variables that the client needs to reach the server."""

_NOT_FINITE = {
    "NaN": float("nan"),
    "Infinity": float("inf"),
    "-Infinity": float("-inf"),
}
"""JSON has no such numbers, so W&B writes them as strings."""


Row = tuple[int, int | None, float | None, Mapping[str, Any]]
"""One row of history: W&B's number, the training's own step, the time, and what was logged."""


def row_of(answer: Sequence[Any]) -> Row:
    """Return a row from a reading program's answer.

    >>> row_of([8, 4.0, 1795259927.5, {"loss": "NaN"}])
    (8, 4, 1795259927.5, {'loss': 'NaN'})
    """
    number, own_step, at, values = answer
    at = at if isinstance(at, int | float) and not isinstance(at, bool) else None
    return int(number), step_of({"global_step": own_step}, None), at, values


def points_of(rows: Sequence[Row]) -> list[Point]:
    """Return the points of rows, oldest first.

    A row without the training's own step, for example of an evaluation, gets the step of the row
    before it. If no row has its own step, W&B's row number is the step.

    >>> rows = [(0, None, None, {"eval/loss": 3}), (7, 1, None, {"loss": "NaN", "note": "x"})]
    >>> [(point.step, dict(point.values)) for point in points_of(rows)]
    [(1, {'eval/loss': 3.0}), (1, {'loss': nan})]
    >>> [point.step for point in points_of([(7, None, None, {})])]
    [7]
    """
    step = next((own_step for _, own_step, _, _ in rows if own_step is not None), None)
    points: list[Point] = []
    for number, own_step, at, logged in rows:
        step = step if own_step is None else own_step
        numbers = {name: _number(value) for name, value in logged.items()}
        values = {name: value for name, value in numbers.items() if value is not None}
        points.append(Point(number if step is None else step, at, values))
    return points


def metrics_of(summary: Mapping[str, Any]) -> dict[str, float]:
    """Return the numbers of a summary; names that begin with `_` are W&B's own.

    >>> metrics_of({"loss": "NaN", "_step": 4, "note": "hi", "ok": True, "lr": 1})
    {'loss': nan, 'lr': 1.0}
    """
    found: dict[str, float] = {}
    for name, value in sorted(summary.items()):
        if name.startswith("_") or len(found) == METRICS_MAX:
            continue
        number = _number(value)
        if number is not None:
            found[name] = number
    return found


def _number(value: object) -> float | None:
    if isinstance(value, str):
        return _NOT_FINITE.get(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def step_of(summary: Mapping[str, Any], last_step: object) -> int | None:
    """Return the training's own step, else W&B's count of rows.

    `global_step` is what a training loop calls its step, counted from 0: the last one is one less
    than the number of steps. W&B's own `_step` differs from it where a loop logs more often.

    >>> step_of({"global_step": 4767, "_step": 9534}, 9534), step_of({"_step": 7}, -1)
    (4767, 7)
    >>> step_of({}, -1) is None
    True
    """
    values: tuple[Any, ...] = (summary.get("global_step"), last_step, summary.get("_step"))
    for value in values:
        whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
        if whole and not isinstance(value, bool) and 0 <= value < COUNT_MAX:
            return int(value)
    return None


def client_environment(home: str) -> dict[str, str]:
    """Return the environment for W&B's client, without a key.

    Args:
        home: A separate folder. So the client reads no settings or keys of the user, and leaves
            no files in the user's home.
    """
    return {
        **base_environment(),
        **{name: os.environ[name] for name in _PASSED_VARIABLES if name in os.environ},
        "HOME": home,
        "WANDB_DIR": home,
        "WANDB_CONFIG_DIR": home,
        "WANDB_CACHE_DIR": home,
        "WANDB_DATA_DIR": home,
        "WANDB_SILENT": "true",
        "WANDB_ERROR_REPORTING": "false",
        # The next check retries. The client's own retries would hide the server's answer. The
        # value 0 means the default number, so 1 is the least.
        "WANDB_X_GRAPHQL_RETRY_MAX": "1",
        "WANDB_X_GRAPHQL_RETRY_WAIT_MIN_SECONDS": "0.1",
        "WANDB_X_GRAPHQL_RETRY_WAIT_MAX_SECONDS": "0.5",
    }
