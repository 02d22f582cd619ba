"""Finds the training bars among tqdm bars that have no label.

Hugging Face's `Trainer` prints such bars: `36%|███▌ | 1860/5155 [04:48<02:46, 4.15it/s]` may be
training or an evaluation. Only the maximum distinguishes them. A training bar's maximum is the
run's final step. Otherwise the bar appears next to training losses and not next to evaluation
losses.
"""

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

from watchkeeper.domain.reading.progress.lines import LINE_MAX, Line, read_line
from watchkeeper.domain.values.basic import Step
from watchkeeper.domain.values.earlier import Earlier

NO_BARS: frozenset[Step] = frozenset()
"""The empty result: no bare bar counts as training."""

_BARE = re.compile(
    r"(?:\d{4}-[\dTZ:.,+\- ]{6,40}\s)?\s*(?:(?:\([^()|]{0,200}\)|\[[^\[\]|]{0,200}\])\s*)*"
    r"\d{1,3}%\|[^|]*\|\s*(?P<step>\d{1,15})/(?P<maximum>\d{1,15})"
    r"\s+\[[^\[\]]{1,80}?(?P<rate>\d+(?:\.\d+)?|\?)(?P<unit>it/s|s/it)\]\s*$"
)
"""A bar without a label. A process name or a time may come before it, and nothing after it. Bars of
downloads and data sets have a label."""

_CURSOR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
"""Escape sequence that tqdm writes to draw a bar below another one."""


@lru_cache(maxsize=8)
def bare_maxima(
    lines: tuple[str, ...], final: Step | None, shown: Step | None = None
) -> frozenset[Step]:
    """Return the maxima of a tail's bare training bars; at most two.

    Args:
        lines: A log's tail, oldest first.
        final: The run's final step; `None` if unknown.
        shown: The maximum that training showed in an earlier tail; `None` without one.

    Returns:
        The maxima that are the final step, counted from 1 or from 0. Without these, the maximum
        next to Hugging Face's training losses and not next to an evaluation's line. Without one
        such maximum, the maximum that was shown before. If several are next to losses, the losses
        decide nothing, because a wrong bar gives a wrong step.
    """
    whole = "\n".join(lines)
    # A search for one character is ten times as fast as for two.
    if "%" not in whole or "%|" not in whole:
        return NO_BARS
    bars = [(step, top) for step, top in map(_bar, _pieces(lines)) if top]
    final_maxima = {top for _, top in bars if final is not None and top in (final, final - 1)}
    if final_maxima or not bars:
        return frozenset(final_maxima)
    # Fast bars push the losses out of the tail, so the earlier result is used.
    return _next_to_losses(lines) or frozenset(top for _, top in bars if top == shown)


def bars_of(past: Earlier, instance: str, lines: tuple[str, ...]) -> frozenset[Step]:
    """Return the maxima of the bare training bars in an instance's output.

    Args:
        past: What the run's earlier checks showed.
        instance: The name of the checked instance.
        lines: The tail of its output.
    """
    last = past.last
    same = last is not None and last.instance == instance
    shown = last.maximum_shown if last is not None and same else None
    return bare_maxima(lines, past.contract.final_step.known, shown)


def read_bare(line: str, maxima: frozenset[Step]) -> Line | None:
    """Read a line's newest bare training bar; `None` without one."""
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


def read_line_or_bar(line: str, maxima: frozenset[Step]) -> Line | None:
    """Read a line as `read_line` does, or read its bare training bar.

    Args:
        line: One line of a tail.
        maxima: The maxima of the tail's training bars; see `bare_maxima`.
    """
    shown = read_line(line)
    if shown is not None and shown.step is not None:
        return shown
    return read_bare(line, maxima) or shown


def is_loss_alone(shown: Line | None) -> bool:
    """Return whether a line shows a training loss without a step.

    A key-value line with only a loss may be from an evaluation, so it proves nothing.
    """
    alone = shown is not None and shown.phase == "training" and shown.step is None
    return alone and shown is not None and shown.format != "key_value"


def _next_to_losses(lines: tuple[str, ...]) -> frozenset[Step]:
    near: set[Step] = set()
    evaluated: set[Step] = set()
    step = top = 0
    after_full_bar = False
    for piece in _pieces(lines):
        newer = _bar(piece)
        if newer[1]:
            step, top = newer
            if after_full_bar:
                near.add(top)
            after_full_bar = False
        elif "{'" in piece and (said := read_line(piece)) and said.format == "hugging_face":
            if said.phase == "evaluation":
                evaluated.add(top)
            elif step < top:
                near.add(top)
            else:
                after_full_bar = True  # The bar may belong to an evaluation that has just ended.
    near -= evaluated
    return frozenset(near) if len(near) == 1 else NO_BARS


def _pieces(lines: Iterable[str]) -> Iterator[str]:
    """Yield each update of bars that overwrite each other, oldest first."""
    for line in lines:
        text = line[-LINE_MAX:].replace("\0", "")
        if "\x1b" in text:
            text = _CURSOR.sub("", text)
        if "\r" in text:
            yield from text.split("\r")
        else:
            yield text


def _bar(piece: str) -> tuple[Step, Step]:
    """Return the step and the maximum of a bare bar; zeros for any other text."""
    found = _BARE.match(piece) if "%|" in piece else None
    return (int(found["step"]), int(found["maximum"])) if found is not None else (0, 0)


def _rate(found: re.Match[str]) -> float | None:
    value = 0.0 if found["rate"] == "?" else float(found["rate"])
    if not value:
        return None
    return value if found["unit"] == "it/s" else 1.0 / value
