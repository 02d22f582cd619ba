"""The metric statistics of one check: windowed and bounded, no series."""

from typing import Literal

from pydantic import Field

from watchkeeper.domain.values.basic import Step, Value

SAMPLES_MAX = 32
"""Pairs of step and loss kept by a check, for the comparison after a later resume."""

NOT_FINITE_MAX = 4
"""Metrics named in a check for NaN or infinite values."""


class Level(Value):
    """A metric compared with its expected value.

    A value counts if it is above `limit`, or below it for a metric whose fall is bad.

    Attributes:
        metric: The metric's name.
        expected: The robust level before the newest excursion: a median.
        noise: Robust standard deviation around it.
        limit: The value beyond which a point counts.
        current: The median of the newest points, at most 10.
        newest: The newest value.
        stretch: Most consecutive points beyond the limit that were new at this check.
        stretch_from: The step where this stretch began.
        stretch_to: The step where this stretch ended.
        open_stretch: Consecutive points beyond the limit up to the newest one.
        peak: The value farthest beyond the limit in the stretch; null without one.
        points: The number of points behind `expected`.
    """

    metric: str
    expected: float
    noise: float
    limit: float
    current: float
    newest: float
    stretch: int = 0
    stretch_from: Step | None = None
    stretch_to: Step | None = None
    open_stretch: int = 0
    peak: float | None = None
    points: int = 0


class Pace(Value):
    """The speed of training by cadence.

    Attributes:
        metric: The metric's name; `steps per second` if it was computed from steps.
        baseline: The median of the cadences before the low ones.
        baseline_bins: The number of cadences behind the baseline.
        newest: Upper medians of the newest cadences, newest first, at most 8; null for a cadence
            with too few points.
        low: The number of consecutive low cadences up to the newest.
        inverted: Whether the metric is a time per step, so that its inverse is used.
    """

    metric: str
    baseline: float | None = None
    baseline_bins: int = 0
    newest: tuple[float | None, ...] = ()
    low: int = 0
    inverted: bool = False


class NotFinite(Value):
    """A metric that was logged as NaN or infinite in the newest stretch of training.

    Attributes:
        metric: The metric's name.
        count: The number of bad values in the history.
        first_step: The first bad step.
        last_step: The newest bad step.
        new: The number of bad values since the last check.
        finite_since: The number of finite points since then.
        line: Whether it was seen in the output instead of the tracker.
    """

    metric: str
    count: int
    first_step: Step
    last_step: Step
    new: int = 0
    finite_since: int = 0
    line: bool = False


class Shift(Value):
    """The loss of 5 min against the 55 min before, as practice compares them.

    Attributes:
        mean: The level of the 55 min, as a median.
        deviation: The deviation of the 55 min: the median deviation, or half the standard deviation
            if greater.
        limit: The limit for the lowest loss of 5 min.
        lowest: The lowest loss of the most conspicuous 5 min since the last check.
        step: The step at which these 5 min ended.
        raised: Whether the loss went beyond the limit and has not come half-way back.
        since: When it went beyond the limit, in seconds since 1970; null if it did not.
        now: The lowest loss of the newest 5 min.
    """

    mean: float
    deviation: float
    limit: float
    lowest: float
    step: Step
    raised: bool = False
    since: float | None = None
    now: float | None = None


class Overlap(Value):
    """The losses of a resumed instance compared with the earlier lineage.

    Attributes:
        steps: Steps that were logged before and after.
        beyond: The number of these steps that differ by more than the contract allows.
        new_beyond: The number of such steps that are new at this check.
        first_step: The first compared step.
        last_step: The last compared step.
        worst_step: The step with the largest difference.
        worst_before: The loss at this step before the resume.
        worst_after: The loss at this step after the resume.
        max_abs: The largest difference, minus the agreed difference.
        max_rel: The largest difference as a share of the loss before.
        slack: The rounding error of the compared losses.
        close: The number of consecutive agreeing steps up to the last compared step.
        offset: The offset of the loss after the resume's warm-up, as a share; null before.
        offset_error: The standard error of the offset.
        offset_points: The number of points behind the offset.
        offset_like: Whether the offset compares the same steps instead of a trend.
        reason: Why nothing is compared; else empty.
    """

    steps: int = 0
    beyond: int = 0
    new_beyond: int = 0
    first_step: Step | None = None
    last_step: Step | None = None
    worst_step: Step | None = None
    worst_before: float | None = None
    worst_after: float | None = None
    max_abs: float | None = None
    max_rel: float | None = None
    slack: float = 0.0
    close: int = 0
    offset: float | None = None
    offset_error: float | None = None
    offset_points: int = 0
    offset_like: bool = False
    reason: str = ""


class Measured(Value):
    """Statistics of the metrics of a check. A missing statistic is null.

    Attributes:
        points: The number of points of the newest stretch of training.
        source: Their source: the tracker's history, the output's lines, or the checks' newest
            values; empty without points.
        first_step: The first step of the newest stretch, after a start or a resume.
        last_step: Its newest step.
        stride: The median number of steps between points.
        segment: How often the instance stepped back, by restarts inside it.
        high_water: The highest step before the newest stretch; null for the first stretch.
        catching_up: Whether training repeats steps below `high_water`.
        warm: Whether the warm-up is over.
        loss: See `Level`.
        grad_norm: See `Level`.
        z_loss: See `Level`.
        router: See `Level`.
        shift: See `Shift`.
        pace: See `Pace`.
        mfu: The newest model FLOPs utilisation, as logged.
        not_finite: See `NotFinite`.
        skipped: Optimizer steps skipped in the newest 15 min; null if they are not counted.
        resume: See `Overlap`; null for a start from scratch.
        losses: New pairs of step and loss, for the comparison after a later resume.
        losses_slack: The rounding error of these losses.
    """

    points: int = 0
    source: Literal["", "history", "logs", "checks"] = ""
    first_step: Step | None = None
    last_step: Step | None = None
    stride: float | None = None
    segment: int = 0
    high_water: Step | None = None
    catching_up: bool = False
    warm: bool = False
    loss: Level | None = None
    grad_norm: Level | None = None
    z_loss: Level | None = None
    router: Level | None = None
    shift: Shift | None = None
    pace: Pace | None = None
    mfu: float | None = None
    not_finite: tuple[NotFinite, ...] = ()
    skipped: int | None = None
    resume: Overlap | None = None
    losses: tuple[tuple[Step, float], ...] = Field(default=(), max_length=SAMPLES_MAX)
    losses_slack: float = 0.0


FINITE_AGAIN = 30
"""How many finite points end a NaN."""


FINITE_AGAIN_CHECKS = 3
"""How many finite checks end a NaN if only the checks' values are known."""


BY_STEPS = "steps per second"
"""The metric name of a pace that is computed from steps."""


def low_cadences(pace: Pace, drop: float) -> int:
    """Recount from the record how many of the newest cadences in a row are low.

    Args:
        pace: The recorded pace.
        drop: How far below the baseline a cadence is low, as a share.

    Returns:
        If all recorded cadences are low, the number that the check counted.
    """
    if pace.baseline is None:
        return pace.low
    low, ended = low_and_ended(pace.newest, (1 - drop) * pace.baseline)
    return low if ended else max(low, pace.low)


def low_and_ended(bins: tuple[float | None, ...], bar: float) -> tuple[int, bool]:
    """Count the newest cadences below a bar, and report whether a normal one ended them."""
    known = [value for value in bins if value is not None]
    low = next((count for count, value in enumerate(known) if value >= bar), None)
    return (len(known), False) if low is None else (low, True)
