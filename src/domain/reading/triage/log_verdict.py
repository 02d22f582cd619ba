"""The verdict on a text: what its signatures say, held to evidence that something ended."""

from dataclasses import replace

from watchkeeper.domain.reading.signatures.model import OUTLOOKS, Label, Rank
from watchkeeper.domain.reading.signatures.scanner import Scanner
from watchkeeper.domain.reading.triage.context import Context
from watchkeeper.domain.reading.triage.last_lines import unexplained
from watchkeeper.domain.reading.triage.texts import Told, Triage, told_by, verdict_of

EXCERPT_LINES_MAX = 60
"""A longer text is a log."""


def triage_text(text: str, context: Context | None = None) -> Triage:
    """Name what broke from a text and what is known around it. Never raises."""
    scanner = Scanner()
    scanner.feed(text.encode("utf-8", "replace"))
    return triage_of(scanner, context)


def triage_of(scanner: Scanner, context: Context | None = None) -> Triage:
    """Return the verdict on what a scanner has read, and on what is known around it.

    Args:
        scanner: Every line of the text was fed to it.
        context: Exit facts, states and attempts, where they are known.
    """
    claims = told_by(scanner, context)
    found = verdict_of(claims, scanner, context)
    if not claims and not scanner.blank and scanner.lines > EXCERPT_LINES_MAX:
        return unexplained(scanner) or found
    if claims and not has_end_evidence(claims):
        return replace(found, label=Label.UNKNOWN, outlook=OUTLOOKS[Label.UNKNOWN])
    return found


def has_end_evidence(claims: list[Told]) -> bool:
    """Return whether any claim states a failure.

    A fact of the context states one, and so does every signature but a symptom. A symptom, such as
    a timeout, is also what a healthy job prints, so it names no cause by itself.
    """
    return any(claim.number == 0 or claim.rank is not Rank.SYMPTOM for claim in claims)
