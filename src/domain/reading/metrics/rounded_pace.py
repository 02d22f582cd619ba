"""The speed of training, if only rounded bars show steps.

Such a bar is `1.86kit/2.38kit`. A bar that rounds to 100 steps shows a pace of 60 a cadence as 0,
100, 100, 0 and so on. So a run counts as slow only if it is slow for every possible rounding. The
lowest possible pace before is compared with the highest possible pace since, over as many cadences
as necessary.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

SPANS = (1, 2, 4, 8)
"""Numbers of cadences to combine. The smallest number that shows a pace is used."""

_EXACT_ENOUGH = 16
"""How many times the rounding error a span of steps must be, for an error of an eighth."""


@dataclass(frozen=True, slots=True)
class RoundedProgress:
    """What checks showed of one stretch of training.

    Attributes:
        times: Of the checks, in seconds since 1970, ascending.
        steps: The steps shown then, ascending.
        slack: The rounding error of each step, in both directions.
    """

    times: tuple[float, ...]
    steps: tuple[int, ...]
    slack: int


def newest_stretch(points: Sequence[tuple[float, int]], slack: int) -> RoundedProgress:
    """Return the points since the step last fell."""
    begin = 0
    for at, (earlier, later) in enumerate(pairwise(points), 1):
        if later[1] < earlier[1]:
            begin = at
    own = points[begin:]
    return RoundedProgress(tuple(at for at, _ in own), tuple(step for _, step in own), slack)


def slow_paces(
    shown: RoundedProgress, cadence_s: float, windows: int, drop: float
) -> list[tuple[float, float]]:
    """Return times and paces if the newest windows are slow despite rounding, else nothing.

    A window without movement is not slow: training stopped, or the display is late.

    Args:
        shown: The steps that checks showed.
        cadence_s: Length of a cadence.
        windows: How many windows in a row must be slow.
        drop: How far below the earlier pace a window is slow, as a share.
    """
    for span in SPANS:
        places = _places(shown, span * cadence_s, cadence_s, windows)
        before = _least(shown, places[0]) if places else 0.0
        if not places or shown.times[places[0]] - shown.times[0] < windows * cadence_s:
            return []
        paces = [_most(shown, begin, end) for begin, end in pairwise(places)]
        if all(0 < pace < (1 - drop) * before for pace in paces):
            usual = [(at, before) for at in shown.times[1 : places[0] + 1]]
            # One value for each window. More values would outvote the usual pace.
            return [*usual, *zip(shown.times[-windows:], paces, strict=True)]
    return []


def rough_paces(shown: RoundedProgress) -> list[tuple[float, float]]:
    """Return times and paces, each over enough steps to make rounding small."""
    needed = max(_EXACT_ENOUGH * shown.slack, 1)
    found: list[tuple[float, float]] = []
    for end, step in enumerate(shown.steps):
        begin = bisect_right(shown.steps, step - needed, 0, end) - 1
        if begin < 0:
            continue
        moved, took = step - shown.steps[begin], shown.times[end] - shown.times[begin]
        if took > 0:
            found.append((shown.times[end], moved / took))
    return found


def _places(shown: RoundedProgress, span_s: float, cadence_s: float, windows: int) -> list[int]:
    """Return the checks between the newest windows, oldest first; empty if there are too few."""
    if not shown.times:
        return []
    now = shown.times[-1]
    bounds = (now - number * span_s + cadence_s / 2 for number in range(windows, -1, -1))
    places = [bisect_right(shown.times, bound) - 1 for bound in bounds]
    return places if places[0] > 0 and len(set(places)) == len(places) else []


def _least(shown: RoundedProgress, end: int) -> float:
    moved = shown.steps[end] - shown.steps[0] - 2 * shown.slack
    took = shown.times[end] - shown.times[0]
    return moved / took if took > 0 else 0.0


def _most(shown: RoundedProgress, begin: int, end: int) -> float:
    """Return the highest possible pace of a window; 0 if no step moved in it."""
    moved = shown.steps[end] - shown.steps[begin]
    took = shown.times[end] - shown.times[begin]
    return (moved + 2 * shown.slack) / took if moved > 0 and took > 0 else 0.0
