"""A cache of readings for lines that differ only in their digits.

Most lines of a log differ in nothing else.
"""

import re
from collections.abc import Callable
from enum import Enum
from typing import Generic, TypeVar

SHAPE_MAX = 500
"""Characters: longer lines are not remembered."""

_SHAPES_MAX = 4_096
"""Most remembered shapes. Beyond it all are dropped, so that memory does not grow with a log."""

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

Reported = TypeVar("Reported")


class _Sight(Enum):
    """How often a shape occurred that is not learnt yet."""

    NEW = 0
    ONCE = 1


def shape_of(text: str) -> str:
    """Return a text with every digit as 0.

    >>> shape_of("step 1234: loss 2.31")
    'step 0000: loss 0.00'
    """
    return text.translate(_DIGITS)


def takes_any_digit(pattern: str) -> bool:
    r"""Return whether an expression accepts every digit wherever it accepts one.

    Such an expression matches a line exactly if it matches the line's shape. The answer is yes only
    if the pattern names no digit, no part of the digits and no earlier group.

    >>> [takes_any_digit(one) for one in (r"step \d{1,9}\b", "[0-9a-f]+", "5[0-9]{2}", r"(.)\1")]
    [True, True, False, False]
    """
    spelled = _CLASS.sub(lambda found: found[0].replace("0-9", ""), pattern)
    return _DIGIT_OR_REFERENCE.search(_SAME_FOR_ALL.sub("", spelled)) is None


def with_any_digit(pattern: str) -> str | None:
    r"""Return a wider expression that accepts any digit; `None` if that is not certain.

    It matches wherever the given one does. A negated digit class accepts more if it names fewer
    digits, so it gives no wider expression.

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


class Shapes(Generic[Reported]):
    """The readings of shapes, learnt when a shape occurs for the second time.

    Args:
        learn: Returns the reading of all lines of a shape; `None` if their digits matter.
    """

    def __init__(self, learn: Callable[[str], Reported | None]) -> None:
        """Start empty."""
        self._learn = learn
        self._by_shape: dict[str, Reported | _Sight | None] = {}

    def reported(self, line: str) -> Reported | None:
        """Return the known reading of a line; `None` if the line has to be read."""
        if len(line) > SHAPE_MAX:
            return None
        shape = shape_of(line)
        # The cache is read once, since another thread may clear it at any moment.
        known = self._by_shape.get(shape, _Sight.NEW)
        if known is _Sight.NEW:
            # Most shapes of prose occur once: learning them would cost more.
            if len(self._by_shape) >= _SHAPES_MAX:
                self._by_shape.clear()
            self._by_shape[shape] = _Sight.ONCE
            return None
        if known is _Sight.ONCE:
            known = self._by_shape[shape] = self._learn(shape)
        return known
