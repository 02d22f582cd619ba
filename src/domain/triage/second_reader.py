"""A second reader that may add a thought: off unless somebody gives one, and without a vote."""

from dataclasses import dataclass, replace
from typing import Protocol

from watchkeeper.domain.triage.texts import Triage

HYPOTHESES_MAX = 3
TEXT_MAX = 300


class Hypotheses(Protocol):
    """Something that reads evidence and guesses, such as a language model.

    It gets the scrubbed evidence lines, never the whole log. It has its own time limit, and raises
    `watchkeeper.ports.Unavailable` when it has no answer; then there is no hypothesis.
    """

    def about(self, found: Triage) -> tuple[str, ...]:
        """Return guesses about the cause in words, the likelier first."""
        ...


@dataclass(frozen=True, slots=True)
class Considered:
    """A verdict and what somebody else thinks of it.

    Attributes:
        triage: The verdict, as the signatures gave it.
        hypotheses: Guesses in words; no rule reads them.
    """

    triage: Triage
    hypotheses: tuple[str, ...] = ()


def considered(found: Triage, reader: Hypotheses | None = None) -> Considered:
    """Add what a second reader thinks; label, outlook and everything else stay as they are."""
    if reader is None:
        return Considered(found)
    # A copy: whatever the reader does with it, the verdict is not its to change.
    guesses = reader.about(replace(found))
    kept = tuple(str(guess)[:TEXT_MAX] for guess in guesses[:HYPOTHESES_MAX])
    return Considered(found, kept)
