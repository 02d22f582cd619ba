"""Reads two plain shapes of a loop's own: a step that is rounded, and a loss and nothing else.

`step 4.6k/50k | loss 2.31`, `loss=2.31`. Both are read narrowly: many lines hold such words.
"""

import re

from watchkeeper.domain.progress.numbers import (
    NUMBER,
    count_of,
    loss_of,
    maximum_of,
    number_of,
    rate_of,
    slack_of,
)
from watchkeeper.domain.progress.own_forms import Printed

EVALUATION = re.compile(
    r"(?<![a-z])(?:eval\w*|valid\w*|val|test(?:ing)?|sanity checking|predict\w*)(?![a-z])",
    re.IGNORECASE,
)
"""What names something else than training."""

NOT_A_STEP = re.compile(
    r"checkpoint|\bsav(?:e|ed|es|ing)\b|\bload(?:ed|ing)?\b|\bresum|\brestor|\bwarm[- _]?up\b"
    r"|\bprofil|\bcompil|\bdownload|\btokeniz|\bfrom step|\buntil\b|\bevery\b|\bskipp?ing\b"
    r"|\bTraceback\b|\bexception\b|\berror\b|\bstart(?:ing|ed)? (?:at|from)\b|\bpreprocess"
    r"|\bwrit(?:e|ing|ten)\b|\bcommit|\bdelet|\btimeout\b|\bwatchdog\b",
    re.IGNORECASE,
)
"""What a step is named beside and is not shown as where training is."""

_UNIT = (
    r"(?:tok(?:en)?s?|samples?|examples?|seq(?:uence)?s?|words?|rows?|records?|images?|bytes?"
    r"|[kmgt]i?b|[mun]?s|secs?|seconds?|milliseconds?|mins?|minutes?|h|hours?|its?|flops?|params?)"
)
"""A word behind a number that makes an amount of it, unless a number of its own follows."""

_ROUNDED = re.compile(
    r"(?:^|(?P<before>\b[a-z]+)?[\s\[({|,;:])['\"]?(?:global[_ ]|train(?:ing)?[_/ ])?"
    r"(?:steps?|iter|iteration)['\"]?(?:\s*+[=:]\s*+|\s++)"
    r"(?P<step>\d{1,6}(?:\.\d{1,3})?)(?P<scale>(?-i:[kKM]))"
    r"(?:\s*+/\s*+(?P<maximum>\d{1,6}(?:\.\d{1,6})?)(?P<maximum_scale>(?-i:[kKM]?)))?+(?![\w%./])"
    r"(?![\s-]*+" + _UNIT + r"(?!\w)(?:/\w++| per \w++)?+(?!\s*+[=:]?+\s*+\d))",
    re.IGNORECASE,
)
_OF_WHAT = frozenset({"max", "total", "num", "every", "per", "last", "first", "next", "each", "of"})
"""Words that make of the number behind `steps` how many there are."""

_LOSS_ALONE = re.compile(
    r"(?:\([^()]{1,200}\)\s|\[(?=[^\[\]]{0,200}[a-z])[^\[\]]{1,200}\]:?\s"
    r"|\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[\d.,:+Z-]*\s|(?:DEBUG|INFO|WARN(?:ING)?|ERROR)\s?:?\s)*+"
    r"(?:train(?:ing)?[_/ ]|lm[_ ])?loss(?:\s?[=:]\s?)"
    r"(?P<loss>(?=[-+]?(?:\d*\.\d|\d+e|nan|inf))" + NUMBER + r")"
    r"(?:\s?[,|;]?\s(?P<more>[a-z][\w/]{0,40})\s?[=:]\s?" + NUMBER + r"%?){0,20}\s*",
    re.IGNORECASE,
)


def plain_form(text: str, lower: str) -> Printed | None:
    """Return what a line of one of these shapes says; none for every other line.

    Args:
        text: The line.
        lower: The same in small letters.
    """
    if "k" in lower or "M" in text:
        shown = _rounded(text)
        if shown is not None:
            return shown
    return _loss_alone(text) if "loss" in lower else None


def _rounded(text: str) -> Printed | None:
    found = _ROUNDED.search(text)
    if found is None or (found["before"] or "").lower() in _OF_WHAT or NOT_A_STEP.search(text):
        return None
    loss, slack = loss_of(text)
    # A count beside nothing may be of anything, such as how many steps there are.
    if loss is None and not found["maximum"]:
        return None
    if EVALUATION.search(text):
        return Printed("key_value", "evaluation")
    step, uncertainty = count_of(found["step"], found["scale"])
    maximum, exact = None, False
    if found["maximum"]:
        maximum, exact = maximum_of(found["maximum"], found["maximum_scale"])
    return Printed(
        format="key_value",
        step=step,
        maximum=maximum,
        maximum_exact=exact,
        loss=loss,
        slack=slack,
        rate=rate_of(text),
        uncertainty=uncertainty,
    )


def _loss_alone(text: str) -> Printed | None:
    found = _LOSS_ALONE.fullmatch(text)
    if found is None or EVALUATION.search(text):
        return None
    return Printed("key_value", loss=number_of(found["loss"]), slack=slack_of(found["loss"]))
