"""Reads the numbers of progress lines: a loss, a rate, a count that may be rounded."""

import math
import re

_SCALES = {"": 0, "k": 3, "K": 3, "M": 6, "G": 9}
"""Powers of ten of the suffixes that tqdm writes (`format_sizeof`, divisor 1,000)."""

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
_DIGITS = re.compile(r"[0-9]{1,15}")
_DECIMALS = re.compile(r"\.(\d+)")


def loss_of(text: str, start: int = 0) -> tuple[float | None, float]:
    """Return the first loss of training from a place on, and half of its last printed digit."""
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
    """Return the steps per second that are shown from a place on; none where none are."""
    found = _RATE.search(text, start)
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
    """Return a number as it is printed, also with commas, NaN and infinities."""
    return float(digits.replace(",", ""))


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


def float_of(value: object) -> float | None:
    """Return a number of a JSON object, also one that is written as text; none for others."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return float(value) if abs(value) < 1e300 or not math.isfinite(value) else math.inf
    if isinstance(value, str) and _A_NUMBER.fullmatch(value.lower()):
        return number_of(value)
    return None


def whole_of(value: object) -> int | None:
    """Return a count of a JSON object, also one that is written as text; none for others."""
    if isinstance(value, str) and _DIGITS.fullmatch(value):
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if isinstance(value, float) and not value.is_integer():
        return None
    return int(value) if 0 <= value < 1e15 else None
