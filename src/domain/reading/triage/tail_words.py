"""Finds in one pass which plain words the tail of a log contains.

Each reader needs a few words before it tries a line, and most lines of a tail have no such word.
"""

from collections.abc import Sequence

from ahocorasick_rs import BytesAhoCorasick, Implementation

ALARMING = (
    *("rror", "xception", "illed", "exhausted", "most recent call"),
    *("segmentation", "core dumped", "out of memory", "no space left"),
)
"""Every line that a check keeps as evidence has one of these, in lower case."""

STARTING = ("sing run", "output path", "checkpoint from", "resuming", "scratch")
"""Every line that shows how training began has one of these, in lower case."""

RAISING = ("traceback (most", 'file "')
"""The first line of a traceback has one of these, in lower case."""

_WORDS = (*ALARMING, *STARTING, *RAISING)
_MATCHER = BytesAhoCorasick([word.encode() for word in _WORDS], implementation=Implementation.DFA)


def words_in(lines: Sequence[str]) -> frozenset[str]:
    """Return which of the words the lines contain, in any case."""
    tail = "\n".join(lines).lower().encode("utf-8", "replace")
    found = _MATCHER.find_matches_as_indexes(tail, overlapping=True)
    return frozenset([_WORDS[match[0]] for match in found])
