"""Output lines that show a NaN or infinite loss or gradient norm."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from watchkeeper.domain.reading.nonfinite_sentences import says_no_number
from watchkeeper.domain.reading.progress.bare_bars import bars_of, read_line_or_bar
from watchkeeper.domain.reading.progress.framework_lines import is_evaluation
from watchkeeper.domain.reading.progress.lines import Line
from watchkeeper.domain.reading.progress.numbers import NUMBER, number_of
from watchkeeper.domain.reading.progress.progress import progress_of
from watchkeeper.domain.values.causes import CauseClaim
from watchkeeper.domain.values.earlier import Earlier
from watchkeeper.domain.values.instance import Instance
from watchkeeper.domain.values.observation.measured import FINITE_AGAIN, Measured, NotFinite
from watchkeeper.domain.values.observation.observation import Observation

_SAID = "said"
"""The format name of a line that says in words that the loss is NaN or infinite."""

_NAN_COUNTER = "nan iterations"
"""Label of a counter in each progress line of Megatron-LM. It does not describe the line's loss."""

_GRAD_NORM = re.compile(
    r"\bgrad(?:ient)?[ _]?norm['\"]?\s*[:=]\s*['\"]?(?P<value>" + NUMBER + r")", re.IGNORECASE
)
_NO_NUMBER = re.compile(
    r"(?<![\w./-])(?:train(?:ing)?[ _/.-])?loss['\"]?\s*[:=]\s*['\"]?[-+]?nan\b", re.IGNORECASE
)
"""A NaN or infinite loss in a line that shows no other progress, such as `train_loss: NaN`."""

_PERPLEXITY = re.compile(r"(?<![a-z])(?:ppl|perplexity)[\"']?\s{0,4}[:=]\s{0,4}\W?inf", re.I)
_NON_FINITE_WORD = re.compile(r"(?<![a-z])(?:nan|inf|infinity)(?![a-z])", re.I)

_SCALED = re.compile(
    r"loss[ _]scale['\"]?\s*[:=]\s*(?!1(?:\.0*)?(?:e[+-]?0+)?\b)\d|\boverflow\b"
    r"|skipped iterations:\s*[1-9]"
)
"""Matches an active loss scale, an overflow or a skipped step. Megatron-LM prints 1.0 without a
scale."""


@dataclass(frozen=True, slots=True)
class _Reached:
    """How far a run is, according to other sources than its current output.

    Attributes:
        best: The highest step that was known before this check.
        tracker: The step that the tracker shows now; 0 without one.
    """

    best: int
    tracker: int


def bad_lines(
    past: Earlier,
    instance: Instance,
    seen: Observation,
    known: Mapping[str, tuple[int, ...]],
    last: Measured | None,
) -> tuple[NotFinite, ...]:
    """Return the NaN and infinite values that the output shows and the tracker lacks.

    A line without a step, as Hugging Face prints losses, belongs to the newest step above it.

    Args:
        past: What the run's earlier checks showed.
        instance: The checked instance.
        seen: The observation.
        known: The steps at which the tracker shows such values, by role.
        last: What was measured before in this stretch of training.
    """
    before = _before(past, instance)
    # Plain words are searched first. A regular expression over a tail takes a tenth of a check's
    # time.
    whole = "\n".join(seen.log_lines).lower()
    harmless = (("nan", _NAN_COUNTER), ("inf", "info"), ("finite", "definite"))
    clean = all(
        word not in whole or whole.count(word) == whole.count(around) for word, around in harmless
    )
    if clean and not before:
        return ()
    shown = _shown(past, instance, seen, before)
    losses = [(step, line.loss) for step, line, _ in shown]
    alone = all(line.step is None for _, line, _ in shown)
    reached = _Reached(
        best=instance.step_best or 0,
        tracker=(seen.tracker.step if seen.tracker is not None else None) or 0,
    )
    loss = _bad("loss", losses, last) or _still(before.get("loss"), losses, reached, alone=alone)
    # In float16 gradients overflow now and then, and the step is skipped.
    scaled = loss is None and _SCALED.search(whole) is not None
    norms = [] if scaled else [(step, norm) for step, _, norm in shown]
    norm = _bad("grad_norm", norms, last)
    if norm is None and not scaled:
        norm = _still(before.get("grad_norm"), norms, reached, alone=alone)
    found = (loss, norm)
    return tuple(one for one in found if one is not None and one.metric not in known)


def _before(past: Earlier, instance: Instance) -> dict[str, NotFinite]:
    """Return ongoing NaN or infinite values that the output showed up to the last check."""
    last = past.last
    if last is None or last.instance != instance.plan.instance:
        return {}
    from_lines = (one for one in last.measured.not_finite if one.line)
    return {one.metric: one for one in from_lines if one.finite_since < FINITE_AGAIN}


def _still(
    known: NotFinite | None,
    values: list[tuple[int, float | None]],
    reached: _Reached,
    *,
    alone: bool,
) -> NotFinite | None:
    """Return a bad value whose line has left the tail, with more finite values counted.

    Args:
        known: The bad value of the last check; `None` without one.
        values: The steps and numbers of the tail, all finite.
        reached: How far the run is by other sources.
        alone: No number has a step of its own, so it is unknown which are new.
    """
    steps = [step for step, value in values if value is not None]
    if known is None or (steps and _trained_again(known, steps[-1], reached)):
        return None
    newer = sum(1 for step in steps if step > reached.best)
    since = known.finite_since + (newer or int(alone and bool(steps)))
    return known.model_copy(update={"new": 0, "finite_since": max(since, len(steps))})


def _trained_again(known: NotFinite, newest: int, reached: _Reached) -> bool:
    """Return whether training went back to before a step with a NaN or infinite value.

    A sentence may name a step that the run has not reached, because it may count differently. In
    that case training went back only if its steps fall behind the run's known steps. The tracker
    may be ahead of the output.
    """
    if known.first_step <= reached.best:
        return newest < known.first_step
    return max(newest, reached.tracker) < reached.best


def _shown(
    past: Earlier, instance: Instance, seen: Observation, before: Mapping[str, NotFinite]
) -> list[tuple[int, Line, float | None]]:
    """Return the lines of training with their step and gradient norm, oldest first."""
    bars = bars_of(past, instance.plan.instance, seen.log_lines)
    own = instance.plan.resume_step or 0
    read = [(text, line) for text in seen.log_lines if (line := _line(text, bars)) is not None]
    newest = _begins_at([line for _, line in read], max(own, instance.step_best or 0), before)
    found: list[tuple[int, Line, float | None]] = []
    for text, line in read:
        progress = progress_of(line)
        if progress is not None:
            # A sentence may count steps from the start of the epoch, so a lower step is still
            # current.
            newest = max(newest, progress.step) if line.format == _SAID else progress.step
        if newest >= own and "loss" in text.lower():
            found.append((newest, line, _grad_norm(text)))
    return found


def _line(text: str, bars: frozenset[int]) -> Line | None:
    """Return what a line says about training; `None` for any other line."""
    line = read_line_or_bar(text, bars)
    if line is None or line.loss is None:
        line = _said(text, line) or line or _bare(text)
    return line if line is not None and line.phase == "training" else None


def _begins_at(lines: list[Line], best: int, before: Mapping[str, NotFinite]) -> int:
    """Return the step of a tail's first lines if they show no step.

    The result is the newest known step. If the tail's next step is older, the result is at most
    this older step. Its lines were printed before the last check and are not new.
    """
    shown = (progress_of(line) for line in lines)
    first = next((one.step for one in shown if one is not None), None)
    if first is None or first > best:
        return best
    return min([first, *(one.last_step for one in before.values())])


def _said(text: str, shown: Line | None) -> Line | None:
    """Return a training line whose words say that the loss is not finite, or `None`."""
    lower = text.lower()
    if "loss" not in lower or not any(word in lower for word in ("nan", "inf", "finite", "not a")):
        return None
    said, step = says_no_number(text)
    if not said or (shown is not None and shown.phase == "evaluation"):
        return None
    if step is None and shown is not None and shown.step is not None:
        return replace(shown, loss=math.nan)
    return Line(_SAID, "training", step=step, loss=math.nan)


def _bare(text: str) -> Line | None:
    found = _NO_NUMBER.search(text)
    if found is None or is_evaluation(text[: found.start()]):
        return None
    return Line("bare", "training", loss=math.nan)


def _grad_norm(text: str) -> float | None:
    found = _GRAD_NORM.search(text)
    return number_of(found["value"]) if found is not None else None


def _bad(
    metric: str, values: list[tuple[int, float | None]], last: Measured | None
) -> NotFinite | None:
    numbers = [(step, value) for step, value in values if value is not None]
    bad = [at for at, (_, value) in enumerate(numbers) if not math.isfinite(value)]
    if not bad:
        return None
    steps = [numbers[at][0] for at in bad]
    before = last.not_finite if last is not None else ()
    until = max((one.last_step for one in before if one.line and one.metric == metric), default=-1)
    return NotFinite(
        metric=metric,
        count=len(bad),
        first_step=steps[0],
        last_step=steps[-1],
        new=sum(1 for step in steps if step > until),
        finite_since=len(numbers) - 1 - bad[-1],
        line=True,
    )


def shows_infinite_perplexity(claim: CauseClaim) -> bool:
    """Return whether the only non-finite number of a line is a perplexity, the exp() of a loss."""
    return (
        _PERPLEXITY.search(claim.line) is not None
        and len(_NON_FINITE_WORD.findall(claim.line)) <= 1
    )
