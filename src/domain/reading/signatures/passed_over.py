"""Texts that stand in harmless lines and in telling ones: which of them are passed over."""

import re
from collections.abc import Iterable

_COUNTER = re.compile(rb"nan iterations:(?= {1,3}0 )")
"""Stands in every progress line of Megatron-LM, and would make each of them worth a look."""

COUNTS, SCALES = b"nan iterations:", b"| loss scale: "
_SCALE = re.compile(
    rb"loss scale: (?=\d{0,15}[1-9]\.\d{1,3} \|(?![^\n]{0,40}(?:minimum|underflow|floor|too small"
    rb"|at its min|below|reached)))"
)
"""As well, and harmless while nothing calls the scale low; `nan.loss-scale` reads all others."""

BEHIND = {".py:": r"\d++\)[ \t\f\v]*\n"}
"""What the only expression that needs a text needs right behind it, where many loggers write that
text into every line: `trainer.py:231` is a place, and `(trainer.py:231)` at a line's end a frame.
"""


def without_counters(small: bytes) -> bytes:
    """Return a text in small letters, as long as it was, without what each line of Megatron has."""
    if COUNTS in small:
        small = _COUNTER.sub(b"___ iterations:", small)
    if SCALES in small:
        small = _SCALE.sub(b"loss _____: ", small)
    return small


def bare_number(text: str) -> str:
    """Return a number without blanks around it, so that passing it over takes no more than it."""
    return text.strip() if text.strip().isdigit() else text


def is_part(small: bytes, start: int, end: int) -> bool:
    """Say whether digits are a part of a longer number, where no expression takes them for a code.

    A tail of measurements has hundreds of numbers, and some hold 401, 403 or 429.
    """
    before = small[start - 1 : start]
    return before.isdigit() or (before == b"." and small[end : end + 1].isdigit())


def needed_behind(text: str, others: Iterable[str]) -> re.Pattern[bytes]:
    """Return what has to stand behind a text, so that the text is more than a place.

    What is found takes its characters from others that begin in it: their ends count as well.
    """
    rests = {
        other[len(text) - at :]
        for at in range(len(text))
        for other in others
        if other != text and other.startswith(text[at:])
    }
    return re.compile("|".join([BEHIND[text], *map(re.escape, sorted(rests))]).encode())
