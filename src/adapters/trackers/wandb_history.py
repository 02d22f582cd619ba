"""Reads a run's history in bulk with W&B's own client, for `wandb_reader`.

It requests the same sampled history as W&B's own charts: one series for each metric. The window of
rows is so small that nothing is sampled out. A scan of all rows would read every metric of each
row, and would download the run's exported history again at each check.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, cast

from watchkeeper import clock
from watchkeeper.adapters.trackers.metric_points import chosen
from watchkeeper.domain.values.observation.sources import HISTORY_POINTS_MAX

STEP_METRIC = "global_step"
"""Names that training loops use for their own step, if it is not W&B's count of rows."""

SERIES_AT_ONCE = 8
"""Series in one request; of a long run one request then brings some megabytes."""

_QUERY = """
query RunSampledHistory($project: String!, $entity: String!, $name: String!, $specs: [JSONString!]!)
{
    project(name: $project, entityName: $entity) {
        run(name: $name) { sampledHistory(specs: $specs) }
    }
}
"""

_OWN = ("_step", "_timestamp")


def read_history(run: Any, after: int, limit: timedelta) -> dict[str, Any]:
    """Return the newest rows of a run.

    Args:
        run: The client's run.
        after: W&B's number of the newest known row; -1 if no row is known.
        limit: After this time no more series are requested; the first ones matter most.

    Returns:
        `whole`: rows known before are void; `last`: the newest row's number; `rows`: for each
        W&B's number, the training's own step or None, the time, and values by metric.
    """
    deadline = clock.Deadline.after(limit)
    last = int(run.lastHistoryStep)
    # A run that was rewound has fewer rows than are known.
    whole = after < 0 or last < after
    start = _window(run, last) if whole else max(after + 1, _window(run, last))
    rows: dict[int, list[Any]] = {}
    if last >= start:
        names = _names(run)
        steps = [STEP_METRIC] if STEP_METRIC in names else []
        wanted = [*steps, *chosen(n for n in names if n != STEP_METRIC)]
        for first in range(0, len(wanted), SERIES_AT_ONCE):
            if first and deadline.expired():
                break
            _add(run, rows, wanted[first : first + SERIES_AT_ONCE], start)
    return {"whole": whole, "last": last, "rows": [rows[number] for number in sorted(rows)]}


def _window(run: Any, last: int) -> int:
    """Return the first row of as many as a history holds, where a run logs evenly."""
    lines = run._attrs.get("historyLineCount")
    sparse = (last + 1) / lines if isinstance(lines, int) and 0 < lines <= last else 1.0
    return max(0, last + 1 - int(HISTORY_POINTS_MAX * sparse))


def _names(run: Any) -> Sequence[str]:
    """Return the metrics that the server knows, without W&B's own."""
    # Asked for with the last step, so they are there.
    known: Any = run._attrs.get("historyKeys") or {}
    keys = cast("Mapping[str, Any]", known.get("keys") or {})
    return [name for name in keys if not name.startswith("_")]


def _add(run: Any, rows: dict[int, list[Any]], names: Sequence[str], start: int) -> None:
    specs = [
        json.dumps({"keys": [*_OWN, name], "minStep": start, "samples": HISTORY_POINTS_MAX})
        for name in names
    ]
    answer: Any = run._exec(_QUERY, specs=specs)
    for name, series in zip(names, answer["project"]["run"]["sampledHistory"], strict=True):
        for row in series:
            number, value = int(row["_step"]), row.get(name)
            if number < start or value is None or isinstance(value, bool | dict | list):
                continue
            known = rows.setdefault(number, [number, None, row.get("_timestamp"), {}])
            if name == STEP_METRIC:
                known[1] = value
            else:
                known[3][name] = value
