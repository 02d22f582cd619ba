"""Metric detectors: H4, H7, H8 and H9.

They read the recorded check and the run's open findings, never the observation. An open finding
clears half-way below its limit, so that it does not flap.
"""

import math
from dataclasses import replace

from watchkeeper.domain.rules.health.detection import DetectorAnswer
from watchkeeper.domain.rules.health.finite import nonfinite_metric
from watchkeeper.domain.rules.shared.rule import DetectorInput
from watchkeeper.domain.run.run import Run, contract_of
from watchkeeper.domain.run.watch import CheckRecorded
from watchkeeper.domain.values.check import Severity
from watchkeeper.domain.values.contract.contract import cadence_of
from watchkeeper.domain.values.contract.detect_limits import Limits, limits_of
from watchkeeper.domain.values.durations import render_duration
from watchkeeper.domain.values.observation.measured import (
    BY_STEPS,
    Level,
    Measured,
    Overlap,
    Pace,
    low_cadences,
)
from watchkeeper.domain.values.observation.sources import TrainingPhase

THROUGHPUT_COLLAPSE = "throughput_collapse"
GRADIENT_EXPLOSION = "gradient_explosion"
Z_LOSS_JUMP = "z_loss_jump"
ROUTER_COLLAPSE = "router_collapse"
OPTIMIZER_INSTABILITY = "optimizer_instability"
LOSS_RAISED = "loss_raised"
LOSS_SHIFT = "loss_shift"
RESUME_LOSS = "resume_loss"

POINTS_MIN = 3
"""How many consecutive points are evidence, at any logging interval."""

CLOSE_AGAIN = 20
"""How many consecutive common steps must agree before a loss difference is over."""

OFFSET_ERRORS = 4.0
"""How many standard errors an offset must differ from zero."""

_SOURCES = {
    "history": "from the tracker's history",
    "logs": "from the lines of the output",
    "checks": "from the newest values of the checks, as there is no history",
}


def metric_answers(given: DetectorInput) -> tuple[DetectorAnswer, ...]:
    """Return the detectors' answers from the metrics of a check."""
    run, check = given.run, given.check
    limits = limits_of(contract_of(run))
    raised = _raised(run, check.measured, limits)
    answers = (
        _collapsed(run, check, limits),
        nonfinite_metric(check),
        *_sustained(run, check.measured, limits),
        _skipping(run, check.measured, limits),
        raised,
        _shifted(check.measured, limits, raised),
        _resumed(run, check.measured, limits),
    )
    if not _shows_nothing_new(check):
        return answers
    # If this check shows a step, its pace is known even without metrics.
    pace = check.measured.pace
    paced = pace is not None and pace.metric == BY_STEPS and check.progress is not None
    collapsed, finite, *others = answers
    return (
        collapsed if paced else _undecided(collapsed),
        # Non-finite values in the output are counted by lines, which need no metric.
        finite if any(one.line for one in check.measured.not_finite) else _undecided(finite),
        *map(_undecided, others),
    )


def _shows_nothing_new(check: CheckRecorded) -> bool:
    """Say whether only values of earlier checks were available."""
    return check.measured.source == "checks" and not check.metrics


def _undecided(answer: DetectorAnswer) -> DetectorAnswer:
    # Old values do not prove that a problem is over, so they clear no finding.
    return replace(answer, holds=None) if answer.holds is False else answer


# --- H4 ------------------------------------------------------------------------------------------


def _collapsed(run: Run, check: CheckRecorded, limits: Limits) -> DetectorAnswer:
    """H4: throughput below its rolling baseline for several cadences in a row."""
    pace = check.measured.pace
    share = limits.throughput_drop
    if pace is None or pace.baseline is None:
        return _unknown(THROUGHPUT_COLLAPSE, "H4", Severity.NOTIFY)
    holds = _collapse_holds(run, check, pace, limits)
    if not holds:
        return DetectorAnswer(THROUGHPUT_COLLAPSE, "H4", Severity.NOTIFY, holds, "")
    cadence = render_duration(cadence_of(contract_of(run)))
    known = [value for value in pace.newest if value is not None]
    summary = (
        f"throughput is {_percent(1 - known[0] / pace.baseline)} below its baseline for "
        f"{low_cadences(pace, share)} cadences of {cadence}"
        if known and pace.baseline > 0
        else ""
    )
    lines = (
        f"{pace.metric}: baseline {_pace_text(pace.baseline, pace)}, the median of "
        f"{pace.baseline_bins} cadences",
        f"the newest cadences, newest first: {', '.join(_pace_text(v, pace) for v in pace.newest)}",
        f"low is below {_pace_text((1 - share) * pace.baseline, pace)}; asked for are "
        f"{limits.throughput_cadences} cadences in a row",
        *((f"MFU {_number(check.measured.mfu)}",) if check.measured.mfu is not None else ()),
    )
    return DetectorAnswer(THROUGHPUT_COLLAPSE, "H4", Severity.NOTIFY, True, summary, lines)


def _collapse_holds(run: Run, check: CheckRecorded, pace: Pace, limits: Limits) -> bool | None:
    starting = (TrainingPhase.NOT_STARTED, TrainingPhase.INITIALISING)
    at_start = check.telemetry is not None and check.telemetry.phase in starting
    silent = all(value is None for value in pace.newest[:2])
    if at_start or check.measured.catching_up or silent or pace.baseline is None:
        return None
    if low_cadences(pace, limits.throughput_drop) >= limits.throughput_cadences:
        return True
    if THROUGHPUT_COLLAPSE not in run.health.findings:
        return False
    known = [value for value in pace.newest if value is not None][:2]
    recovery_pace = (1 - limits.throughput_drop / 2) * pace.baseline
    return False if all(value >= recovery_pace for value in known) else None


# --- H7 ------------------------------------------------------------------------------------------


def _sustained(run: Run, measured: Measured, limits: Limits) -> tuple[DetectorAnswer, ...]:
    """H7: gradient norm, z-loss or router balance stays beyond its limit."""
    levels = (
        (measured.grad_norm, limits.grad_norm_factor - 1, GRADIENT_EXPLOSION, "the gradient norm"),
        (measured.z_loss, limits.z_loss_factor - 1, Z_LOSS_JUMP, "the z-loss"),
        (measured.router, 1 - limits.router_drop, ROUTER_COLLAPSE, "the router's balance"),
    )
    return tuple(
        _level_held(run, measured, level, limits.sustained_steps, share, (kind, "H7", name))
        for level, share, kind, name in levels
    )


def _skipping(run: Run, measured: Measured, limits: Limits) -> DetectorAnswer:
    """H7: the optimizer skips too many steps in 15 min, by default three."""
    count = measured.skipped
    if count is None or not measured.warm or measured.catching_up:
        return _unknown(OPTIMIZER_INSTABILITY, "H7", Severity.ALERT)
    holds = count >= limits.skipped_steps
    if OPTIMIZER_INSTABILITY in run.health.findings and 0 < count < limits.skipped_steps:
        return _unknown(OPTIMIZER_INSTABILITY, "H7", Severity.ALERT)
    lines = (f"{count} skipped steps in the newest 15 min; {limits.skipped_steps} are too many",)
    summary = f"the optimizer skipped {count} steps in 15 min"
    return DetectorAnswer(OPTIMIZER_INSTABILITY, "H7", Severity.ALERT, holds, summary, lines)


# --- H8 ------------------------------------------------------------------------------------------


def _raised(run: Run, measured: Measured, limits: Limits) -> DetectorAnswer:
    return _level_held(
        run,
        measured,
        measured.loss,
        limits.loss_steps,
        limits.loss_rise,
        (LOSS_RAISED, "H8", "the loss"),
    )


def _shifted(measured: Measured, limits: Limits, raised: DetectorAnswer) -> DetectorAnswer:
    """H8: even the lowest loss of 5 min is far above the mean of the 55 min before."""
    shift = measured.shift
    if not limits.loss_sigma:
        return DetectorAnswer(LOSS_SHIFT, "H8", Severity.ALERT, False, "")
    if shift is None or measured.catching_up or not measured.warm:
        return _unknown(LOSS_SHIFT, "H8", Severity.ALERT)
    # One alert for one rise: `loss_raised` reports the greater one.
    holds = shift.raised and raised.holds is not True
    if not holds:
        return DetectorAnswer(LOSS_SHIFT, "H8", Severity.ALERT, False, "")
    summary = (
        f"the loss shifted: the lowest of the 5 min up to step {shift.step} is "
        f"{_number(shift.lowest)}, the mean of the 55 min before was {_number(shift.mean)}"
    )
    lines = (
        f"55 min before: mean {_number(shift.mean)}, standard deviation "
        f"{_number(shift.deviation)}; a shift begins above {_number(shift.limit)}, "
        f"{_number(limits.loss_sigma)} deviations and 0.05 at least above the mean",
        f"lowest loss of the newest 5 min: {_number(shift.now)}",
    )
    return DetectorAnswer(LOSS_SHIFT, "H8", Severity.ALERT, holds, summary, lines)


def _level_held(
    run: Run,
    measured: Measured,
    level: Level | None,
    steps: int,
    share: float,
    labels: tuple[str, str, str],
) -> DetectorAnswer:
    """Judge a level: it must be beyond its limit for the given number of consecutive steps."""
    kind, rule, name = labels
    if level is None or measured.catching_up or not measured.warm:
        return _unknown(kind, rule, Severity.ALERT)
    # If noise sets the limit, a few points far apart may all be noise.
    noisy = abs(level.limit - level.expected) > 1.01 * share * abs(level.expected)
    needed = steps if noisy else points_needed(steps, measured.stride)
    longest_stretch = max(level.stretch, level.open_stretch)
    holds: bool | None = longest_stretch >= needed
    if not holds and kind in run.health.findings:
        middle = (level.expected + level.limit) / 2
        falling_is_bad = level.limit < level.expected
        recovered = level.current >= middle if falling_is_bad else level.current <= middle
        holds = False if recovered and not level.open_stretch else None
    if not holds:
        return DetectorAnswer(kind, rule, Severity.ALERT, holds, "")
    return DetectorAnswer(
        kind,
        rule,
        Severity.ALERT,
        holds,
        _level_summary(level, longest_stretch, name, measured),
        _level_lines(level, measured, needed),
    )


def points_needed(steps: int, stride: float | None) -> int:
    """Return how many consecutive points are needed to cover a number of steps."""
    return max(min(POINTS_MIN, steps), math.ceil(steps / max(stride or 1.0, 1.0)))


def _level_summary(level: Level, longest_stretch: int, name: str, measured: Measured) -> str:
    worst = level.peak if level.peak is not None else level.newest
    spans = round(longest_stretch * (measured.stride or 1.0))
    side = "below" if level.limit < level.expected else "above"
    verb = "has been" if level.open_stretch else "was"
    until = "" if level.open_stretch else f", until step {level.stretch_to}"
    difference = (
        f"{_number(worst / level.expected)} times"
        if level.expected > 0 and worst / level.expected > 3
        else f"{_percent(abs(worst - level.expected) / abs(level.expected))} {side}"
        if level.expected
        else side
    )
    return (
        f"{name} {verb} {difference} what is expected for about {spans} steps{until}: "
        f"{_number(worst)}, expected {_number(level.expected)}"
    )


def _level_lines(level: Level, measured: Measured, needed: int) -> tuple[str, ...]:
    side = "below" if level.limit < level.expected else "above"
    lines = [
        f"{level.metric}: expected {_number(level.expected)} by the points before, own noise "
        f"{_number(level.noise)}, limit {_number(level.limit)}"
    ]
    if level.stretch_from is not None:
        lines.append(
            f"{side} the limit from step {level.stretch_from} to {level.stretch_to}: "
            f"{level.stretch} points in a row, {needed} are asked for; farthest "
            f"{_number(level.peak if level.peak is not None else level.newest)}"
        )
    lines.append(
        f"now: {_number(level.newest)} at step {measured.last_step}, median of the newest points "
        f"{_number(level.current)}"
    )
    stride = measured.stride
    every = (
        "" if stride is None else f" every {_number(stride)} steps" if stride != 1 else " a step"
    )
    lines.append(f"{_SOURCES[measured.source]}" + (f", a point{every}" if every else ""))
    return tuple(lines)


# --- H9 ------------------------------------------------------------------------------------------


def _resumed(run: Run, measured: Measured, limits: Limits) -> DetectorAnswer:
    """H9: the loss of a resumed instance differs from the lineage before it."""
    found = measured.resume
    if found is None:
        return _unknown(RESUME_LOSS, "H9", Severity.ALERT)
    if found.reason:
        return DetectorAnswer(RESUME_LOSS, "H9", Severity.ALERT, False, "")
    is_off = offset_is_off(found, limits)
    # A printed loss may differ from the tracker's, so one differing step proves nothing.
    proven = not found.slack or found.beyond >= POINTS_MIN
    holds: bool | None = is_off or (found.new_beyond > 0 and proven)
    if not holds and RESUME_LOSS in run.health.findings and found.beyond:
        settled = found.close >= CLOSE_AGAIN or is_off is False
        holds = False if settled else None
    if not holds:
        return DetectorAnswer(RESUME_LOSS, "H9", Severity.ALERT, holds, "")
    summary = (
        f"after the resume the loss lies {_percent(abs(found.offset or 0.0))} "
        f"{'above' if (found.offset or 0) > 0 else 'below'} what it was before"
        if is_off
        else f"the loss of step {found.worst_step} is {_number(found.max_abs)} off what it was "
        "before the resume"
    )
    return DetectorAnswer(
        RESUME_LOSS, "H9", Severity.ALERT, holds, summary, _resume_lines(found, limits)
    )


def offset_is_off(found: Overlap, limits: Limits) -> bool | None:
    """Return whether an offset after a resume exceeds its limit and noise; None if unknown."""
    if found.offset is None or found.offset_error is None:
        return None
    distance = abs(found.offset)
    return distance > limits.resume_offset and distance > OFFSET_ERRORS * found.offset_error


def _resume_lines(found: Overlap, limits: Limits) -> tuple[str, ...]:
    lines: list[str] = []
    if found.steps:
        lines.append(
            f"{found.steps} steps logged before and after, {found.first_step} to "
            f"{found.last_step}: {found.beyond} differ by more than {limits.resume_overlap}"
        )
        lines.append(
            f"farthest at step {found.worst_step}: {_number(found.worst_before)} before, "
            f"{_number(found.worst_after)} after"
        )
    if found.slack:
        lines.append(f"rounding of the logged losses allows for {_number(found.slack)} of it")
    if found.offset is not None:
        baseline = "like steps" if found.offset_like else "the trend before"
        lines.append(
            f"offset against {baseline}: {_signed_percent(found.offset)}, standard error "
            f"{_percent(found.offset_error or 0.0)}, over {found.offset_points} points; limit "
            f"{_percent(limits.resume_offset)}"
        )
    return tuple(lines)


# --- Words ---------------------------------------------------------------------------------------


def _unknown(kind: str, rule: str, severity: Severity) -> DetectorAnswer:
    return DetectorAnswer(kind, rule, severity, None, "")


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.4g}"


def _percent(value: float) -> str:
    return f"{100 * value:.3g} %"


def _signed_percent(value: float) -> str:
    return f"{100 * value:+.3g} %"


def _pace_text(value: float | None, pace: Pace) -> str:
    if value is None:
        return "none"
    # A time per step is shown as a time.
    return _number(1 / value) if pace.inverted and value > 0 else _number(value)
