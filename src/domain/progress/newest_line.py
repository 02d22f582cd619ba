"""What several lines of a training log say together: the newest step, its loss, its epoch."""

from dataclasses import replace

from watchkeeper.domain.progress.bare_bars import is_loss_alone, read_bare, read_in
from watchkeeper.domain.progress.epoch_counts import epoch_header
from watchkeeper.domain.progress.lines import Line, in_epoch_of, read_line
from watchkeeper.domain.progress.own_forms import BLOCKS
from watchkeeper.domain.progress.progress import progress_of


def newest_line(text: str, bars: frozenset[int]) -> Line | None:
    """Return what the newest line says that says something; training comes before the rest.

    Beside a loss without a step, a bare bar of the same text tells the step, and the first lines of
    its block where a framework prints one.

    Args:
        text: One line or several.
        bars: Maxima of the bare bars that are training's.
    """
    found: Line | None = None
    plain: Line | None = None
    lines = text.splitlines() or [text]
    for at, line in reversed(tuple(enumerate(lines))):
        shown = read_in(line, bars)
        if shown is not None and shown.phase == "training":
            if shown.step is None and shown.format == "key_value":
                # A loss and nothing else: the step stands elsewhere, if anywhere.
                plain = plain or shown
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


def _with_step(loss: Line, above: list[str], text: str, bars: frozenset[int]) -> Line:
    if loss.format in BLOCKS:
        told = (read_line(line) for line in reversed(above))
        steps = [one for one in told if one is not None and progress_of(one) is not None]
        # Composer's own count has no maximum; the block's first line may have.
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
