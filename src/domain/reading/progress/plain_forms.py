"""Reads two plain line forms: a named step, and a loss alone.

`step=4600 loss=2.31`, `step 4.6k/50k`, `loss=2.31`. A rounded step and a loss alone are read
narrowly: many lines hold such words.
"""

import re

from watchkeeper.domain.reading.progress.framework_lines import FrameworkLine
from watchkeeper.domain.reading.progress.numbers import (
    NUMBER,
    SHOWN,
    Count,
    loss_of,
    number_of,
    rate_of,
    shown_count,
    slack_of,
)

EVALUATION = re.compile(
    r"(?<![a-z])(?:eval\w*|valid\w*|val|test(?:ing)?|sanity checking|predict\w*)(?![a-z])",
    re.IGNORECASE,
)
"""Words that name something other than training."""

NOT_A_STEP = re.compile(
    r"checkpoint|\bsav(?:e|ed|es|ing)\b|\bload(?:ed|ing)?\b|\bresum|\brestor|\bwarm[- _]?up\b"
    r"|\bprofil|\bcompil|\bdownload|\btokeniz|\bfrom step|\buntil\b|\bevery\b|\bskipp?ing\b"
    r"|\bTraceback\b|\bexception\b|\berror\b|\bstart(?:ing|ed)? (?:at|from)\b|\bpreprocess"
    r"|\bwrit(?:e|ing|ten)\b|\bcommit|\bdelet|\btimeout\b|\bwatchdog\b",
    re.IGNORECASE,
)
"""Words next to a step that is not the current step of training."""

_UNIT = (
    r"(?:tok(?:en)?s?|samples?|examples?|seq(?:uence)?s?|words?|rows?|records?|images?|bytes?"
    r"|[kmgt]i?b|[mun]?s|secs?|seconds?|milliseconds?|mins?|minutes?|h|hours?|its?|flops?|params?)"
)
"""A word after a number that makes it an amount, unless another number follows the word."""

_AMOUNT = re.compile(
    r"/|[\s-]*+" + _UNIT + r"(?!\w)(?:/\w++| per \w++)?+(?!\s*+[=:]?+\s*+\d)", re.IGNORECASE
)
"""Text after a rounded number which shows that it is an amount and not a step."""

_ODD_END = r"(?P<after>\s*+[kKMG]?it\b|[ ][kKMG]\b(?!/)|(?<!\d\d\d\d)[ ]\d{3}(?![\w.,:/%]))?"
"""Text after a number that makes it ambiguous: `1 860`, `1.86 k`, `1.86kit`."""

TOTAL_STEP = re.compile(
    r"\b(?:global[_ ]?step|num_updates)(?P<between>\s*+[=:]\s*+|\s++)(?P<step>" + SHOWN + ")"
    r"(?:\s*+/\s*+(?P<maximum>" + SHOWN + "))?" + _ODD_END,
    re.IGNORECASE,
)
"""The name of a count of the whole run's steps. It is preferred to any other count."""

_TOTAL_STEPS = re.compile(
    r"\b(?:total|max|num_train)_(?:steps|iters|iterations)\s*[=:]\s*(?P<maximum>" + SHOWN + ")"
)
_STEP = re.compile(
    r"(?:^|[\s\[({|,;:])['\"]?"
    r"(?:(?:global[_ ]?|train(?:ing)?[_/ ]|trainer/)?(?:step(?P<plural>s)?|iter|iteration)"
    r"|(?P<batch>batch))(?:\(train\))?['\"]?"
    r"(?P<between>\s*+[=:]\s*+\[?\s*+|\s++\[\s*+|\s++)(?P<step>" + SHOWN + ")"
    r"(?:(?P<of>\s*+/\s*+|\s++of\s++)(?P<maximum>" + SHOWN + "))?" + _ODD_END,
    re.IGNORECASE,
)
_EPOCH_SHOWN = re.compile(
    r"\bepoch['\"]?\s*+[:=]?\s*+['\"]?\[?(?P<epoch>\d{1,9}(?:\.\d{1,9})?)\b", re.IGNORECASE
)
_LAST_WORD = re.compile(r"\b[A-Za-z]+\Z")
_WORD_MAX = 8
"""Characters read before a name: one more than the longest of `_OF_WHAT`."""

_OF_WHAT = frozenset({"max", "total", "num", "every", "per", "last", "first", "next", "each", "of"})
"""Words that make the number after `steps` a total."""

_LOSS_ALONE = re.compile(
    r"(?:\([^()]{1,200}\)\s|\[(?=[^\[\]]{0,200}[a-z])[^\[\]]{1,200}\]:?\s"
    r"|\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[\d.,:+Z-]*\s|(?:DEBUG|INFO|WARN(?:ING)?|ERROR)\s?:?\s)*+"
    r"(?:train(?:ing)?[_/ ]|lm[_ ])?loss(?:\s?[=:]\s?)"
    r"(?P<loss>(?=[-+]?(?:\d*\.\d|\d+e|nan|inf))" + NUMBER + r")"
    r"(?:\s?[,|;]?\s(?P<more>[a-z][\w/]{0,40})\s?[=:]\s?" + NUMBER + r"%?){0,20}\s*",
    re.IGNORECASE,
)


def key_value(text: str) -> FrameworkLine | None:
    """Return what a line like `step=4600 loss=2.3` says, in any spelling, or `None`."""
    found, total = _STEP.search(text), TOTAL_STEP.search(text)
    if (found is None and total is None) or NOT_A_STEP.search(text):
        return None
    loss, slack = loss_of(text)
    own = _counts(text, found) if found is not None else None
    if total is not None:
        known = _counts(text, total)
        # If the run's own step cannot be read, no other number replaces it.
        if known is None:
            return None
        counts = own if own is not None and own[0] == known[0] else known
    elif found is None or own is None or not _is_shown(text, found, own, loss):
        return None
    else:
        counts = own
    if EVALUATION.search(text):
        return FrameworkLine("key_value", "evaluation")
    step, maximum = counts
    if maximum is None and (whole := _TOTAL_STEPS.search(text)):
        maximum = shown_count(whole["maximum"])
    deep = "samples/sec" in text or "[Rank " in text or "SamplesPerSec" in text
    return FrameworkLine(
        format="deepspeed" if deep else "key_value",
        step=step.value,
        uncertainty=step.uncertainty,
        maximum=maximum.value if maximum is not None else None,
        maximum_exact=maximum is not None and maximum.exact,
        loss=loss,
        slack=slack,
        rate=rate_of(text),
        epoch=epoch_shown(text),
    )


def epoch_shown(text: str) -> float | None:
    """Return the epoch that a line names, or `None`."""
    found = _EPOCH_SHOWN.search(text) if "epoch" in text.lower() else None
    if found is None:
        return None
    return float(found["epoch"]) if "." in found["epoch"] else int(found["epoch"])


def _counts(text: str, found: re.Match[str]) -> tuple[Count, Count | None] | None:
    """Return a step and its maximum; `None` if one of them is unreadable or unrelated."""
    step = shown_count(found["step"])
    maximum = shown_count(found["maximum"]) if found["maximum"] else None
    if found["after"] or step is None or (found["maximum"] and maximum is None):
        return None
    rounded = not step.exact or (maximum is not None and not maximum.exact)
    if rounded and _AMOUNT.match(text, found.end()):
        return None
    return step, maximum


def _is_shown(
    text: str, found: re.Match[str], counts: tuple[Count, Count | None], loss: float | None
) -> bool:
    """Return whether a step is shown as a value. In `at step 12 the loader` it is not."""
    if found["batch"] and not found["maximum"]:
        return False
    if not counts[0].exact:
        before = _LAST_WORD.search(text, max(found.start() - _WORD_MAX, 0), found.start())
        if before is not None and before[0].lower() in _OF_WHAT:
            return False
        # A rounded count alone may be the total number of steps.
        if loss is None and not found["maximum"] and found["plural"]:
            return False
    if loss is not None or any(sign in found["between"] for sign in "=:"):
        return True
    if found["maximum"] and not found["batch"]:
        # `Step 2 of 5` may count anything. A training step needs a word about training.
        return "/" in found["of"] or "train" in text.lower()
    return found[0].startswith("[") and text.startswith("]", found.end())


def loss_alone(text: str) -> FrameworkLine | None:
    """Return the loss of a line with nothing else about training, or `None`."""
    found = _LOSS_ALONE.fullmatch(text)
    if found is None or EVALUATION.search(text):
        return None
    return FrameworkLine("key_value", loss=number_of(found["loss"]), slack=slack_of(found["loss"]))
