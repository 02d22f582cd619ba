"""The position of a secret in a text, and merging of overlapping ones."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum

HIDDEN = "\ue000"
"""Replaces each character of a redaction mark; from a private area, so no log uses it."""


class Rank(IntEnum):
    """How reliable a rule is. The lowest rank names the kind."""

    EXACT = 0
    SHAPE = 1
    FORM = 2
    POSITION = 3
    NEAR = 4


@dataclass(frozen=True, slots=True)
class Span:
    """A secret's place in a text.

    Attributes:
        start: Index of its first character.
        end: Index after its last character.
        kind: What it is, such as `wandb`.
        rank: What found it.
    """

    start: int
    end: int
    kind: str
    rank: Rank


def merge(text: str, found: Iterable[Span]) -> list[Span]:
    """Join overlapping spans, in order; the most reliable rule names the kind of the whole.

    No span splits a hidden mark, and a span of only marks is dropped.
    """
    merged: list[Span] = []
    for span in sorted(found, key=lambda span: (span.start, span.end)):
        if text[span.start : span.end].strip(HIDDEN) == "":
            continue
        last = merged[-1] if merged else None
        if last is None or span.start >= last.end:
            merged.append(_whole_marks(text, span))
            continue
        best = min(last, span, key=lambda either: either.rank)
        joined = Span(last.start, max(last.end, span.end), best.kind, best.rank)
        merged[-1] = _whole_marks(text, joined)
    return merged


def _whole_marks(text: str, span: Span) -> Span:
    start, end = span.start, span.end
    while text[start] == HIDDEN and start > 0 and text[start - 1] == HIDDEN:
        start -= 1
    while text[end - 1] == HIDDEN and end < len(text) and text[end] == HIDDEN:
        end += 1
    return Span(start, end, span.kind, span.rank)
