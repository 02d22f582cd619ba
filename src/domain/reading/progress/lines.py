"""Reads one line of a training log, in the formats of training frameworks.

It reads Levanter and tqdm bars, Megatron and NeMo, DeepSpeed, Hugging Face's dictionaries,
Lightning, plain `key=value`, JSON lines, and `framework_lines`. A bar of an evaluation or a
download is
not progress.
"""

import re
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal, cast

from watchkeeper.domain.reading.progress.epoch_counts import epoch_count, keras_count
from watchkeeper.domain.reading.progress.framework_lines import (
    FrameworkLine,
    framework_line,
    is_evaluation,
)
from watchkeeper.domain.reading.progress.numbers import (
    NUMBER,
    SHOWN,
    Count,
    count_of,
    float_of,
    int_of,
    loss_of,
    maximum_of,
    number_of,
    rate_of,
    shown_count,
    slack_of,
)
from watchkeeper.domain.reading.progress.plain_forms import (
    EVALUATION,
    NOT_A_STEP,
    TOTAL_STEP,
    epoch_shown,
    key_value,
    loss_alone,
)
from watchkeeper.domain.values.json_text import parse_json

Phase = Literal["", "not_started", "training", "evaluation"]

_COUNT = r"(?P<{0}>\d{{1,15}}(?:\.\d{{1,6}})?)(?P<{0}_scale>[kKMG]?)(?:it|steps?)?"

_LEVANTER = re.compile(r"\bProgress on:(?P<what>\S+)\s+(?P<counts>\S+)")
_BAR = re.compile(
    r"(?P<what>(?:^|[\w\])])[^|%]{0,120}?)\s*(?:\d{1,3}%)?\|[^|]*\|\s*(?P<counts>\S+)"
)
_COUNTS = re.compile(_COUNT.format("step") + r"/(?:" + _COUNT.format("maximum") + r"|\?|\S+?)$")
_UNSTARTED = re.compile(r"-/" + _COUNT.format("maximum") + "$")
_TRAINING_BAR = re.compile(
    r"(?:^|\s)(?:train|training|train(?:ing)? steps?|steps?|iterations?|(?:train(?:ing)? )?epoch"
    r"(?:\s+\[?\d+(?:/\d+)?\]?)?)\s*:?\s*:?$",
    re.IGNORECASE,
)
_WORD = re.compile(r"[A-Za-z][A-Za-z ]*:?$")
_EPOCH = re.compile(r"\bepoch\s*[:=]?\s*\[?(?P<epoch>\d{1,9})(?P<of>/\d+)?\b", re.IGNORECASE)
_GLOBAL_STEP = re.compile(r"\bglobal_step[=:]\s*(?P<step>" + SHOWN + ")")
_ITERATION = re.compile(
    r"(?:^|[\s\]])iteration\s+(?P<step>" + SHOWN + r")\s*/\s*(?P<maximum>" + SHOWN + ")",
    re.IGNORECASE,
)
_HELD_STEP = re.compile(r"'(?:global_|train_)?step':\s*+'?(?P<step>" + SHOWN + ")")
_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_JSON_STEPS = (
    *("step", "global_step", "_step", "iteration", "iter", "trainer/global_step", "train/step"),
    *("train/global_step", "current_steps", "steps", "train_step", "num_updates"),
)
_JSON_MAXIMA = ("max_steps", "total_steps", "num_train_steps", "max_iterations", "train_iters")
_JSON_LOSSES = (
    *("loss", "train/loss", "train_loss", "lm loss", "lm_loss", "reduced_train_loss"),
    *("training_loss", "training/loss", "train/lm_loss", "train/cross_entropy_loss"),
)

LINE_MAX = 10_000
"""How many characters of a line are read. No progress line is longer."""


@dataclass(frozen=True, slots=True)
class Line:
    """What one line says about progress; a field is `None` if the line lacks it.

    Attributes:
        format: The shape that was recognised, such as `levanter`.
        phase: What the line is about; empty if it is not about training.
        step: The step shown; for a rounded number, the middle of its range.
        uncertainty: How far the true step may lie from it, either way.
        maximum: The maximum shown. It is what a bar shows, never proof of the final step.
        maximum_exact: Whether it was printed in full.
        loss: May be NaN or infinite.
        loss_slack: Half of the loss's last printed digit.
        rate: Steps per second.
        epoch: The epoch as printed, such as 3 or 1.25.
        epochs: How many epochs are shown to come in all.
        in_epoch: Whether `step` and `maximum` restart with each epoch.
        epochs_done: Epochs before this one, if `in_epoch`; `None` if that is not shown.
    """

    format: str
    phase: Phase
    step: int | None = None
    uncertainty: int = 0
    maximum: int | None = None
    maximum_exact: bool = False
    loss: float | None = None
    loss_slack: float = 0.0
    rate: float | None = None
    epoch: float | None = None
    epochs: int | None = None
    in_epoch: bool = False
    epochs_done: int | None = None


@lru_cache(maxsize=1_024)
def read_line(line: str) -> Line | None:
    """Read one line of a training log.

    Args:
        line: Without its end. Of several bar updates, separated by carriage returns, the newest
            counts.

    Returns:
        None if the line says nothing about progress.
    """
    shown = _read(line)
    if shown is None or shown.step is None or shown.maximum is None or not shown.maximum_exact:
        return shown
    if shown.step - shown.uncertainty <= shown.maximum:
        return shown
    # A maximum below the step belongs to something else, such as an epoch.
    return replace(shown, maximum=None, maximum_exact=False)


def _read(line: str) -> Line | None:
    text = line[-LINE_MAX:].replace("\0", "")
    if "\r" in text:
        text = text.rstrip("\r").rpartition("\r")[2]
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    if "Progress on:" in text:
        return _levanter(text)
    if own := framework_line(text):
        return _of_own_form(own)
    if "%|" in text and (found := _bar(text)):
        return found
    lower = text.lower()
    if "/" in text and (found := _in_epoch(text, lower)):
        return found
    if "iteration" in lower and (found := _megatron(text)):
        return found
    if "{" in text and (found := _dictionary(text)):
        return found
    named = "step" in lower or "iter" in lower or "updates" in lower or "batch" in lower
    plain = key_value(text) if named else None
    if plain is None and "loss" in lower:
        plain = loss_alone(text)
    return None if plain is None else _of_own_form(plain)


def _of_own_form(own: FrameworkLine) -> Line:
    shown = (own.format, own.phase, own.step, own.uncertainty, own.maximum)
    return Line(*shown, own.maximum_exact, own.loss, own.slack, own.rate, own.epoch)


def _in_epoch(text: str, lower: str) -> Line | None:
    """Read a step that restarts with each epoch; see `epoch_counts`."""
    counted = epoch_count(text) if "epoch" in lower or "Train:" in text else None
    name = "key_value"
    if counted is None:
        counted, name = keras_count(text), "keras"
    if counted is None or TOTAL_STEP.search(text) or NOT_A_STEP.search(text):
        return None
    loss, slack = loss_of(text, counted.end)
    before = EVALUATION.search(text[: counted.begin])
    if before or (loss is None and EVALUATION.search(text)):
        return Line(name, "evaluation")
    return Line(
        format=name,
        phase="training",
        step=counted.step.value,
        uncertainty=counted.step.uncertainty,
        maximum=counted.maximum.value,
        maximum_exact=counted.maximum.exact,
        loss=loss,
        loss_slack=slack,
        rate=rate_of(text, counted.end),
        epoch=counted.epoch,
        epochs=counted.epochs,
        in_epoch=True,
        epochs_done=counted.done,
    )


def in_epoch_of(shown: Line, header: tuple[int, int] | None) -> Line:
    """Add the epoch of an earlier line to a bar without one, as Keras prints them.

    Args:
        shown: The bar.
        header: The epoch's number, from 1, and how many there are; see `epoch_header`.
    """
    if header is None or not shown.in_epoch or shown.epoch is not None:
        return shown
    return replace(shown, epoch=header[0], epochs=header[1], epochs_done=max(header[0] - 1, 0))


def _levanter(text: str) -> Line | None:
    found = _LEVANTER.search(text)
    if found is None:
        return None
    if (what := found["what"]) != "train":
        return Line("levanter", "evaluation") if EVALUATION.match(what) else None
    if unstarted := _UNSTARTED.match(found["counts"]):
        return Line("levanter", "not_started", None, 0, *maximum_of(*unstarted.groups("")))
    return _counted(text, "levanter", found["counts"], found.end())


def _bar(text: str) -> Line | None:
    found = _BAR.search(text)
    if found is None:
        return None
    what = found["what"].strip()
    if EVALUATION.search(what.rpartition("]")[2]):
        return Line("tqdm", "evaluation")
    training = _TRAINING_BAR.search(what)
    after = text[found.end() :]
    # A bar without a label may be anything. A bar with a loss belongs to training.
    if training is None and (_WORD.search(what) or loss_of(after)[0] is None):
        return None
    made = _counted(text, "tqdm", found["counts"], found.end())
    epoch = _EPOCH.search(what)
    if made is None or epoch is None:
        return made
    printed = _GLOBAL_STEP.search(after)
    number, of = int(epoch["epoch"]), epoch["of"]
    made = replace(made, format="lightning", epoch=number)
    if printed is not None:
        # The bar's own numbers belong to the epoch. This number belongs to the run.
        known = shown_count(printed["step"])
        if known is None:
            return None
        step, slack = known.value, known.uncertainty
        return replace(made, step=step, uncertainty=slack, maximum=None, maximum_exact=False)
    # `Epoch 1/3` counts from 1, Lightning's own `Epoch 0` from 0.
    done = max(number - 1, 0) if of else number
    epochs = int(of[1:]) if of else None
    return replace(made, in_epoch=True, epochs_done=done, epochs=epochs)


def _counted(text: str, name: str, counts: str, end: int) -> Line | None:
    found = _COUNTS.match(counts)
    if found is None:
        return None
    step, uncertainty = count_of(found["step"], found["step_scale"])
    top = found["maximum"]
    maximum, exact = maximum_of(top, found["maximum_scale"]) if top else (None, False)
    loss, slack = loss_of(text, end)
    return Line(
        format=name,
        phase="training",
        step=step,
        uncertainty=uncertainty,
        maximum=maximum,
        maximum_exact=exact,
        loss=loss,
        loss_slack=slack,
        rate=rate_of(text, end),
    )


def _megatron(text: str) -> Line | None:
    found = _ITERATION.search(text)
    if "|" not in text:
        return None
    if found is None:
        evaluated = "loss at iteration" in text and EVALUATION.search(text)
        return Line("megatron", "evaluation") if evaluated else None
    if EVALUATION.search(text[: found.start()]):
        return Line("megatron", "evaluation")
    step, top = shown_count(found["step"]), shown_count(found["maximum"])
    printed = _GLOBAL_STEP.search(text, found.end()) if "global_step" in text else None
    maximum = top
    if printed is not None:
        known = shown_count(printed["step"])
        # An iteration that is not the run's step belongs to an epoch, as does its maximum.
        maximum = top if step is not None and known is not None and _agree(step, known) else None
        step = known
    if step is None or top is None:
        return None
    loss, slack = loss_of(text, found.end())
    return Line(
        format="nemo" if printed is not None else "megatron",
        phase="training",
        step=step.value,
        uncertainty=step.uncertainty,
        maximum=maximum.value if maximum is not None else None,
        maximum_exact=maximum is not None and maximum.exact,
        loss=loss,
        loss_slack=slack,
        rate=rate_of(text, found.end()),
        epoch=epoch_shown(text),
    )


def _agree(one: Count, other: Count) -> bool:
    """Return whether two counts mean the same; one may start at 0, the other at 1."""
    return abs(one.value - other.value) <= one.uncertainty + other.uncertainty + 1


def _dictionary(text: str) -> Line | None:
    start = text.find("{")
    body = text[start : text.rfind("}") + 1]
    if not body:
        return None
    if is_evaluation(text[:start]):
        return Line("hugging_face" if body.startswith("{'") else "json", "evaluation")
    if body.startswith("{'"):
        return _hugging_face(body)
    try:
        held: object = parse_json(body)
    except ValueError:
        return None
    if not isinstance(held, dict):
        return None
    values = cast("dict[str, object]", held)
    step = next(
        (found for key in _JSON_STEPS if (found := int_of(values.get(key))) is not None), None
    )
    if step is None:
        return None
    loss_key = next((key for key in _JSON_LOSSES if key in values), "")
    loss = float_of(values.get(loss_key))
    evaluated = any(EVALUATION.match(key) for key in values)
    if loss is None and evaluated:
        return Line("json", "evaluation", step=step.value, uncertainty=step.uncertainty)
    maximum = next((m for key in _JSON_MAXIMA if (m := int_of(values.get(key))) is not None), None)
    return Line(
        format="json",
        phase="training",
        step=step.value,
        uncertainty=step.uncertainty,
        maximum=maximum.value if maximum is not None else None,
        maximum_exact=maximum is not None and maximum.exact,
        loss=loss,
        epoch=float_of(values.get("epoch")),
    )


def _hugging_face(body: str) -> Line | None:
    if ("'eval_" in body and "'loss'" not in body) or body.startswith("{'eval': {"):
        return Line("hugging_face", "evaluation")
    found = re.search(r"'loss':\s*'?(?P<loss>" + NUMBER + r")", body, re.IGNORECASE)
    if found is None or "'train_runtime'" in body:
        return None
    named = _HELD_STEP.search(body)
    step = shown_count(named["step"]) if named else None
    return Line(
        format="hugging_face",
        phase="training",
        step=step.value if step else None,
        uncertainty=step.uncertainty if step else 0,
        loss=number_of(found["loss"]),
        loss_slack=slack_of(found["loss"]),
        epoch=epoch_shown(body),
    )
