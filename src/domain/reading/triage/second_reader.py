"""An optional second reader that may add a thought but has no vote.

It is off unless somebody supplies one.
"""

from dataclasses import dataclass
from typing import Protocol

HYPOTHESES_MAX = 3
TEXT_MAX = 300


@dataclass(frozen=True, slots=True)
class Question:
    """A classified end: everything that a second reader gets.

    Attributes:
        run: The run's slug.
        instance: The instance that ended.
        cause: What it was classified as.
        secondary: Other readings that are defensible.
        outlook: Whether trying again makes sense.
        confidence: From 0 to 1.
        evidence: The scrubbed lines that the cause rests on, never the whole log.
    """

    run: str
    instance: str
    cause: str
    secondary: tuple[str, ...]
    outlook: str
    confidence: float
    evidence: tuple[str, ...]


class SecondReader(Protocol):
    """Something that reads evidence and guesses, such as a language model.

    It has its own time limit, and raises `ports.sources.Unavailable` when it has no answer;
    then there is no hypothesis, and the record says why.
    """

    @property
    def source(self) -> str:
        """Its name, which is recorded with each guess."""
        ...

    def about(self, question: Question) -> tuple[str, ...]:
        """Return guesses about the cause in words, the likelier first."""
        ...


def limited_hypotheses(guesses: tuple[str, ...]) -> tuple[str, ...]:
    """Return the guesses to keep.

    >>> limited_hypotheses(("a", " ", "b", "c", "d"))
    ('a', 'b', 'c')
    """
    words = (" ".join(str(guess).split()) for guess in guesses)
    return tuple(one[:TEXT_MAX] for one in words if one)[:HYPOTHESES_MAX]
