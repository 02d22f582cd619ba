"""Reads training lines that are known by their form, not by their words.

These are torchtune's `1|100|Loss: 2.3`, the lines of clu's writers and T5X (JAX), and litgpt's two
counters. Composer and OLMo print blocks with one value in each line.
"""

import re
from dataclasses import dataclass
from typing import Literal

from watchkeeper.domain.reading.progress.numbers import (
    NUMBER,
    loss_of,
    number_of,
    open_bar,
    rate_of,
    slack_of,
)

_TORCHTUNE = re.compile(
    r"(?:^|\s)(?P<epoch>\d{1,6})\|(?P<step>\d{1,15})\|Loss: (?P<loss>" + NUMBER + r")(?![\w%])",
    re.IGNORECASE,
)
_CLU = re.compile(
    r"(?P<writer>^|\blogging_writer\.py:\d{1,6}\] )\[(?P<step>\d{1,15})\]"
    r"(?: collection=(?P<of>[^\s=]++))? (?P<values>[^\s=,]++=[^\s=,]++(?:, [^\s=,]++=[^\s=,]++)*+)$"
)
_CLU_RATE = re.compile(
    r"(?<![\w/])(?:train/)?steps_per_sec(?:ond)?=(?P<value>\d{1,9}(?:\.\d{1,9})?)\b"
)
_CLU_NOTES = re.compile(
    r"\d steps/s, \d{1,3}\.\d% \((?P<step>\d{1,15})/(?P<maximum>\d{1,15})\), ETA: "
)
_T5X = re.compile(r"(?:^|\] )Training: step (?P<step>\d{1,15})$")
_LITGPT = re.compile(
    r"(?:^|\s)Epoch (?P<epoch>\d{1,6}) \| iter \d{1,15} step (?P<step>\d{1,15}) \|"
    r" loss train: (?P<loss>" + NUMBER + r")(?![\w%])",
    re.IGNORECASE,
)
_COMPOSER_STEP = re.compile(r"(?:^|\s)Train time/batch: (?P<step>\d{1,15})$")
_COMPOSER_LOSS = re.compile(
    r"(?:^|\s)Train loss/train/total: (?P<loss>" + NUMBER + r")$", re.IGNORECASE
)
_OLMO_LOSS = re.compile(
    r"(?:^|\s)train/(?:CrossEntropyLoss|CE loss)=(?P<loss>" + NUMBER + r")$", re.IGNORECASE
)
_TRAINS = re.compile(r"(?:train(?:ing)?(?: steps?)?|steps?|iterations?):$", re.IGNORECASE)
_HELD_BACK = re.compile(r"(?<![a-z])(?:eval|valid|val|test|infer|predict)", re.IGNORECASE)

_EVALUATES = re.compile(
    r"(?<![\w./-])(?:eval|evaluat(?:ion|ing)|valid|validat(?:ion|ing)|val|test|testing|predicting)"
    r"\s*[\])>|:-]?\s*$",
    re.IGNORECASE,
)
"""Words before a line which show that it belongs to an evaluation. A folder's name does not
count."""

BLOCKS = ("composer", "olmo")
"""Forms that print the loss some lines below the step, in the same block."""


@dataclass(frozen=True, slots=True)
class FrameworkLine:
    """What such a line says; a field is `None` if the line lacks it.

    Attributes:
        format: The framework.
        phase: What the line is about, such as training.
        step: The run's step.
        maximum: The maximum.
        loss: May be NaN or infinite.
        slack: Half of the loss's last printed digit.
        rate: Steps per second.
        epoch: The epoch as printed.
        uncertainty: How far the true step may lie from it, either way.
        maximum_exact: It was printed in full.
    """

    format: str
    phase: Literal["training", "evaluation"] = "training"
    step: int | None = None
    maximum: int | None = None
    loss: float | None = None
    slack: float = 0.0
    rate: float | None = None
    epoch: float | None = None
    uncertainty: int = 0
    maximum_exact: bool = False


def framework_line(text: str) -> FrameworkLine | None:
    """Return what a line of one of these forms says; `None` for any other line."""
    # Searching plain words first costs a tenth of the patterns.
    if "it [" in text and (bar := open_bar(text)) and _TRAINS.match(bar.what):
        loss, slack = loss_of(text, bar.end)
        rate = rate_of(text, bar.end)
        shown = (bar.step, None, loss, slack, rate, None, bar.uncertainty)
        return FrameworkLine("tqdm", "training", *shown)
    if "|Loss: " in text and (found := _TORCHTUNE.search(text)):
        if is_evaluation(text[: found.start("epoch")]):
            return FrameworkLine("torchtune", "evaluation")
        # The count before it belongs to the run, the bar after it to the epoch.
        return _counted("torchtune", found, rate_of(text, found.end()))
    if " loss train: " in text and (found := _LITGPT.search(text)):
        if is_evaluation(text[: found.start()]):
            return FrameworkLine("litgpt", "evaluation")
        # `iter` counts micro-batches; its checkpoints are named by `step`.
        return _counted("litgpt", found, None)
    if (text.startswith("[") or "logging_writer.py:" in text) and (written := _clu(text)):
        return written
    if "steps/s, " in text and (found := _CLU_NOTES.search(text)):
        rate = rate_of(text, max(found.start() - 9, 0))
        step, top = int(found["step"]), int(found["maximum"])
        return FrameworkLine("clu", step=step, maximum=top, rate=rate, maximum_exact=True)
    if "Training: step " in text and (found := _T5X.search(text)):
        return FrameworkLine("t5x", step=int(found["step"]))
    return _of_block(text.rstrip()) if "rain" in text else None


def _counted(name: str, found: re.Match[str], rate: float | None) -> FrameworkLine:
    return FrameworkLine(
        format=name,
        step=int(found["step"]),
        loss=number_of(found["loss"]),
        slack=slack_of(found["loss"]),
        rate=rate,
        epoch=int(found["epoch"]),
    )


def _clu(text: str) -> FrameworkLine | None:
    found = _CLU.search(text)
    if found is None:
        return None
    loss, slack = loss_of(text, found.start("values"))
    rate = _CLU_RATE.search(text, found.start("values"))
    if not found["writer"] and (loss is None or rate is None):
        # A number in brackets may be a rank, unless the text after it is surely from a training
        # loop.
        return None
    if _HELD_BACK.match(found["of"] or "") or (loss is None and _HELD_BACK.search(found["values"])):
        return FrameworkLine("clu", "evaluation")
    pace = float(rate["value"]) if rate is not None else None
    return FrameworkLine("clu", step=int(found["step"]), loss=loss, slack=slack, rate=pace)


def is_evaluation(before: str) -> bool:
    """Return whether the text before a line's numbers shows an evaluation.

    >>> [is_evaluation(one) for one in ("INFO eval ", "[validation] ", "/jobs/eval ", "")]
    [True, True, False, False]
    """
    return _EVALUATES.search(before) is not None


def _of_block(text: str) -> FrameworkLine | None:
    if "Train time/batch:" in text and (found := _COMPOSER_STEP.search(text)):
        evaluated = is_evaluation(text[: found.start()])
        step = None if evaluated else int(found["step"])
        return FrameworkLine("composer", "evaluation" if evaluated else "training", step)
    if "Train loss/train/total:" in text and (found := _COMPOSER_LOSS.search(text)):
        return _loss_alone("composer", found)
    if "train/C" in text and (found := _OLMO_LOSS.search(text)):
        return _loss_alone("olmo", found)
    return None


def _loss_alone(name: str, found: re.Match[str]) -> FrameworkLine:
    if is_evaluation(found.string[: found.start()]):
        return FrameworkLine(name, "evaluation")
    return FrameworkLine(name, loss=number_of(found["loss"]), slack=slack_of(found["loss"]))
