"""A question to one source: its answer, or why there is none. No answer is a fact of its own."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from watchkeeper.domain.values import Reading, SourceState
from watchkeeper.ports import Unavailable

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Asked(Generic[Answer]):
    """A source's answer, or none and why."""

    answer: Answer | None
    reading: Reading


def ask(source: str, question: Callable[[], Answer]) -> Asked[Answer]:
    """Ask one source; no answer is a reading too, and says nothing about the run."""
    try:
        answer = question()
    except Unavailable as error:
        reading = Reading(source=source, state=SourceState.UNAVAILABLE, reason=error.reason)
        return Asked(None, reading)
    return Asked(answer, Reading(source=source, state=SourceState.FRESH))
