"""How well the cause and the outlook of an end are supported, separately.

Cause and outlook are separate claims. A proven cause, such as out of memory, may have an unknown
outlook. If nothing explains an end, one more retry may still make sense.
"""

from dataclasses import dataclass
from enum import StrEnum

from watchkeeper.domain.reading.triage.memory import OUT_OF_MEMORY
from watchkeeper.domain.run.ends import FailureClassified
from watchkeeper.domain.values.causes import OUTLOOK_SAYS, UNKNOWN, Outlook


class Status(StrEnum):
    """How well a claim is supported."""

    PROVEN = "proven"
    """Exit facts or the orchestrator's report prove it."""

    PROVISIONAL = "provisional"
    """Log lines or a signal suggest it; later evidence may revise it."""

    OPEN = "open"
    """No evidence: a person has to judge."""


@dataclass(frozen=True, slots=True)
class Claim:
    """One claim about an end.

    Attributes:
        says: The cause, or the outlook.
        status: How well it is supported.
        evidence: The lines and facts that support it; for an open claim, what was examined.
    """

    says: str
    status: Status
    evidence: tuple[str, ...]


def cause_claim(failure: FailureClassified) -> Claim:
    """Return the claim about the cause of an end."""
    if failure.cause in UNKNOWN:
        return Claim(failure.cause, Status.OPEN, failure.evidence)
    if not failure.rules:
        by_facts = failure.confidence == 1.0 or failure.cause in OUT_OF_MEMORY
        status = Status.PROVEN if by_facts else Status.PROVISIONAL
        return Claim(failure.cause, status, failure.evidence)
    return Claim(failure.cause, Status.PROVISIONAL, _cited(failure) or failure.evidence)


def outlook_claim(failure: FailureClassified) -> Claim:
    """Return the claim about a retry. Its evidence may differ from that of the cause."""
    outlook = failure.outlook
    if failure.rules:
        rests = (f"{failure.rules[0]}: {OUTLOOK_SAYS[outlook]}", *_cited(failure))
        return Claim(outlook.value, Status.PROVISIONAL, rests)
    if failure.cause not in UNKNOWN:
        rests = (f"{failure.cause}: {OUTLOOK_SAYS[outlook]}", *failure.evidence[:1])
        return Claim(outlook.value, cause_claim(failure).status, rests)
    # The cause is unknown. An end by a signal, without an error of its own, supports one retry.
    status = Status.OPEN if outlook is Outlook.ASK else Status.PROVISIONAL
    return Claim(outlook.value, status, failure.evidence)


def _cited(failure: FailureClassified) -> tuple[str, ...]:
    """Return the lines cited for the cause."""
    return tuple(line for line in failure.evidence if line.startswith(f"{failure.cause} ("))
