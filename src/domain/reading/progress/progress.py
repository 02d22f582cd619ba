"""Reads training progress and the start of training from a log.

A progress bar is made for people. From 1,000 on it shows three digits, so its step has an
uncertainty. A rounded maximum is never used as the final step.
"""

import re
from collections.abc import Iterable, Sequence

from pydantic import NonNegativeInt

from watchkeeper.domain.reading.progress.bare_bars import NO_BARS, read_line_or_bar
from watchkeeper.domain.reading.progress.framework_lines import BLOCKS
from watchkeeper.domain.reading.progress.lines import Line, read_line
from watchkeeper.domain.values.basic import Step, Value

BLOCK_MAX = 60
"""How many lines a block may have. Composer writes some 30 values, OLMo some 20."""

_RESUMING = re.compile(r"\bResuming training from step:?\s+(?P<step>\d{1,15})\b")
_FROM_SCRATCH = re.compile(r"\bStarting from scratch\b")
_OUTPUT_PATH = re.compile(r"\bUsing output path:?\s+(?P<value>\S+)")
_RUN_ID = re.compile(r"\bUsing run ID:?\s+(?P<value>\S+)", re.IGNORECASE)
_LOADING = re.compile(r"\bLoading checkpoint from:?\s+(?P<value>\S+)")


class Progress(Value):
    """One progress line of the training loop.

    Attributes:
        step: The step shown; for a rounded number, the middle of its range.
        uncertainty: How far the true step may lie from it, in steps, either way.
        maximum: The maximum shown, if it is not rounded. A bar's maximum never proves the final
            step.
        loss: The loss on the same line; may be NaN or infinite.
    """

    step: Step
    uncertainty: NonNegativeInt = 0
    maximum: Step | None = None
    loss: float | None = None


class StartupProof(Value):
    """What a job's log says about how training began.

    A log may hold several starts, and several processes may write it. Each claim is kept
    separately, so that the rules see a conflict of `from_scratch` and `resumed_step`.

    Attributes:
        run_id: The newest run id named.
        output_path: The newest output path named.
        checkpoint: The checkpoint named last as loaded.
        resumed_step: The newest step that training resumed from.
        from_scratch: Whether any start said that it begins without a checkpoint.
    """

    run_id: str | None = None
    output_path: str | None = None
    checkpoint: str | None = None
    resumed_step: Step | None = None
    from_scratch: bool = False


def parse_progress(line: str, bars: frozenset[Step] = NO_BARS) -> Progress | None:
    """Read a progress line of the training loop; see `lines` for the shapes.

    Args:
        line: One line of a log.
        bars: The maxima of the training bars without a label; see `bare_bars`.

    Returns:
        `None` for any other line, such as other bars, and `-/2384` before the first step.
    """
    shown = read_line_or_bar(line, bars)
    return None if shown is None else progress_of(shown)


def progress_of(shown: Line) -> Progress | None:
    """Return the progress that a line shows; `None` without a training step."""
    if shown.phase != "training" or shown.step is None:
        return None
    step, maximum = shown.step, shown.maximum if shown.maximum_exact else None
    if shown.in_epoch and shown.epochs_done is None:
        return None
    if shown.epochs_done:
        # A bar that restarts with each epoch gives the step only if its length is exact.
        if maximum is None:
            return None
        step, maximum = shown.epochs_done * maximum + step, None
    if shown.in_epoch and (shown.epochs or 1) > 1:
        maximum = None
    return Progress(step=step, uncertainty=shown.uncertainty, maximum=maximum, loss=shown.loss)


def progress_at(lines: Sequence[str], place: int) -> Progress | None:
    """Read a progress line of a log; the step of a loss may be above it in its block.

    Args:
        lines: A log's tail, oldest first.
        place: Index of the line to read.
    """
    shown = parse_progress(lines[place])
    alone = read_line(lines[place]) if shown is None else None
    if alone is None or alone.format not in BLOCKS or alone.loss is None:
        return shown
    above = map(parse_progress, reversed(lines[max(place - BLOCK_MAX, 0) : place]))
    step = next((one for one in above if one is not None), None)
    return None if step is None else step.model_copy(update={"loss": alone.loss})


def parse_startup(lines: Iterable[str]) -> StartupProof:
    """Read how training began from the lines of a log, oldest first."""
    run_id = output_path = checkpoint = None
    resumed_step = None
    from_scratch = False
    for line in lines:
        # Searching plain words first costs a tenth: most of a tail's 200 lines are about something
        # else.
        if "sing run" in line.lower() and (found := _RUN_ID.search(line)):
            run_id = _unquoted(found["value"])
        if "output path" in line and (found := _OUTPUT_PATH.search(line)):
            output_path = _unquoted(found["value"])
        if "checkpoint from" in line and (found := _LOADING.search(line)):
            checkpoint = _unquoted(found["value"])
        if "Resuming" in line and (found := _RESUMING.search(line)):
            resumed_step = int(found["step"])
        if "scratch" in line and _FROM_SCRATCH.search(line):
            from_scratch = True
    return StartupProof(
        run_id=run_id,
        output_path=output_path,
        checkpoint=checkpoint,
        resumed_step=resumed_step,
        from_scratch=from_scratch,
    )


def _unquoted(value: str) -> str:
    return value.strip("'\"`,;")
