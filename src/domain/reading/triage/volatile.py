"""Masks the parts of a text that differ when a failure repeats, such as ids."""

import re

_VOLATILE = (
    (re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", re.I), "<id>"),
    (re.compile(r"\b0x[0-9a-f]+\b", re.I), "<address>"),
    (re.compile(r"\b(?=[0-9a-f]*\d)[0-9a-f]{6,}\b", re.I), "<id>"),
    (re.compile(r"\d+"), "#"),
    (re.compile(r"\s+"), " "),
)


def normalise(text: str) -> str:
    """Replace the parts that differ when one failure repeats.

    >>> normalise("ValueError: step 1100 at 0x7f2a bad id 3f9c22aa")
    'ValueError: step # at <address> bad id <id>'
    """
    for pattern, replacement in _VOLATILE:
        text = pattern.sub(replacement, text)
    return text.strip()
