"""Failures that no single line shows: numbers that run away over the lines of a log's end."""

import re
from collections.abc import Sequence
from itertools import pairwise

_NUMBER = r"([-+]?(?:\d+\.?\d*(?:e[-+]?\d+)?|nan|inf)\b)"
_LOSS = re.compile(
    r"(?<![\w/])(?:train(?:ing)?[_/ ]|lm[_ ]|total[_ ])?loss\b(?! ?scale)[^\d\n|,;]{0,12}?[:= ] *"
    + _NUMBER,
    re.IGNORECASE,
)
_NORM = re.compile(r"\b(?:grad(?:ient)?[_ ]?norm|gnorm)\b[^\d\n|,;]{0,6}" + _NUMBER, re.IGNORECASE)
_SCALE = re.compile(r"\bloss[_ ]scale\b[^\d\n|,;]{0,6}" + _NUMBER, re.IGNORECASE)

_LINES_MAX = 64
_JUMP = 1.8
"""A loss is seldom so many times what it was, once training has begun."""
_RUNAWAY = 8.0
_HALVINGS = 4.0


def runs_away(tail: str) -> str:
    r"""Return the last line of numbers that run away, or an empty text.

    A gradient norm that grows by `_RUNAWAY` twice, or a loss that grows by `_JUMP` together with a
    growing norm or a falling loss scale: what the chronicles of large runs show before a restart.

    >>> runs_away("loss: 2.2 | grad norm: 1.0\nloss: 2.2 | grad norm: 1.1")
    ''
    """
    lines = [line for line in tail.splitlines() if "loss" in line.lower() or "norm" in line.lower()]
    lines = lines[-_LINES_MAX:]
    norms = _series(_NORM, [line for line in lines if "norm" in line.lower()])
    scales = _series(_SCALE, [line for line in lines if "scale" in line.lower()])
    norm_up = len(norms) > 1 and norms[-1] > _RUNAWAY * max(min(norms[:-1]), 0.5)
    scale_down = len(scales) > 1 and scales[-1] * _HALVINGS <= max(scales)
    scale_floor = len(scales) > 2 and scales[-1] <= 1.0 and _falls(scales)
    # A search for losses costs more than all the rest, and alone they say nothing.
    losses = _series(_LOSS, lines) if norm_up or scale_down else []
    loss_up = len(losses) > 2 and losses[-1] > _JUMP * min(losses) and losses[-1] > min(losses) + 1
    steep = len(norms) > 2 and norms[-1] > 50 * max(norms[0], 0.1) and norms[-1] > norms[-2]
    if (loss_up and (norm_up or scale_down)) or scale_floor or steep:
        return lines[-1]
    return ""


def _falls(values: Sequence[float]) -> bool:
    return all(later <= sooner for sooner, later in pairwise(values)) and values[-1] < values[0]


def _series(pattern: re.Pattern[str], lines: Sequence[str]) -> list[float]:
    found = (pattern.search(line) for line in lines)
    return [float(one[1]) for one in found if one is not None]
