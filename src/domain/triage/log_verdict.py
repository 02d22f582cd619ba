"""What signatures alone make of a log: all that a long one is judged by."""

from watchkeeper.domain.triage.context import Context
from watchkeeper.domain.triage.last_lines import unexplained
from watchkeeper.domain.triage.signatures.scanner import TAIL_BYTES, Scanner
from watchkeeper.domain.triage.texts import Told, Triage, told_by, verdict_of

EXCERPT_LINES_MAX = 60
"""A longer text is a log."""


def by_signatures(scanner: Scanner, context: Context | None = None) -> tuple[list[Told], Triage]:
    """Return what signatures say of what a scanner has kept, and the verdict on it."""
    told = told_by(scanner, context)
    found = verdict_of(told, scanner, context)
    if not scanner.blank and not told and scanner.lines > EXCERPT_LINES_MAX:
        return told, unexplained(scanner) or found
    return told, found


def is_excerpt(scanner: Scanner) -> bool:
    """Say whether a text, read to its end, is short enough for its wording to count."""
    return scanner.lines <= EXCERPT_LINES_MAX and len(scanner.tail) < TAIL_BYTES
