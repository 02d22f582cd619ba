"""Builds a metric series if there is no tracker history.

The series has the newest values of earlier checks and values from lines of the output.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np

from watchkeeper.domain.reading.metrics.rounded_pace import newest_stretch, rough_paces, slow_paces
from watchkeeper.domain.reading.metrics.series import FINITE_ROLES, NO_STEPS, NO_VALUES, Series
from watchkeeper.domain.reading.progress.lines import Line, read_line
from watchkeeper.domain.reading.progress.progress import progress_of
from watchkeeper.domain.values.check import Progress
from watchkeeper.domain.values.contract.contract import cadence_of
from watchkeeper.domain.values.contract.detect_limits import limits_of
from watchkeeper.domain.values.contract.metric_names import is_loss_scale, recognise
from watchkeeper.domain.values.earlier import Earlier, PastCheck
from watchkeeper.domain.values.instance import Instance
from watchkeeper.domain.values.observation.observation import Observation

CHECKS_MAX = 32
"""Maximum number of earlier checks that replace a missing history."""


@dataclass(slots=True)
class _Row:
    step: int
    at: float
    values: dict[str, float]


def series_of_checks(
    past: Earlier,
    instance: Instance,
    seen: Observation,
    newest: tuple[int | None, Mapping[str, float]],
    earlier: Sequence[PastCheck],
    progress: Progress | None = None,
) -> Series | None:
    """Build a series from earlier checks and current values; `None` without any.

    Args:
        past: What the run's earlier checks showed.
        instance: The checked instance.
        seen: The observation.
        newest: The newest values of this stretch, and their step if it is known.
        earlier: The earlier checks of this stretch, oldest first.
        progress: The step that the check shows. Without a throughput metric, the throughput is
            computed from steps.
    """
    stated = past.contract.detect.metrics
    shown = printed_losses(seen, instance)
    printed = any(line.loss is not None for line, _ in shown)
    names: dict[str, str] = {}
    rows: list[_Row] = []
    without_step: list[tuple[float, float]] = []
    known = [
        (one.step if one.metrics else None, one.at, one.metrics, one.losses)
        for one in earlier[-CHECKS_MAX:]
    ]
    for step, at, metrics, losses in (*known, (newest[0], seen.at, newest[1], ())):
        rows += [_Row(sampled, np.nan, {"loss": loss}) for sampled, loss in losses]
        held = recognise(tuple(metrics), stated) if metrics else {}
        values = _values(metrics, held, printed)
        if step is not None:
            names.update(held)
            rows.append(_Row(step, at.timestamp(), values))
        elif "throughput" in values:
            # A pace needs a time, and no step.
            names["throughput"] = held["throughput"]
            without_step.append((at.timestamp(), values["throughput"]))
    for line, step in shown:
        if line.loss is not None:
            rows.append(_Row(step, np.nan, {"loss": line.loss}))
            names.setdefault("loss", "loss")
    paces = without_step
    if "throughput" not in names and progress is not None and progress.uncertainty:
        paces = _rounded(past, instance, seen, progress)
    elif "throughput" not in names:
        paces = _paces(past, earlier, seen, progress) if rows else []
    if not rows and not paces:
        return None
    found = _series(_merged(rows), names, shown, paces)
    return replace(found, scaled=any(map(is_loss_scale, newest[1])))


def _paces(
    past: Earlier, earlier: Sequence[PastCheck], seen: Observation, progress: Progress | None
) -> list[tuple[float, float]]:
    """Return times and steps per second between checks, of this and earlier stretches.

    The lineage's pace before a relaunch is the expected pace after it. A stretch that is slow from
    its first step has no faster pace of its own. Earlier paces are added once this stretch has
    lasted for all judged cadences. Before that, earlier slow cadences would count as part of this
    stretch.
    """
    points = [(one.at.timestamp(), one.step) for one in earlier[-CHECKS_MAX:]]
    if progress is not None:
        points.append((seen.at.timestamp(), progress.step))
    own = _paces_between(points)
    limits, cadence_s = limits_of(past.contract), cadence_of(past.contract).total_seconds()
    judged = limits.throughput_cadences
    if len(own) < judged or own[-1][0] - own[0][0] < (judged - 1) * cadence_s:
        return own
    begun = earlier[0].at if earlier else seen.at
    before = [one for one in past.checks if one.source and one.at < begun][-CHECKS_MAX:]
    found: list[tuple[float, float]] = []
    for _, stretch in groupby(before, key=lambda one: (one.instance, one.segment)):
        found += _paces_between((one.at.timestamp(), one.step) for one in stretch)
    return [*found, *own]


def _paces_between(points: Iterable[tuple[float, int | None]]) -> list[tuple[float, float]]:
    """Return times and steps per second between points of a stretch, if the step moved."""
    found: list[tuple[float, float]] = []
    last: tuple[float, int] | None = None
    for at, step in points:
        if step is None:
            continue
        if last is None:
            last = (at, step)
        elif step > last[1] and at > last[0]:
            found.append((at, (step - last[1]) / (at - last[0])))
            last = (at, step)
    return found


def _rounded(
    past: Earlier, instance: Instance, seen: Observation, progress: Progress
) -> list[tuple[float, float]]:
    """Return the slow paces from rounded steps, or rough paces while H4 is open."""
    own = instance.plan.instance
    points = [
        (one.at.timestamp(), one.step)
        for one in past.checks
        if one.instance == own and one.step is not None
    ]
    points.append((seen.at.timestamp(), progress.step))
    shown = newest_stretch(points, progress.uncertainty)
    contract, limits = past.contract, limits_of(past.contract)
    cadence_s = cadence_of(contract).total_seconds()
    slow = slow_paces(shown, cadence_s, limits.throughput_cadences, limits.throughput_drop)
    h4_open = "H4" in past.open_rules
    return slow or (rough_paces(shown) if h4_open else [])


def _values(
    metrics: Mapping[str, float], held: Mapping[str, str], printed: bool
) -> dict[str, float]:
    """Return values by role, without a finite loss if the output prints losses.

    A printed loss may be a mean over several steps. Mixed with the tracker's losses it would look
    like a jump.
    """
    values = {role: metrics[name] for role, name in held.items()}
    if printed and math.isfinite(values.get("loss", math.nan)):
        del values["loss"]
    return values


def _series(
    rows: list[_Row],
    names: dict[str, str],
    shown: list[tuple[Line, int]],
    paces: list[tuple[float, float]],
) -> Series:
    roles = sorted({role for row in rows for role in row.values})
    bad = {
        role: tuple(row.step for row in rows if not np.isfinite(row.values.get(role, 0.0)))
        for role in FINITE_ROLES
        if role in roles
    }
    timed = [
        (row.at, row.values["throughput"])
        for row in rows
        if "throughput" in row.values and not np.isnan(row.at)
    ]
    timed = sorted([*timed, *paces])
    return Series(
        source="logs" if shown else "checks",
        steps=np.array([row.step for row in rows], dtype=np.int64),
        times=None,
        columns={role: np.array([row.values.get(role, np.nan) for row in rows]) for role in roles},
        names=names,
        before_steps=NO_STEPS,
        before_losses=NO_VALUES,
        bad={role: found for role, found in bad.items() if found},
        pace_times=np.array([at for at, _ in timed]) if timed else None,
        pace_values=np.array([value for _, value in timed]) if timed else None,
        slack=max((line.loss_slack for line, _ in shown), default=0.0),
        mfu=next((row.values["mfu"] for row in reversed(rows) if "mfu" in row.values), None),
    )


def _merged(rows: list[_Row]) -> list[_Row]:
    """Merge the values of several sources for a step; if one is not finite, the result is not."""
    merged: list[_Row] = []
    for row in sorted(rows, key=lambda row: row.step):
        if merged and merged[-1].step == row.step:
            held = merged[-1].values
            held.update(
                (role, value)
                for role, value in row.values.items()
                if math.isfinite(held.get(role, 0.0))
            )
            merged[-1].at = row.at if np.isnan(merged[-1].at) else merged[-1].at
        else:
            merged.append(_Row(row.step, row.at, dict(row.values)))
    return merged


def printed_losses(seen: Observation, instance: Instance) -> list[tuple[Line, int]]:
    """Return the newest stretch's progress lines with an exact step, oldest first."""
    first_step = instance.plan.resume_step or 0
    found: list[tuple[Line, int]] = []
    for text in seen.log_lines:
        line = read_line(text)
        if line is None or line.uncertainty:
            continue
        progress = progress_of(line)
        if progress is None or progress.step < first_step:
            continue
        if found and progress.step < found[-1][1]:
            found.clear()
        found.append((line, progress.step))
    return found
