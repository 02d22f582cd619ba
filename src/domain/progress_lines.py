"""Reads one line of a training log, in the shapes that training frameworks write.

Levanter and tqdm bars, Megatron and NeMo, DeepSpeed, Hugging Face's dictionaries, Lightning, plain
`key=value`, JSON lines. A bar that is not of training (an evaluation, a download) is no progress.
"""

import json
import math
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, cast

Phase = Literal["", "not_started", "training", "evaluation"]

_SCALES = {"": 0, "k": 3, "K": 3, "M": 6, "G": 9}
"""Powers of ten of the suffixes that tqdm writes (`format_sizeof`, divisor 1,000)."""

_NUMBER = r"[-+]?(?:\d[\d,]*\.?\d*(?:[eE][-+]?\d+)?|\.\d+|inf(?:inity)?|nan)"
_WHOLE = r"\d{1,3}(?:,\d{3}){1,5}|\d{1,15}"
_COUNT = r"(?P<{0}>\d{{1,15}}(?:\.\d{{1,6}})?)(?P<{0}_scale>[kKMG]?)(?:it|steps?)?"

_LEVANTER = re.compile(r"\bProgress on:(?P<what>\S+)\s+(?P<counts>\S+)")
_BAR = re.compile(
    r"(?P<what>(?:^|[\w\])])[^|%]{0,120}?)\s*(?:\d{1,3}%)?\|[^|]*\|\s*(?P<counts>\S+)"
)
_COUNTS = re.compile(_COUNT.format("step") + r"/(?:" + _COUNT.format("maximum") + r"|\?|\S+?)$")
_UNSTARTED = re.compile(r"-/\d")
_TRAINING_BAR = re.compile(
    r"(?:^|\s)(?:train|training|train(?:ing)? steps?|steps?|iterations?|(?:train(?:ing)? )?epoch"
    r"(?: \[?\d+(?:/\d+)?\]?)?)\s*:?\s*:?$",
    re.IGNORECASE,
)
_EVALUATION = re.compile(
    r"(?<![a-z])(?:eval\w*|valid\w*|val|test(?:ing)?|sanity checking|predict\w*)(?![a-z])",
    re.IGNORECASE,
)
_WORD = re.compile(r"[A-Za-z][A-Za-z ]*:?$")
_EPOCH = re.compile(r"\bepoch\s*[:=]?\s*\[?(?P<epoch>\d{1,9})(?P<of>/\d+)?\b", re.IGNORECASE)
_GLOBAL_STEP = re.compile(r"\bglobal_step[=:]\s*(?P<step>\d{1,15})")

_LOSS = re.compile(
    r"(?<![\w/])(?:train(?:ing)?[/_ ])?(?:(?:lm|reduced_train|ce|total|crossentropy|avg)[_ ]?)?"
    r"loss(?:_step)?['\"]?(?:\s*[=:]\s*|\s+)['\"]?(?P<loss>" + _NUMBER + r")(?![\w%])",
    re.IGNORECASE,
)
_RATE = re.compile(
    r"(?P<value>\d+(?:\.\d+)?)\s*(?P<unit>s/it|s/step|it/s|steps?/s|ms/step|ms/it)\b"
)
_MS_PER_ITERATION = re.compile(r"elapsed time per iteration \(ms\):\s*(?P<value>\d+(?:\.\d+)?)")
_SECONDS_PER_STEP = re.compile(
    r"(?:train_step_timing in s|iter time \(s\)):\s*(?P<value>\d+(?:\.\d+)?)"
)

_ITERATION = re.compile(
    r"(?:^|[\s\]])iteration\s+(?P<step>\d{1,15})\s*/\s*(?P<maximum>\d{1,15})\b", re.IGNORECASE
)
_STEP = re.compile(
    r"(?:^|[\s\[({|,;])['\"]?(?:global[_ ]?|train[_/ ]|trainer/)?(?:steps?|iter|iteration)['\"]?"
    r"(?P<between>\s*[=:]\s*\[?|\s+)(?P<step>" + _WHOLE + r")"
    r"(?:\s*/\s*(?P<maximum>" + _WHOLE + r"))?"
    r"(?P<after>\.\d|[\w%]|\s*[kKMG]?it\b)?",
    re.IGNORECASE,
)
_NOT_A_STEP = re.compile(
    r"checkpoint|\bsav(?:e|ed|es|ing)\b|\bload(?:ed|ing)?\b|\bresum|\brestor|\bwarm[- _]?up\b"
    r"|\bprofil|\bcompil|\bdownload|\btokeniz|\bfrom step|\buntil\b|\bevery\b|\bskipp?ing\b"
    r"|\bTraceback\b|\bexception\b|\berror\b|\bstart(?:ing|ed)? (?:at|from)\b|\bpreprocess"
    r"|\bwrit(?:e|ing|ten)\b|\bcommit|\bdelet|\btimeout\b|\bwatchdog\b",
    re.IGNORECASE,
)
_DECIMALS = re.compile(r"\.(\d+)")
_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")

_JSON_STEPS = (
    *("step", "global_step", "_step", "iteration", "iter", "trainer/global_step", "train/step"),
    *("train/global_step", "current_steps", "steps", "train_step"),
)
_JSON_MAXIMA = ("max_steps", "total_steps", "num_train_steps", "max_iterations", "train_iters")
_JSON_LOSSES = (
    *("loss", "train/loss", "train_loss", "lm loss", "lm_loss", "reduced_train_loss"),
    *("training_loss", "training/loss", "train/lm_loss", "train/cross_entropy_loss"),
)

LINE_MAX = 10_000
"""Characters of a line that are looked at: no progress line is longer."""


@dataclass(frozen=True, slots=True)
class Line:
    """What one line says about progress; what it does not say is none.

    Attributes:
        format: The shape that was recognised, such as `levanter`.
        phase: What the line is about; empty where it is about nothing of training.
        step: The step shown: the middle of what a rounded number may mean.
        uncertainty: How far the true step may lie from it, either way.
        maximum: The maximum shown. It is what a bar shows, never proof of the final step.
        maximum_exact: It was printed in full.
        loss: May be NaN or infinite.
        loss_slack: Half of the loss's last printed digit.
        rate: Steps per second.
        epoch: Epoch in which `step` is counted, where the bar begins anew with each.
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
    epoch: int | None = None


_WHOLE_MAXIMUM = re.compile(r"/\s?\d{1,15}(?:\.0+)?(?:it|steps?)?(?![\w./:-])|[a-z]_(?:steps|iter)")


def may_show_maximum(line: str) -> bool:
    """Say whether a line may show a maximum in full; cheap, and true of more lines than do."""
    return _WHOLE_MAXIMUM.search(line) is not None


@lru_cache(maxsize=1_024)
def read_line(line: str) -> Line | None:
    """Read one line of a training log.

    Args:
        line: Without its end. Of several updates of a bar, parted by carriage returns, the newest.

    Returns:
        None where the line says nothing about progress.
    """
    text = line[-LINE_MAX:].replace("\0", "")
    if "\r" in text:
        text = text.rstrip("\r").rpartition("\r")[2]
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    if "Progress on:" in text:
        return _levanter(text)
    if "%|" in text and (found := _bar(text)):
        return found
    lower = text.lower()
    if "iteration" in lower and (found := _megatron(text)):
        return found
    if "{" in text and (found := _dictionary(text)):
        return found
    if "step" in lower or "iter" in lower:
        return _key_value(text)
    return None


def _levanter(text: str) -> Line | None:
    found = _LEVANTER.search(text)
    if found is None:
        return None
    what = found["what"]
    if what != "train":
        return Line("levanter", "evaluation") if _EVALUATION.match(what) else None
    if _UNSTARTED.match(found["counts"]):
        return Line("levanter", "not_started")
    return _counted(text, "levanter", found["counts"], found.end())


def _bar(text: str) -> Line | None:
    found = _BAR.search(text)
    if found is None:
        return None
    what = found["what"].strip()
    if _EVALUATION.search(what.rpartition("]")[2]):
        return Line("tqdm", "evaluation")
    training = _TRAINING_BAR.search(what)
    after = text[found.end() :]
    # Without a word a bar may be anything; beside a loss it is training's.
    if training is None and (_WORD.search(what) or _LOSS.search(after) is None):
        return None
    made = _counted(text, "tqdm", found["counts"], found.end())
    epoch = _EPOCH.search(what)
    if made is None or epoch is None:
        return made
    known = _GLOBAL_STEP.search(after)
    if known is not None:
        return _replaced(made, "lightning", int(known["step"]), None)
    # `Epoch 1/3` counts from 1, Lightning's own `Epoch 0` from 0.
    number = int(epoch["epoch"]) - 1 if epoch["of"] else int(epoch["epoch"])
    return _replaced(made, "lightning", made.step, max(number, 0))


def _replaced(made: Line, name: str, step: int | None, epoch: int | None) -> Line:
    whole = epoch is not None
    return Line(
        format=name,
        phase=made.phase,
        step=step,
        uncertainty=made.uncertainty if whole else 0,
        maximum=made.maximum if whole else None,
        maximum_exact=made.maximum_exact and whole,
        loss=made.loss,
        loss_slack=made.loss_slack,
        rate=made.rate,
        epoch=epoch,
    )


def _counted(text: str, name: str, counts: str, end: int) -> Line | None:
    found = _COUNTS.match(counts)
    if found is None:
        return None
    step, uncertainty = count_of(found["step"], found["step_scale"])
    maximum, exact = None, False
    if found["maximum"] is not None:
        maximum = count_of(found["maximum"], found["maximum_scale"])[0]
        # Below 1,000 tqdm shows every digit, with zeros behind the point: 86.0 is 86.
        decimals = found["maximum"].partition(".")[2].strip("0")
        exact = not found["maximum_scale"] and not decimals
    loss, slack = _loss(text, end)
    return Line(
        format=name,
        phase="training",
        step=step,
        uncertainty=uncertainty,
        maximum=maximum,
        maximum_exact=exact,
        loss=loss,
        loss_slack=slack,
        rate=_rate(text, end),
    )


def _megatron(text: str) -> Line | None:
    found = _ITERATION.search(text)
    if "|" not in text:
        return None
    if found is None:
        evaluated = "loss at iteration" in text and _EVALUATION.search(text)
        return Line("megatron", "evaluation") if evaluated else None
    if _EVALUATION.search(text[: found.start()]):
        return Line("megatron", "evaluation")
    loss, slack = _loss(text, found.end())
    known = _GLOBAL_STEP.search(text, found.end())
    return Line(
        format="nemo" if known is not None else "megatron",
        phase="training",
        step=int(known["step"]) if known is not None else int(found["step"]),
        maximum=int(found["maximum"]),
        maximum_exact=True,
        loss=loss,
        loss_slack=slack,
        rate=_rate(text, found.end()),
    )


def _dictionary(text: str) -> Line | None:
    start = text.find("{")
    body = text[start : text.rfind("}") + 1]
    if not body:
        return None
    if body.startswith("{'"):
        return _hugging_face(body)
    try:
        held: object = json.loads(body)
    except ValueError:
        return None
    if not isinstance(held, dict):
        return None
    values = cast("dict[str, object]", held)
    step = next(
        (found for key in _JSON_STEPS if (found := _whole(values.get(key))) is not None), None
    )
    if step is None:
        return None
    loss_key = next((key for key in _JSON_LOSSES if key in values), "")
    loss = _float(values.get(loss_key))
    evaluated = any(_EVALUATION.match(key) for key in values)
    if loss is None and evaluated:
        return Line("json", "evaluation", step=step)
    maximum = next((m for key in _JSON_MAXIMA if (m := _whole(values.get(key))) is not None), None)
    return Line(
        format="json",
        phase="training",
        step=step,
        maximum=maximum,
        maximum_exact=maximum is not None,
        loss=loss,
    )


def _hugging_face(body: str) -> Line | None:
    if "'eval_" in body and "'loss'" not in body:
        return Line("hugging_face", "evaluation")
    found = re.search(r"'loss':\s*'?(?P<loss>" + _NUMBER + r")", body, re.IGNORECASE)
    if found is None or "'train_runtime'" in body:
        return None
    step = re.search(r"'(?:step|global_step)':\s*(?P<step>\d{1,15})", body)
    return Line(
        format="hugging_face",
        phase="training",
        step=int(step["step"]) if step else None,
        loss=_number(found["loss"]),
        loss_slack=_slack(found["loss"]),
    )


def _key_value(text: str) -> Line | None:
    found = _STEP.search(text)
    if found is None or found["after"] or _NOT_A_STEP.search(text):
        return None
    loss, slack = _loss(text, 0)
    bare = not any(sign in found["between"] for sign in "=:")
    # `at step 12 the loader` is prose; `step 12 | loss 2.3` and `step=12` are not.
    if bare and loss is None and found["maximum"] is None:
        return None
    if _EVALUATION.search(text):
        return Line("key_value", "evaluation")
    maximum = int(found["maximum"].replace(",", "")) if found["maximum"] else None
    deep = "samples/sec" in text or "[Rank " in text
    return Line(
        format="deepspeed" if deep else "key_value",
        phase="training",
        step=int(found["step"].rstrip(",").replace(",", "")),
        maximum=maximum,
        maximum_exact=maximum is not None,
        loss=loss,
        loss_slack=slack,
        rate=_rate(text, 0),
    )


def _loss(text: str, start: int) -> tuple[float | None, float]:
    found = _LOSS.search(text, start)
    return (_number(found["loss"]), _slack(found["loss"])) if found else (None, 0.0)


def _slack(digits: str) -> float:
    """Return half of the last printed digit of a number."""
    mantissa, _, power = digits.lower().partition("e")
    if not mantissa.lstrip("+-")[:1].isdigit() and not mantissa.lstrip("+-").startswith("."):
        return 0.0
    decimals = _DECIMALS.search(mantissa)
    places = len(decimals[1]) if decimals else 0
    return float(0.5 * 10.0 ** (int(power or 0) - places)) if abs(int(power or 0)) < 300 else 0.0


def _rate(text: str, start: int) -> float | None:
    found = _RATE.search(text, start)
    if found is not None:
        value = float(found["value"])
        if found["unit"] in ("it/s", "step/s", "steps/s"):
            return value
        scale = 1000.0 if found["unit"].startswith("ms") else 1.0
        return scale / value if value > 0 else None
    for pattern, scale in ((_MS_PER_ITERATION, 1000.0), (_SECONDS_PER_STEP, 1.0)):
        if (found := pattern.search(text, start)) is not None:
            value = float(found["value"])
            return scale / value if value > 0 else None
    return None


def _number(digits: str) -> float:
    return float(digits.replace(",", ""))


def _float(value: object) -> float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return float(value) if abs(value) < 1e300 or not math.isfinite(value) else math.inf
    if isinstance(value, str) and value.lower().lstrip("+-") in ("nan", "inf", "infinity"):
        return float(value)
    return None


def _whole(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if isinstance(value, float) and not value.is_integer():
        return None
    return int(value) if 0 <= value < 1e15 else None


def count_of(digits: str, scale: str) -> tuple[int, int]:
    """Return a shown count and half of its last digit's worth, both in whole steps.

    Args:
        digits: As printed, such as `1.86`.
        scale: The suffix behind it: empty, `k`, `M` or `G`.
    """
    whole, _, decimals = digits.partition(".")
    power = _SCALES[scale]
    # All in integers: 1.86 * 1000 is 1859.99 as a float.
    places = power - len(decimals)
    number = int(whole + decimals)
    if places <= 0:
        return number // 10**-places, 0
    return number * 10**places, 10**places // 2
