"""Unnamed bars of tqdm, as Hugging Face prints them: which ones are training.

`36%|███▌ | 1860/5155 [04:48<02:46, 4.15it/s]` may as well be an evaluation, which the same
`Trainer` prints in the same way. Only its maximum tells them apart: it is the run's final step, or
it stands beside losses of training and not beside those of an evaluation.
"""

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

from watchkeeper.domain.reading.progress.lines import LINE_MAX, Line, read_line
from watchkeeper.domain.values.basic import Step
from watchkeeper.domain.values.earlier import Earlier

NO_BARS: frozenset[Step] = frozenset()
"""No bare bar is taken for training."""

_BARE = re.compile(
    r"(?:\d{4}-[\dTZ:.,+\- ]{6,40}\s)?\s*(?:(?:\([^()|]{0,200}\)|\[[^\[\]|]{0,200}\])\s*)*"
    r"\d{1,3}%\|[^|]*\|\s*(?P<step>\d{1,15})/(?P<maximum>\d{1,15})"
    r"\s+\[[^\[\]]{1,80}?(?P<rate>\d+(?:\.\d+)?|\?)(?P<unit>it/s|s/it)\]\s*$"
)
"""Nothing but the bar: a process's name or a time may stand before it, and no postfix behind it.
Downloads count bytes, data sets examples; both name themselves as well."""

_CURSOR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
"""What tqdm writes to draw a bar below another one."""


@lru_cache(maxsize=8)
def bare_maxima(
    lines: tuple[str, ...], final: Step | None, shown: Step | None = None
) -> frozenset[Step]:
    """Return the maxima by which bare bars of a tail are known to be training's; at most two.

    Args:
        lines: A log's tail, oldest first.
        final: The run's final step; none where nobody says.
        shown: The maximum that training showed in an earlier tail; none where it showed none.

    Returns:
        The maxima that are the final step, counted from 1 or from 0. Where none is: the one that
        stands beside Hugging Face's loss lines and beside no line of an evaluation. Where none
        does: the one that was shown before. Where several stand beside losses none is taken by
        them: a bar that may be another one's is no step.
    """
    whole = "\n".join(lines)
    # One character is looked for ten times as fast as two.
    if "%" not in whole or "%|" not in whole:
        return NO_BARS
    bars = [(step, top) for step, top in map(_bar, _pieces(lines)) if top]
    fit = {top for _, top in bars if final is not None and top in (final, final - 1)}
    if fit or not bars:
        return frozenset(fit)
    # Fast bars push the losses out of a tail, so what was told of them is remembered.
    return _beside_losses(lines) or frozenset(top for _, top in bars if top == shown)


def bars_of(past: Earlier, instance: str, lines: tuple[str, ...]) -> frozenset[Step]:
    """Return the maxima by which bare bars of an instance's output are training's.

    Args:
        past: What the run's earlier checks showed.
        instance: The name of the instance that is looked at.
        lines: The tail of its output.
    """
    last = past.last
    same = last is not None and last.instance == instance
    shown = last.maximum_shown if last is not None and same else None
    return bare_maxima(lines, past.contract.final_step.known, shown)


def read_bare(line: str, maxima: frozenset[Step]) -> Line | None:
    """Read the newest bare bar of a line whose maximum is one of training's; none without one."""
    if not maxima or "%|" not in line:
        return None
    for piece in reversed(tuple(_pieces((line,)))):
        found = _BARE.match(piece) if "%|" in piece else None
        if found is not None and int(found["maximum"]) in maxima:
            return Line(
                format="tqdm",
                phase="training",
                step=int(found["step"]),
                maximum=int(found["maximum"]),
                maximum_exact=True,
                rate=_rate(found),
            )
    return None


def read_in(line: str, maxima: frozenset[Step]) -> Line | None:
    """Read a line as `read_line` does, and a bare bar that its tail says is training's.

    Args:
        line: One line of a tail.
        maxima: Of that tail; see `bare_maxima`.
    """
    shown = read_line(line)
    if shown is not None and shown.step is not None:
        return shown
    return read_bare(line, maxima) or shown


def is_loss_alone(shown: Line | None) -> bool:
    """Say whether a line shows a loss of training and no step: it trains, and not how far.

    A line of a loss and nothing else may as well be an evaluation's, so it proves nothing.
    """
    alone = shown is not None and shown.phase == "training" and shown.step is None
    return alone and shown is not None and shown.format != "key_value"


def _beside_losses(lines: tuple[str, ...]) -> frozenset[Step]:
    near: set[Step] = set()
    evaluated: set[Step] = set()
    step = top = 0
    awaits = False
    for piece in _pieces(lines):
        newer = _bar(piece)
        if newer[1]:
            step, top = newer
            if awaits:
                near.add(top)
            awaits = False
        elif "{'" in piece and (said := read_line(piece)) and said.format == "hugging_face":
            if said.phase == "evaluation":
                evaluated.add(top)
            elif step < top:
                near.add(top)
            else:
                awaits = True  # A full bar may be an evaluation's that has just ended.
    near -= evaluated
    return frozenset(near) if len(near) == 1 else NO_BARS


def _pieces(lines: Iterable[str]) -> Iterator[str]:
    """Return the updates that overwrite each other, each on its own, oldest first."""
    for line in lines:
        text = line[-LINE_MAX:].replace("\0", "")
        if "\x1b" in text:
            text = _CURSOR.sub("", text)
        if "\r" in text:
            yield from text.split("\r")
        else:
            yield text


def _bar(piece: str) -> tuple[Step, Step]:
    """Return the step and the maximum of a bare bar; zeros where it is none."""
    found = _BARE.match(piece) if "%|" in piece else None
    return (int(found["step"]), int(found["maximum"])) if found is not None else (0, 0)


def _rate(found: re.Match[str]) -> float | None:
    value = 0.0 if found["rate"] == "?" else float(found["rate"])
    if not value:
        return None
    return value if found["unit"] == "it/s" else 1.0 / value
