"""Remembers what lines say that differ only in their digits."""

import re
from collections.abc import Callable
from enum import Enum
from typing import Generic, TypeVar

SHAPE_MAX = 500
"""Characters: longer lines are not remembered."""

_SHAPES_MAX = 4_096
"""Shapes that are remembered; then all are forgotten, so that memory does not grow with a log."""

_DIGITS = str.maketrans("123456789", "000000000")
_CLASS = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]")
"""A class, or what is escaped: `\\[` begins none."""

_SAME_FOR_ALL = re.compile(r"\\[A-Za-z]|\{\d*,?\d*\}")
_DIGIT_OR_REFERENCE = re.compile(r"\d|\(\?P=")

_TOKEN = re.compile(
    r"(?P<kept>\\[A-Za-z\W_]|\{\d*,?\d*\})|(?P<barred>\\.|[*+?}]\+|\(\?(?:[>(]|P[=<]))"
    r"|(?P<denied>\(\?<?!)|(?P<opened>\()|(?P<closed>\))"
    r"|(?P<chosen>\[\^?\]?(?:\\.|[^\]\\])*\])|(?P<digit>\d)|(?P<other>.)",
    re.DOTALL,
)
_DIGITS_OF_CLASS = re.compile(r"(\\.)|\d-\d|\d")

Told = TypeVar("Told")


class _Sight(Enum):
    """How often a shape came of which nothing is learnt yet."""

    NEW = 0
    ONCE = 1


def shape_of(text: str) -> str:
    """Return a text with every digit as 0.

    >>> shape_of("step 1234: loss 2.31")
    'step 0000: loss 0.00'
    """
    return text.translate(_DIGITS)


def takes_any_digit(pattern: str) -> bool:
    r"""Say whether an expression takes every digit where it takes one.

    It holds in a line exactly where it holds in the line's shape, then. A pattern is called so only
    where it names no digit, no part of them and no earlier group.

    >>> [takes_any_digit(one) for one in (r"step \d{1,9}\b", "[0-9a-f]+", "5[0-9]{2}", r"(.)\1")]
    [True, True, False, False]
    """
    spelled = _CLASS.sub(lambda found: found[0].replace("0-9", ""), pattern)
    return _DIGIT_OR_REFERENCE.search(_SAME_FOR_ALL.sub("", spelled)) is None


def with_any_digit(pattern: str) -> str | None:
    r"""Return an expression that takes any digit, and holds wherever the given one does.

    None where it is not known to: a digit that is denied allows more the fewer it names.

    >>> [with_any_digit(one) for one in (r"HTTP 5\d\d", "[1-9.]{2} 0", r"(?!\d)0", "(?!0)", "[^0]")]
    ['HTTP \\d\\d\\d', '[.\\d]{2} \\d', '(?!\\d)\\d', None, None]
    """
    denials: list[bool] = []
    parts: list[str] = []
    for found in _TOKEN.finditer(pattern):
        kind, part = found.lastgroup, found[0]
        names_digits = kind == "digit" or (kind == "chosen" and not takes_any_digit(part))
        if kind == "barred" or (names_digits and (any(denials) or part.startswith("[^"))):
            return None
        if kind in ("opened", "denied"):
            denials.append(kind == "denied")
        elif kind == "closed":
            denials.pop()
        elif kind == "digit":
            part = r"\d"
        elif names_digits:
            part = _DIGITS_OF_CLASS.sub(r"\1", part[:-1]) + r"\d]"
        parts.append(part)
    return "".join(parts)


class Shapes(Generic[Told]):
    """What lines of a shape say, learnt when a shape comes for the second time.

    Args:
        learn: Tells what all lines of a shape say; none where their digits matter.
    """

    def __init__(self, learn: Callable[[str], Told | None]) -> None:
        """Begin with none."""
        self._learn = learn
        self._told: dict[str, Told | _Sight | None] = {}

    def told(self, line: str) -> Told | None:
        """Return what a line says; none where it has to be read."""
        if len(line) > SHAPE_MAX:
            return None
        shape = shape_of(line)
        # Asked for once: another thread may forget it at any moment.
        told = self._told.get(shape, _Sight.NEW)
        if told is _Sight.NEW:
            # Most shapes of a text full of words come once: learning them would cost more.
            if len(self._told) >= _SHAPES_MAX:
                self._told.clear()
            self._told[shape] = _Sight.ONCE
            return None
        if told is _Sight.ONCE:
            told = self._told[shape] = self._learn(shape)
        return told
