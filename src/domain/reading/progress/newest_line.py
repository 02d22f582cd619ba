"""The newest step, loss and epoch from several lines of a training log."""

import re
from dataclasses import replace

from watchkeeper.domain.reading.progress.bare_bars import is_loss_alone, read_bare, read_line_or_bar
from watchkeeper.domain.reading.progress.epoch_counts import epoch_header
from watchkeeper.domain.reading.progress.framework_lines import BLOCKS
from watchkeeper.domain.reading.progress.lines import Line, in_epoch_of, read_line
from watchkeeper.domain.reading.progress.progress import progress_of

_HEADS_EVALUATION = re.compile(
    r"(?<![\w./-])(?:eval\w*|valid\w*|val|test(?:ing)?|sanity checking|predict\w*)(?![/-]|\.\w)",
    re.IGNORECASE,
)
_IS_OVER = re.compile(
    r"\b(?:done|end(?:ed|s)?|finish\w*|complet\w*|over|took|skip\w*|resum\w*|continu\w*|next)\b",
    re.IGNORECASE,
)
"""Words which show that an evaluation is over or has not begun."""


def newest_line(text: str, bars: frozenset[int]) -> Line | None:
    """Return the newest line that shows progress; training lines come first.

    For a loss without a step, a bare bar of the same text gives the step. So do the first lines of
    a block, if the framework prints blocks.

    Args:
        text: One line or several.
        bars: The maxima of the training bars without a label.
    """
    found: Line | None = None
    plain: Line | None = None
    header: int | None = None
    lines = text.splitlines() or [text]
    for at, line in reversed(tuple(enumerate(lines))):
        shown = read_line_or_bar(line, bars)
        if shown is not None and shown.phase == "training":
            if shown.step is None and shown.format == "key_value":
                # The line has only a loss. The step may be on another line.
                if plain is None and (header is None or at < header):
                    header = _header_above(lines, at, bars)
                    if header is None:
                        plain = shown
                    else:
                        found = found or Line("key_value", "evaluation")
                continue
            if is_loss_alone(shown):
                return _with_step(shown, lines[:at], text, bars)
            if shown.loss is None and read_bare(line, bars) is not None:
                shown = _with_loss_above(shown, lines[:at])
            if shown.loss is None and plain is not None:
                shown = replace(shown, loss=plain.loss, loss_slack=plain.loss_slack)
            above = (epoch_header(one) for one in reversed(lines[:at]))
            return in_epoch_of(shown, next((one for one in above if one is not None), None))
        found = found or shown
    return plain or found


def _header_above(lines: list[str], below: int, bars: frozenset[int]) -> int | None:
    """Return the place of an evaluation's header right above losses, or `None`."""
    for at in reversed(range(below)):
        shown = read_line_or_bar(lines[at], bars)
        if shown is not None and shown.phase == "training":
            if shown.step is None and shown.format == "key_value":
                continue
            return None
        if lines[at].strip():
            return at if _heads_evaluation(lines[at]) else None
    return None


def _heads_evaluation(line: str) -> bool:
    """Return whether a line is the header of an evaluation; a line with a loss is not."""
    if "loss" in line.lower() or _HEADS_EVALUATION.search(line) is None:
        return False
    return _IS_OVER.search(line) is None


def _with_step(loss: Line, above: list[str], text: str, bars: frozenset[int]) -> Line:
    if loss.format in BLOCKS:
        lines_read = (read_line(line) for line in reversed(above))
        steps = [one for one in lines_read if one is not None and progress_of(one) is not None]
        # Composer's count has no maximum. The first line of the block may have one.
        whole = (one for one in steps if one.maximum is not None and not one.in_epoch)
        step = next(whole, steps[0] if steps else None)
        return loss if step is None else _with_loss(step, loss)
    lines = (read_bare(line, bars) for line in reversed(text.splitlines()))
    bar = next((line for line in lines if line is not None), None)
    if bar is None:
        return loss
    return _with_loss(bar, loss)


def _with_loss(step: Line, loss: Line) -> Line:
    return replace(step, format=loss.format, loss=loss.loss, loss_slack=loss.loss_slack)


def _with_loss_above(bar: Line, above: list[str]) -> Line:
    """Add to a bare bar the loss that Hugging Face printed above it."""
    said = (read_line(one) for one in reversed(above) if "{'" in one)
    loss = next((one for one in said if one is not None and is_loss_alone(one)), None)
    return bar if loss is None else replace(bar, loss=loss.loss, loss_slack=loss.loss_slack)
