"""Detector of training metrics that are NaN or infinite (H7)."""

import math

from watchkeeper.domain.rules.health.detection import DetectorAnswer
from watchkeeper.domain.run.watch import CheckRecorded
from watchkeeper.domain.values.check import Severity
from watchkeeper.domain.values.contract.metric_names import recognise
from watchkeeper.domain.values.observation.measured import (
    FINITE_AGAIN,
    FINITE_AGAIN_CHECKS,
    NotFinite,
)

NOT_FINITE = "not_finite"
"""The finding that a metric of training is NaN or infinite."""

LINES_MAX = 2
"""Lines of the output shown with a finding."""


def nonfinite_metric(check: CheckRecorded) -> DetectorAnswer:
    """H7: a training metric is NaN or infinite, from its first point on."""
    measured = check.measured
    found = measured.not_finite
    if not found:
        # Without a point the answer is unknown, so an open finding stays open.
        holds = False if measured.points else None
        return DetectorAnswer(NOT_FINITE, "H7", Severity.ALERT, holds, "")
    holds = any(one.new or one.finite_since < _needed_to_clear(one, check) for one in found)
    first = min(found, key=lambda one: one.first_step)
    still = any(one.finite_since == 0 for one in found)
    summary = f"{first.metric} is not a finite number since step {first.first_step}"
    if not still:
        summary = f"{first.metric} was not a finite number at step {first.last_step}"
    if _shows_no_step(check):
        summary = f"{first.metric} {'is' if still else 'was'} not a finite number"
    lines = tuple(_bad_line(one, check) for one in found)
    if any(_is_printed(one, check) for one in found):
        lines += _printed_lines(check)
    return DetectorAnswer(NOT_FINITE, "H7", Severity.ALERT, holds, summary, lines)


def _needed_to_clear(one: NotFinite, check: CheckRecorded) -> int:
    by_points = check.measured.source == "history" and not _is_gauged(one, check)
    return FINITE_AGAIN if by_points or _is_printed(one, check) else FINITE_AGAIN_CHECKS


def _is_printed(one: NotFinite, check: CheckRecorded) -> bool:
    """Return whether the points come from output lines."""
    of_lines = check.measured.source == "logs" and "loss" in recognise((one.metric,))
    return one.line or of_lines


def _is_gauged(one: NotFinite, check: CheckRecorded) -> bool:
    return check.telemetry is not None and one.metric in check.telemetry.values


def _shows_no_step(check: CheckRecorded) -> bool:
    """Return whether no source shows a step. The recorded step is then only the last known."""
    return check.progress is None and not check.measured.points


def _bad_line(one: NotFinite, check: CheckRecorded) -> str:
    where = _where(one, check)
    where = "by the job's own gauge" if _is_gauged(one, check) and not one.line else where
    steps = (
        f"step {one.first_step}"
        if one.first_step == one.last_step
        else f"{one.count} points from step {one.first_step} to {one.last_step}"
    )
    if _shows_no_step(check):
        steps = "nothing shows its step"
    return f"{one.metric} is NaN or infinite {where}: {steps}; {_since(one.finite_since)}"


def _printed_lines(check: CheckRecorded) -> tuple[str, ...]:
    """Return the output lines about numerical instability that the check kept."""
    said = (one.line for one in check.claims if one.label == "numerical_instability")
    return tuple(f"the output says: {line}" for line in said)[:LINES_MAX]


def _where(one: NotFinite, check: CheckRecorded) -> str:
    value = check.metrics.get(one.metric)
    if one.line or (_is_printed(one, check) and value is None):
        return "in the output"
    # Without a history, the tracker and the output give one value each. The bad one is unknown.
    either = _is_printed(one, check) and value is not None and math.isfinite(value)
    return "at the tracker or in the output" if either else "at the tracker"


def _since(finite: int) -> str:
    if not finite:
        return "still so at its newest point"
    return f"{finite} finite point{'s' if finite > 1 else ''} since"
