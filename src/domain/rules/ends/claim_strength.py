"""How strong the claims about cause and outlook are, and their evidence.

They are two claims. That an end was out of memory may be proven while nobody knows whether the same
again would be; of one that nothing explains, one more try may still make sense. All of it follows
from what was recorded of the end, so that it holds for histories of every age.
"""

from dataclasses import dataclass
from enum import StrEnum

from watchkeeper.domain.reading.triage.memory import OUT_OF_MEMORY
from watchkeeper.domain.run.ends import FailureClassified
from watchkeeper.domain.values.causes import OUTLOOK_SAYS, UNKNOWN, Outlook


class Status(StrEnum):
    """How far a claim holds."""

    PROVEN = "proven"
    """Exit facts, or the orchestrator's own word, say so."""

    PROVISIONAL = "provisional"
    """Lines of the log or a signal say so; later evidence may revise it."""

    OPEN = "open"
    """Nothing says so: a person has to judge."""


@dataclass(frozen=True, slots=True)
class Claim:
    """One claim about an end.

    Attributes:
        says: The cause, or the outlook.
        status: How far it holds.
        evidence: The lines and facts that it rests on; of an open one what was looked at.
    """

    says: str
    status: Status
    evidence: tuple[str, ...]


def cause_claim(failure: FailureClassified) -> Claim:
    """Return what is claimed of the cause of an end."""
    if failure.cause in UNKNOWN:
        return Claim(failure.cause, Status.OPEN, failure.evidence)
    if not failure.rules:
        by_facts = failure.confidence == 1.0 or failure.cause in OUT_OF_MEMORY
        status = Status.PROVEN if by_facts else Status.PROVISIONAL
        return Claim(failure.cause, status, failure.evidence)
    return Claim(failure.cause, Status.PROVISIONAL, _cited(failure) or failure.evidence)


def outlook_claim(failure: FailureClassified) -> Claim:
    """Return what is claimed of trying again, by the same facts or by others than the cause."""
    outlook = failure.outlook
    if failure.rules:
        rests = (f"{failure.rules[0]}: {OUTLOOK_SAYS[outlook]}", *_cited(failure))
        return Claim(outlook.value, Status.PROVISIONAL, rests)
    if failure.cause not in UNKNOWN:
        rests = (f"{failure.cause}: {OUTLOOK_SAYS[outlook]}", *failure.evidence[:1])
        return Claim(outlook.value, cause_claim(failure).status, rests)
    # Nobody knows the cause; that a signal ended it, and no error of its own, speaks for one try.
    status = Status.OPEN if outlook is Outlook.ASK else Status.PROVISIONAL
    return Claim(outlook.value, status, failure.evidence)


def _cited(failure: FailureClassified) -> tuple[str, ...]:
    """Return the lines that were cited for the cause itself."""
    return tuple(line for line in failure.evidence if line.startswith(f"{failure.cause} ("))
