"""Numeric rules over metric series: robust levels, paces, comparisons.

All functions are pure and use NumPy.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from struct import Struct

import numpy as np
from numpy.typing import NDArray

from watchkeeper.domain.values.exits import significant
from watchkeeper.domain.values.observation.measured import Level, Shift

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

LEVEL_POINTS_MAX = 1_024
"""How many newest points judge a loss. Other metrics use half as many."""

LEVEL_POINTS_MIN = 20
"""A metric with fewer points has no expected value, as in operating practice."""

NOISE_GUARD = 3.0
"""A value counts if it exceeds the noise by this many robust deviations."""

GROWTH = 0.001 / 16
"""Share by which the expected value may rise with each point. It is small: a slow divergence must
not become the new normal. A cosine restart rises faster."""

TO_DEVIATION = 1.4826
"""Factor from median absolute deviation to standard deviation, for a normal distribution."""


def float_array(values: Sequence[float]) -> Floats:
    """Return floats as a read-only array; twice as fast as NumPy's own constructor."""
    return np.frombuffer(_layout(len(values), "d").pack(*values))


def int_array(values: Sequence[int]) -> Ints:
    """Return whole numbers below 2**63 as a read-only array."""
    return np.frombuffer(_layout(len(values), "q").pack(*values), dtype=np.int64)


@lru_cache(maxsize=16)
def _layout(size: int, kind: str) -> Struct:
    return Struct(f"{size}{kind}")


def upper_median(values: Floats) -> float:
    """Return the upper of the two middle values. Slow samples in half a window do not change it."""
    half = values.size // 2
    return float(_parted(values, half)[half])


def median_of(values: Floats) -> float:
    """Return the median of at least one value."""
    half = values.size // 2
    if values.size % 2:
        return float(_parted(values, half)[half])
    parted = _parted(values, (half - 1, half))
    return float((parted[half - 1] + parted[half]) / 2)


def _parted(values: Floats, places: int | tuple[int, int]) -> Floats:
    """Return the same as `np.partition`, without its slow argument checks."""
    copy = values.copy()
    copy.partition(places, axis=-1)
    return copy


def _smoothed(values: Floats) -> Floats:
    """Return medians of three neighbours, so that one outlier does not divide a stretch."""
    if values.size < 3:
        return values
    a, b, c = values[:-2], values[1:-1], values[2:]
    middle = np.maximum(np.minimum(a, b), np.minimum(np.maximum(a, b), c))
    return np.concatenate((values[:1], middle, values[-1:]))


def _scales(points: int) -> tuple[int, int]:
    """Return the number of points in a chunk, and in the window before it."""
    return (16, 128) if points >= 256 else (8, 64) if points >= 128 else (4, 16)


@dataclass(frozen=True, slots=True)
class LevelRule:
    """How a level is judged.

    Attributes:
        share: How far above the expected value a value must be, as a share.
        falls: Whether a fall is bad. `share` then means below the expected value.
        most: A value above this limit always counts.
    """

    share: float
    falls: bool = False
    most: float | None = None


def level_of(
    metric: str, steps: Ints, values: Floats, rise: LevelRule, new_from: int, before: Level | None
) -> Level | None:
    """Compare a metric with its own past.

    The expected value at a point is the median of the window before it. It may rise only slowly,
    and it is frozen while values are beyond the limit. So neither a long excursion nor a slow
    divergence becomes the new normal.

    Args:
        metric: The metric's name.
        steps: Steps of the points, ascending.
        values: The metric, finite; as long as `steps`.
        rise: How the level is judged.
        new_from: The first step that no earlier check saw.
        before: The level at the previous check, of the same stretch of training.

    Returns:
        None if there are too few points for an expected value.
    """
    size = values.size
    if size == 0 or (size < LEVEL_POINTS_MIN and before is None):
        return None
    seen = -values if rise.falls else values
    chunk, window = _scales(size)
    medians = _causal_medians(seen, chunk, window)
    sign = -1.0 if rise.falls else 1.0
    noise = _noise(seen, medians, chunk)
    if before is not None and size < 2 * LEVEL_POINTS_MIN:
        noise = before.noise
    new_index = int(np.searchsorted(steps, new_from))
    bound, expected = _expected(
        seen,
        medians,
        chunk,
        min(new_index, size - 1) // chunk,
        rise,
        noise,
        None if before is None else sign * before.expected,
        before is not None and before.open_stretch > 0,
    )
    smooth = _smoothed(seen)
    beyond = smooth > np.repeat(bound, chunk)[:size]
    stretch, last, tail = 0, 0, 0
    # The normal case: nearly every check of a metric ends here.
    if beyond.any():
        stretch, last = _longest(beyond, new_index)
        tail = size - 1 - int(np.flatnonzero(~beyond)[-1]) if not beyond.all() else size
    carried = before.open_stretch if before is not None and tail == size else 0
    peak = None
    if stretch:
        part = seen[last - stretch + 1 : last + 1]
        peak = significant(sign * float(part.max()))
    newest = values[-10:]
    return Level(
        metric=metric,
        expected=significant(sign * expected),
        noise=significant(noise),
        limit=significant(sign * float(bound[-1])),
        current=significant(median_of(newest)),
        newest=significant(float(values[-1])),
        stretch=stretch + (carried if stretch == size else 0),
        stretch_from=int(steps[last - stretch + 1]) if stretch else None,
        stretch_to=int(steps[last]) if stretch else None,
        open_stretch=tail + carried,
        peak=peak,
        points=size,
    )


def _causal_medians(values: Floats, chunk: int, window: int) -> list[float]:
    """Return the median of the window before each chunk; early chunks use the first window.

    A window is a whole number of chunks.
    """
    early = [median_of(values[:window])] * -(-min(window, values.size) // chunk)
    if values.size <= window:
        return early
    half = window // 2
    # `take` copies the values, so the rows can be partitioned in place.
    rows = values.take(_windows(values.size, chunk, window))
    rows.partition(half, axis=-1)
    return [*early, *rows[:, half].tolist()]


@lru_cache(maxsize=16)
def _windows(size: int, chunk: int, window: int) -> Ints:
    """Return the indices of the window before each chunk; most checks have the same ones."""
    begins = np.arange(0, size - window, chunk)
    places = begins[:, np.newaxis] + np.arange(window)
    places.flags.writeable = False
    return places


def _noise(values: Floats, medians: list[float], chunk: int) -> float:
    spread = np.abs(values - np.repeat(np.array(medians), chunk)[: values.size])
    return TO_DEVIATION * median_of(spread)


def _chunk_medians(values: Floats, chunk: int) -> list[float]:
    whole = values.size // chunk * chunk
    made: list[float] = []
    if whole:
        rows = values[:whole].reshape(-1, chunk)
        made = _parted(rows, chunk // 2)[:, chunk // 2].tolist()
    if whole < values.size:
        made.append(median_of(values[whole:]))
    return made


def _expected(
    seen: Floats,
    medians: list[float],
    chunk: int,
    first_new: int,
    rise: LevelRule,
    noise: float,
    before: float | None,
    frozen: bool,
) -> tuple[Floats, float]:
    """Return the limit for each chunk, and the expected value at the end.

    Args:
        seen: The values, with the sign set so that a rise is bad.
        medians: The median of the window before each chunk.
        chunk: Points in a chunk.
        first_new: The first chunk with points that no earlier check saw.
        rise: How the level is judged.
        noise: The metric's own noise, as a standard deviation.
        before: The expected value at the previous check.
        frozen: Whether the newest points of the previous check were beyond the limit.
    """
    held = medians[0]
    beyond = False
    bounds: list[float] = []
    # This runs for each chunk of each metric, so everything constant is computed before the loop.
    share, guard, growth = rise.share, NOISE_GUARD * noise, GROWTH * chunk
    most = math.inf if rise.most is None else rise.most
    for index, (middle, level) in enumerate(zip(medians, _chunk_medians(seen, chunk), strict=True)):
        if before is not None and index == first_new:
            held = before if frozen else min(held, before)
            beyond = frozen
        # Calls of `min` and `max` would take as long as the rest of the loop.
        if not beyond:
            risen = held + growth * (abs(held) + noise)
            held = risen if risen < middle else middle
        apart = share * abs(held)
        bound = held + (guard if guard > apart else apart)
        if most < bound:
            bound = most
        bounds.append(bound)
        beyond = level > bound
    return np.array(bounds), held


def _longest(beyond: Flags, new_index: int) -> tuple[int, int]:
    """Return the length and end of the longest stretch that ends at or after an index."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], beyond, [False])).astype(np.int8)))
    best, last = 0, 0
    for begin, end in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        if end > new_index and end - begin > best:
            best, last = end - begin, end - 1
    return best, last


SHIFT_NEW_S, SHIFT_OLD_S, SHIFT_LOOKS_S = 300.0, 3_600.0, 75.0
"""Lengths in seconds. Operating practice compares 5 min with the 55 min before, about once a
minute."""

SHIFT_LOOKS_MAX = 12
"""Maximum number of comparisons at one check: they span a quarter of an hour."""

SHIFT_OLD_MIN, SHIFT_NEW_MIN = 20, 5
"""Points that operating practice requires in the 55 min and in the 5 min."""

SHIFT_KEPT_S = 6 * 3_600.0
"""After this time a shifted loss counts as normal."""


@dataclass(frozen=True, slots=True)
class ShiftRule:
    """How far above the mean a shift begins: a rise or some deviations, whichever is greater."""

    rise_min: float
    sigma: float


def shift_of(
    steps: Ints, times: Floats, values: Floats, rule: ShiftRule, since: float, before: Shift | None
) -> Shift | None:
    """Return the 5 min of loss that stand out most against the 55 min before them.

    Args:
        steps: Steps of the points.
        times: Seconds, ascending.
        values: The loss, finite; as long as `times`.
        rule: How large a shift must be.
        since: The time up to which an earlier check has compared the windows.
        before: The shift at the previous check.

    Returns:
        None if no window has enough points.
    """
    if times.size < SHIFT_OLD_MIN + SHIFT_NEW_MIN:
        return None
    end = float(times[-1])
    # If the loss is logged rarely, both windows grow until they hold enough points.
    gap = (end - float(times[-SHIFT_OLD_MIN])) / (SHIFT_OLD_MIN - 1)
    new_s = max(SHIFT_NEW_S, gap * (SHIFT_NEW_MIN + 1))
    looks = max(1, min(SHIFT_LOOKS_MAX, int((end - since) / SHIFT_LOOKS_S)))
    found: Shift | None = None
    for look in range(looks):
        made = _shift_at(steps, times, values, rule, end - look * SHIFT_LOOKS_S, new_s)
        if made is not None and (
            found is None or made.lowest - made.limit > found.lowest - found.limit
        ):
            found = made
    newest = values[int(np.searchsorted(times, end - new_s)) :]
    now = significant(float(newest.min())) if newest.size else None
    if before is not None and before.raised and before.since is not None and now is not None:
        back = (before.mean + before.limit) / 2
        if now > back and end - before.since < SHIFT_KEPT_S:
            return before.model_copy(update={"now": now})
    return None if found is None else found.model_copy(update={"now": now})


def _shift_at(
    steps: Ints, times: Floats, values: Floats, rule: ShiftRule, end: float, new_s: float
) -> Shift | None:
    old_s = new_s * SHIFT_OLD_S / SHIFT_NEW_S
    last, split, begin = np.searchsorted(
        times, (end, end - new_s, end - old_s), side="right"
    ).tolist()
    old, new = values[begin:split], values[split:last]
    if old.size < SHIFT_OLD_MIN or new.size < SHIFT_NEW_MIN:
        return None
    # The older window must be at least half full: a slow swing needs time to show its range.
    if end - float(times[begin]) < old_s / 2:
        return None
    # The median replaces the mean. One minute of the shift in the older window would move a mean
    # and hide the shift.
    mean, lowest = median_of(old), float(new.min())
    # Only the standard deviation shows an occasional swing, such as after a learning rate restart.
    deviation = max(TO_DEVIATION * median_of(np.abs(old - mean)), float(old.std()) / 2)
    limit = mean + max(rule.rise_min, rule.sigma * deviation)
    return Shift(
        mean=significant(mean),
        deviation=significant(deviation),
        limit=significant(limit),
        lowest=significant(lowest),
        step=int(steps[last - 1]),
        raised=lowest > limit,
        since=end if lowest > limit else None,
    )


@dataclass(frozen=True, slots=True)
class Bins:
    """Upper medians of a pace by cadence, newest first; `None` stands for too few points."""

    values: tuple[float | None, ...]


BINS_MAX = 32
"""Maximum number of cadences to look back: 5 h at 570 s."""

BIN_POINTS_MIN = 3
"""Points that a cadence needs for its median, if the metric is logged that often."""


def bins_of(times: Floats, values: Floats, now: float, cadence_s: float) -> Bins:
    """Return the upper median of each cadence, newest first.

    Args:
        times: Seconds, ascending.
        values: The pace, finite; higher is faster.
        now: When the check was made.
        cadence_s: Length of a cadence.
    """
    if not times.size:
        return Bins(())
    reach = min(BINS_MAX, int((now - float(times[0])) / cadence_s) + 1)
    if reach <= 0:
        return Bins(())
    edges = now - cadence_s * np.arange(reach + 1)
    places = np.searchsorted(times, edges, side="right").tolist()
    # Points from a clock that is ahead belong to the newest cadence.
    places[0] = times.size
    gap = (float(times[-1]) - float(times[0])) / max(times.size - 1, 1)
    least = BIN_POINTS_MIN if gap * BIN_POINTS_MIN <= cadence_s else 1
    made = [
        significant(upper_median(values[begin:end])) if end - begin >= least else None
        for end, begin in pairwise(places)
    ]
    return Bins(tuple(made))
