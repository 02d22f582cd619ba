"""Reads numbers of progress lines: a loss, a rate, a count, rounded or not."""

import math
import re
from dataclasses import dataclass
from typing import NamedTuple

_SCALES = {"": 0, "k": 3, "K": 3, "M": 6, "G": 9}
"""Powers of ten of the suffixes that tqdm writes (`format_sizeof`, divisor 1,000)."""

SHOWN = r"\d(?:[,._'\u00a0\u202f]?\d){0,20}+(?:[eE][-+]?\d{1,3})?+[\w%]*+(?::[0-5]\d(?![\d.]))*+"
"""A count with the characters around it; `shown_count` interprets it."""

NUMBER = r"[-+]?(?:\d[\d,]*\.?\d*(?:[eE][-+]?\d+)?|\.\d+|inf(?:inity)?|nan)"

_LOSS = re.compile(
    r"(?<![\w/])(?:train(?:ing)?[/_ ])?(?:(?:lm|reduced_train|ce|total|crossentropy|avg)[_ ]?)?"
    r"loss(?:_step|/train/total)?['\"]?(?:\s*[=:]\s*|\s+)['\"]?(?P<loss>" + NUMBER + r")(?![\w%])",
    re.IGNORECASE,
)
_RATE = re.compile(
    r"(?P<value>\d+(?:\.\d+)?)\s*(?P<unit>s/it|s/step|s/ba|it/s|ba/s|steps?/s|ms/step|ms/it)\b"
)
_MS_PER_ITERATION = re.compile(r"elapsed time per iteration \(ms\):\s*(?P<value>\d+(?:\.\d+)?)")
_SECONDS_PER_STEP = re.compile(
    r"(?:train_step_timing in s|iter time \(s\)):\s*(?P<value>\d+(?:\.\d+)?)"
)
_A_NUMBER = re.compile(NUMBER)
_WHOLE = re.compile(
    r"(?P<digits>[0-9]{1,15}|[0-9]{1,3}(?P<by>[,_'\u00a0\u202f])[0-9]{3}(?:(?P=by)[0-9]{3}){0,3})"
    r"(?:\.0{1,6})?"
)
_ROUNDED = re.compile(
    r"(?P<digits>[0-9]{1,9}(?:\.[0-9]{1,6})?)(?:(?P<scale>[kKMG])|[eE]\+?(?P<power>[0-9]{1,2}))"
)
_OPEN_BAR = re.compile(
    r"(?:^|[\s\]])(?P<what>[A-Za-z][A-Za-z ]{0,40}:)\s+(?P<step>\d{1,15}(?:\.\d{1,6})?)"
    r"(?P<scale>[kKMG]?)it \[(?=\d+:\d\d)"
)
_DECIMALS = re.compile(r"\.(\d+)")


COUNT_MAX = 10**15
"""A larger number is no count of steps; 15 digits are read."""

_LOSS_NAME_MAX = len("training/crossentropy_")
"""How many characters of a loss's name are read before its last word."""


def loss_of(text: str, start: int = 0) -> tuple[float | None, float]:
    """Return the first training loss after a place, and half of its last printed digit."""
    if text.isascii():
        # The search is slow, so it starts where the first name can begin.
        at = text.lower().find("loss", start)
        if at < 0:
            return None, 0.0
        start = max(start, at - _LOSS_NAME_MAX)
    found = _LOSS.search(text, start)
    return (number_of(found["loss"]), slack_of(found["loss"])) if found else (None, 0.0)


def slack_of(digits: str) -> float:
    """Return half of the last printed digit of a number."""
    mantissa, _, power = digits.lower().partition("e")
    if not mantissa.lstrip("+-")[:1].isdigit() and not mantissa.lstrip("+-").startswith("."):
        return 0.0
    decimals = _DECIMALS.search(mantissa)
    places = len(decimals[1]) if decimals else 0
    return float(0.5 * 10.0 ** (int(power or 0) - places)) if abs(int(power or 0)) < 300 else 0.0


def rate_of(text: str, start: int = 0) -> float | None:
    """Return the steps per second shown after a place, or `None`."""
    # Every unit of a rate has one of these characters. Without this test each number of a line
    # would be tried.
    shown = "/s" in text or "s/" in text
    found = _RATE.search(text, start) if shown else None
    if found is not None:
        value = float(found["value"])
        if found["unit"] in ("it/s", "ba/s", "step/s", "steps/s"):
            return value
        scale = 1000.0 if found["unit"].startswith("ms") else 1.0
        return scale / value if value > 0 else None
    for pattern, scale in ((_MS_PER_ITERATION, 1000.0), (_SECONDS_PER_STEP, 1.0)):
        if (found := pattern.search(text, start)) is not None:
            value = float(found["value"])
            return scale / value if value > 0 else None
    return None


def number_of(digits: str) -> float:
    """Parse a printed number, also with commas, NaN and infinities."""
    return float(digits.replace(",", ""))


def maximum_of(number: str, scale: str) -> tuple[int, bool]:
    """Return the maximum of a bar, and whether it was printed in full.

    >>> maximum_of("2.38", "k"), maximum_of("86.0", "")
    ((2380, False), (86, True))
    """
    # Below 1,000 tqdm shows every digit, with zeros behind the point: 86.0 is 86.
    decimals = number.partition(".")[2].strip("0")
    return count_of(number, scale)[0], not scale and not decimals


def count_of(digits: str, scale: str) -> tuple[int, int]:
    """Return a shown count and its rounding error, both in whole steps.

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


class Count(NamedTuple):
    """A count as a log prints it.

    Attributes:
        value: The middle of its possible range.
        uncertainty: How far the true one may lie from it, either way.
        exact: It was printed in full.
    """

    value: int
    uncertainty: int = 0
    exact: bool = True


def shown_count(printed: str) -> Count | None:
    """Return the meaning of a count that `SHOWN` matched; `None` if unclear.

    >>> shown_count("1.1e+4"), shown_count("1,86")
    (Count(value=11000, uncertainty=500, exact=False), None)
    """
    if whole := _WHOLE.fullmatch(printed):
        return Count(int(re.sub("[^0-9]", "", whole["digits"])))
    found = _ROUNDED.fullmatch(printed)
    if found is None:
        return None
    if found["scale"]:
        return Count(*count_of(found["digits"], found["scale"]), exact=False)
    head, _, decimals = found["digits"].partition(".")
    number, places = int(head + decimals), int(found["power"]) - len(decimals)
    if places < 0:
        # All digits are printed, with zeros after the point: 1.234560e+05.
        value, part = divmod(number, 10**-places)
        return None if part else Count(value)
    value = number * 10**places
    return Count(value, 10**places // 2, exact=False) if value < COUNT_MAX else None


def float_of(value: object) -> float | None:
    """Return a number of a JSON object, also if written as text; else `None`."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return float(value) if abs(value) < 1e300 or not math.isfinite(value) else math.inf
    if isinstance(value, str) and _A_NUMBER.fullmatch(value.lower()):
        return number_of(value)
    return None


def int_of(value: object) -> Count | None:
    """Return a count of a JSON object, also if written as text; else `None`."""
    if isinstance(value, str):
        return shown_count(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if isinstance(value, float) and not value.is_integer():
        return None
    return Count(int(value)) if 0 <= value < COUNT_MAX else None


@dataclass(frozen=True, slots=True)
class OpenBar:
    """A tqdm bar without a maximum.

    Attributes:
        what: The words before it.
        step: The count.
        uncertainty: How far the true count may lie from it.
        end: Where it ends in the text.
    """

    what: str
    step: int
    uncertainty: int
    end: int


def open_bar(text: str) -> OpenBar | None:
    """Read a bar such as `train: 2384it [2:26:40, 4.3s/it, loss=0.644]`."""
    found = _OPEN_BAR.search(text)
    if found is None:
        return None
    return OpenBar(found["what"], *count_of(found["step"], found["scale"]), found.end())
