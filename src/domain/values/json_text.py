"""Parses untrusted JSON: limits its depth, its size and its numbers."""

import json
import re
from collections.abc import Iterable
from typing import Any

DEPTH_MAX = 64
"""Deepest nesting of arrays and objects. Real logs and requests have fewer than 10 levels. Python's
own reader and every recursive reader after it fail near 1,000, and native readers crash at some
10,000."""

_STRING = re.compile(r'"(?:[^"\\]|\\.)*+"?', re.DOTALL)
_BRACKET = re.compile(r"[\[\]{}]")


class UnreadableJson(ValueError):
    """A text is not readable JSON; the message says why."""


def depth_of(text: str) -> int:
    """Return how deep arrays and objects are nested in a text; brackets in strings do not count.

    >>> depth_of('{"a": [1, "[[["]}')
    2
    """
    if text.count("[") + text.count("{") <= 1:
        return int("[" in text or "{" in text)
    deepest = depth = 0
    for found in _BRACKET.finditer(_STRING.sub("", text)):
        depth += 1 if found[0] in "[{" else -1
        deepest = max(deepest, depth)
    return deepest


def parse_json(text: str | bytes) -> Any:
    """Parse a JSON text.

    Args:
        text: JSON; bytes are UTF-8.

    Raises:
        UnreadableJson: It is not JSON, is nested too deeply, or has a number that is too long.
    """
    try:
        if isinstance(text, bytes):
            text = text.decode()
        if _is_deep(text):
            raise UnreadableJson(f"nested deeper than {DEPTH_MAX} levels")
        return json.loads(text)
    except UnreadableJson:
        raise
    except ValueError as error:
        # This includes invalid UTF-8 and numbers with too many digits.
        raise UnreadableJson(str(error)) from error


def whole_characters(value: Any) -> Any:
    r"""Return a JSON value without halves of surrogate pairs, which no UTF-8 can hold.

    >>> whole_characters({"name": "a\ud800"})
    {'name': 'a?'}
    """
    return json.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))


def unreadable_in(lines: Iterable[str]) -> int:
    """Return how many lines are nested too deeply for any reader.

    Colour codes contain brackets too, so only lines that begin with an object count.
    """
    return sum("{" in line and _is_deep(line[line.index("{") :]) for line in lines)


def _is_deep(text: str) -> bool:
    return text.count("[") + text.count("{") > DEPTH_MAX and depth_of(text) > DEPTH_MAX
