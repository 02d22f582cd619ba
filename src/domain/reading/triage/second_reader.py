"""The interface of an optional second reader, which only suggests causes.

No second reader is used unless one is configured.
"""

from dataclasses import dataclass
from typing import Protocol

HYPOTHESES_MAX = 3
TEXT_MAX = 300


@dataclass(frozen=True, slots=True)
class Question:
    """A classified end: the whole input of a second reader.

    Attributes:
        run: The run's slug.
        instance: The instance that ended.
        cause: Its classified cause.
        secondary: Other possible causes.
        outlook: Whether a retry makes sense.
        confidence: From 0 to 1.
        evidence: The scrubbed lines that support the cause, never the whole log.
    """

    run: str
    instance: str
    cause: str
    secondary: tuple[str, ...]
    outlook: str
    confidence: float
    evidence: tuple[str, ...]


class SecondReader(Protocol):
    """A program that reads evidence and suggests causes, such as a language model.

    It has its own time limit, and raises `ports.sources.Unavailable` if it has no answer. The
    reason is recorded.
    """

    @property
    def source(self) -> str:
        """The name that is recorded with each suggestion."""
        ...

    def about(self, question: Question) -> tuple[str, ...]:
        """Return suggested causes in words, the likeliest first."""
        ...


def limited_hypotheses(guesses: tuple[str, ...]) -> tuple[str, ...]:
    """Return the suggestions to keep.

    >>> limited_hypotheses(("a", " ", "b", "c", "d"))
    ('a', 'b', 'c')
    """
    words = (" ".join(str(guess).split()) for guess in guesses)
    return tuple(one[:TEXT_MAX] for one in words if one)[:HYPOTHESES_MAX]
