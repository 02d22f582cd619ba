"""The metric statistics of one check: windowed and bounded, no series."""

from typing import Literal

from pydantic import Field

from watchkeeper.domain.values.basic import Step, Value

SAMPLES_MAX = 32
"""Pairs of step and loss kept by a check, for the comparison after a later resume."""

NOT_FINITE_MAX = 4
"""Metrics named in a check for NaN or infinite values."""


class Level(Value):
    """Where a metric stands against what was expected of it.

    A value counts as raised above `limit`, or as fallen below it for what falls when it is bad.

    Attributes:
        metric: Its name.
        expected: The robust level before the newest excursion: a median.
        noise: Robust standard deviation around it.
        limit: From where on a value counts.
        current: The median of the newest points, at most 10.
        newest: The newest value.
        stretch: Most consecutive points beyond the limit that were new at this check.
        stretch_from: Where they began.
        stretch_to: Where they ended.
        open_stretch: Consecutive points beyond the limit up to the newest one.
        peak: The value farthest beyond the limit among them; none without any.
        points: Points that `expected` rests on.
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
    """How fast training goes, by cadences.

    Attributes:
        metric: Its name; `steps per second` where it was taken from the steps' own times.
        baseline: The median of the cadences before the low ones.
        baseline_bins: Cadences that it rests on, this check's and earlier ones'.
        newest: Upper medians of the newest cadences, newest first, at most 8; none for one that
            too few points fall in.
        low: How many cadences in a row are low, up to the newest.
        inverted: The metric is a time for each step: its inverse was taken.
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
        metric: Its name.
        count: How often, as far as the history reaches.
        first_step: The first time.
        last_step: The newest time.
        new: How often since the last check.
        finite_since: Points that are numbers again since then.
        line: Seen in the output, not at the tracker.
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
        mean: Of the 55 min, taken as the median.
        deviation: Of the 55 min: by the median deviation, or half of the standard one if more.
        limit: What the lowest loss of 5 min may not exceed.
        lowest: The lowest loss of those 5 min that stand out most since the last check.
        step: The step at which these 5 min ended.
        raised: The lowest is beyond the limit, or was, and the loss has not come half-way back.
        since: When it went beyond, in seconds since 1970; none while it has not.
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
    """The losses of a resumed instance beside those of the lineage before it.

    Attributes:
        steps: Steps that were logged before and after.
        beyond: How many of them differ by more than the contract allows.
        new_beyond: How many of those are new at this check.
        first_step: The first of them.
        last_step: The last one compared.
        worst_step: Where they differ most.
        worst_before: The loss there before the resume.
        worst_after: And after it.
        max_abs: The largest difference, the agreed one taken off.
        max_rel: The largest difference as a share of the loss before.
        slack: What rounded losses may differ by themselves.
        close: Steps in a row, up to the last one compared, that differ by no more than allowed.
        offset: How far the loss lies off after the resume's warm-up, as a share; none before.
        offset_error: The standard error of it.
        offset_points: Points that it rests on.
        offset_like: It compares like steps, and no trend.
        reason: Why nothing is compared; empty where something may be.
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
    """Statistics of the metrics that a check saw; what could not be measured is none.

    Attributes:
        points: Points of the newest stretch of training that were looked at.
        source: Where they come from: the tracker's history, the lines of the output, or the newest
            values of the checks themselves; empty without any.
        first_step: The first step of the newest stretch, which a start or a resume began.
        last_step: Its newest step.
        stride: Steps from one point to the next, as a median.
        segment: How often the instance was seen to step back: restarts inside it.
        high_water: The highest step before the newest stretch; none for a first one.
        catching_up: Steps below the high-water mark are trained again.
        warm: Warm-up is over.
        loss: See `Level`.
        grad_norm: See `Level`.
        z_loss: See `Level`.
        router: See `Level`.
        shift: See `Shift`.
        pace: See `Pace`.
        mfu: The newest model FLOPs utilisation, as logged.
        not_finite: See `NotFinite`.
        skipped: Optimizer steps skipped in the newest 15 min; none where nobody counts them.
        resume: See `Overlap`; none for a start from scratch.
        losses: Pairs of step and loss, new at this check: the reference for a later resume.
        losses_slack: What rounding may have taken from these losses.
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
"""Finite points after which a NaN counts as over."""


FINITE_AGAIN_CHECKS = 3
"""The same if only the checks' own values are known."""


BY_STEPS = "steps per second"
"""Names the pace that is taken from the steps themselves."""


def low_cadences(pace: Pace, drop: float) -> int:
    """Recount from the record how many of the newest cadences in a row are low.

    Args:
        pace: As recorded.
        drop: Share below the baseline at which a cadence is low.

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
