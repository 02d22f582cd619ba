"""Which plain words stand in the tail of a log, found in one pass.

A tail is 200 lines of other things, and each reader looks for a few words before it tries a line.
"""

from collections.abc import Sequence

from ahocorasick_rs import BytesAhoCorasick, Implementation

ALARMING = (
    *("rror", "xception", "illed", "exhausted", "most recent call"),
    *("segmentation", "core dumped", "out of memory", "no space left"),
)
"""One of these stands, in small letters, in every line that a check keeps as evidence."""

STARTING = ("sing run", "output path", "checkpoint from", "resuming", "scratch")
"""One of these stands, in small letters, in every line that tells how training began."""

RAISING = ("traceback (most", 'file "')
"""One of these stands, in small letters, in a line with which a traceback begins."""

_WORDS = (*ALARMING, *STARTING, *RAISING)
_MATCHER = BytesAhoCorasick([word.encode() for word in _WORDS], implementation=Implementation.DFA)


def words_in(lines: Sequence[str]) -> frozenset[str]:
    """Return which of the words stand in lines, in capital letters or small ones."""
    tail = "\n".join(lines).lower().encode("utf-8", "replace")
    found = _MATCHER.find_matches_as_indexes(tail, overlapping=True)
    return frozenset([_WORDS[match[0]] for match in found])
