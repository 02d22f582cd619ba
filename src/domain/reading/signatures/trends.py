"""Finds diverging numbers at the end of a log."""

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise

_NUMBER = r"([-+]?(?:\d+\.?\d*(?:e[-+]?\d+)?|nan|inf)\b)"
_LOSS = re.compile(
    r"(?<![\w/])(?:train(?:ing)?[_/ ]|lm[_ ]|total[_ ])?loss\b(?! ?scale)[^\d\n|,;]{0,12}?[:= ] *"
    + _NUMBER,
    re.IGNORECASE,
)
_NORM = re.compile(r"\b(?:grad(?:ient)?[_ ]?norm|gnorm)\b[^\d\n|,;]{0,6}" + _NUMBER, re.IGNORECASE)
_SCALE = re.compile(r"\bloss[_ ]scale\b[^\d\n|,;]{0,6}" + _NUMBER, re.IGNORECASE)

_NAME_MAX = len("gradient_")
"""How many characters of a name are read before its last word."""

_LINES_MAX = 64
_JUMP = 1.8
"""A loss seldom grows by this factor once training has begun."""
_RUNAWAY = 8.0
_HALVINGS = 4.0


def diverging_line(tail: str) -> str:
    r"""Return the last line of diverging numbers, or an empty text.

    A gradient norm that grows by `_RUNAWAY` twice, or a loss that grows by `_JUMP` together with a
    growing norm or a falling loss scale: logbooks of large runs show this before a restart.

    >>> diverging_line("loss: 2.2 | grad norm: 1.0\nloss: 2.2 | grad norm: 1.1")
    ''
    """
    small = ((line, line.lower()) for line in tail.splitlines())
    shown = [one for one in small if "loss" in one[1] or "norm" in one[1]][-_LINES_MAX:]
    lines = [line for line, _ in shown]
    norms = _series(_NORM, _near(shown, "norm"))
    scales = _series(_SCALE, _near(shown, "scale"))
    norm_up = len(norms) > 1 and norms[-1] > _RUNAWAY * max(min(norms[:-1]), 0.5)
    scale_down = len(scales) > 1 and scales[-1] * _HALVINGS <= max(scales)
    scale_floor = len(scales) > 2 and scales[-1] <= 1.0 and _falls(scales)
    # A search for losses costs more than all the rest, and losses alone prove nothing.
    losses = _series(_LOSS, [(line, 0) for line in lines]) if norm_up or scale_down else []
    loss_up = len(losses) > 2 and losses[-1] > _JUMP * min(losses) and losses[-1] > min(losses) + 1
    steep = len(norms) > 2 and norms[-1] > 50 * max(norms[0], 0.1) and norms[-1] > norms[-2]
    if (loss_up and (norm_up or scale_down)) or scale_floor or steep:
        return lines[-1]
    return ""


def _falls(values: Sequence[float]) -> bool:
    return all(later <= sooner for sooner, later in pairwise(values)) and values[-1] < values[0]


def _near(shown: Iterable[tuple[str, str]], word: str) -> list[tuple[str, int]]:
    """Return the lines with a word, each with the earliest start of a name that ends in it.

    An expression that starts there finds the same as from the start of the line. In a line of
    thirty numbers the latter takes ten times as long.
    """
    found: list[tuple[str, int]] = []
    for line, small in shown:
        at = small.find(word)
        if at >= 0:
            # If a letter's small form is longer than its capital form, the places differ.
            found.append((line, max(at - _NAME_MAX, 0) if len(small) == len(line) else 0))
    return found


def _series(pattern: re.Pattern[str], lines: Sequence[tuple[str, int]]) -> list[float]:
    found = (pattern.search(line, begin) for line, begin in lines)
    return [float(one[1]) for one in found if one is not None]
