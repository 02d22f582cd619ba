"""The verdict on a text: its signatures, if evidence shows an end."""

import re
from dataclasses import replace

from watchkeeper.domain.reading.progress.lines import read_line
from watchkeeper.domain.reading.signatures.matcher import matcher
from watchkeeper.domain.reading.signatures.model import OUTLOOKS, Label, Rank
from watchkeeper.domain.reading.signatures.prefixes import bare
from watchkeeper.domain.reading.signatures.scanner import Scanner
from watchkeeper.domain.reading.triage.context import Context
from watchkeeper.domain.reading.triage.texts import (
    LINE_MAX,
    Evidence,
    TextClaim,
    Triage,
    fingerprint_of,
    text_claims,
    verdict_of,
)
from watchkeeper.domain.values.causes import Outlook

LAST_LINES = 20
"""An error that more lines follow was not what ended the run."""


RULE = "mark.level"


_CONFIDENCE = 0.6


_LEVEL = re.compile(
    r"^\s*(?:\S+ +){0,4}?[\[(<|]?(?P<word>ERROR|FATAL|CRITICAL|SEVERE)[\])>|]?(?=[\s:|,-])"
    r"(?!\s*[:=]? *\d)"
    r"|^\s*(?:\([^)]*\) ?)?[EF]\d{4} \d\d:\d\d:\d\d\S* +\d+ \S+:\d+\]"
    r"|\b(?:level|lvl|severity)=\"?(?:error|fatal|critical|panic)\b"
    r"|\"(?:level|levelname|severity)\": ?\"(?:error|fatal|critical)\"(?!.*\"level\": ?\"info)"
)
"""A level as loguru, logging, glog and absl, logfmt and JSON loggers write it."""


_WENT_WELL = re.compile(r"\bSUCCEEDED\b|(?:finished|completed) successfully", re.IGNORECASE)


def unexplained(scanner: Scanner) -> Triage | None:
    """Return `unknown` if the last lines of a harmless log show an error, else `None`.

    Args:
        scanner: The finished scanner of a log without a known failure.
    """
    lines = scanner.tail.decode("utf-8", "replace").rstrip("\n").split("\n")
    recovered = max((hit.number for hit in scanner.answered.values()), default=0)
    for back, line in enumerate(reversed(lines[-LAST_LINES:])):
        number = scanner.lines - back
        if number <= recovered or read_line(line) or _WENT_WELL.search(line):
            return None
        level = _LEVEL.search(line)
        if level is not None and not _is_explained(line[level.end() :]):
            shown = line.strip()[:LINE_MAX]
            return Triage(
                label=Label.UNKNOWN,
                secondary=(),
                fingerprint=fingerprint_of(Label.UNKNOWN, bare(line)),
                confidence=_CONFIDENCE,
                rules=(RULE,),
                evidence=(Evidence(shown, number, RULE),),
                outlook=Outlook.ASK,
            )
    return None


def _is_explained(message: str) -> bool:
    """Return whether a guard knows the message of an error as harmless."""
    return bool(matcher().read(f"ERROR: {message.strip(' |-:')}").silenced)


EXCERPT_LINES_MAX = 60
"""A longer text is a log."""


def triage_text(text: str, context: Context | None = None) -> Triage:
    """Return what broke, from a text and its known context. Never raises."""
    scanner = Scanner()
    scanner.feed(text.encode("utf-8", "replace"))
    return triage_of(scanner, context)


def triage_of(scanner: Scanner, context: Context | None = None) -> Triage:
    """Return the verdict on what a scanner has read, with its known context.

    Args:
        scanner: The scanner, after it read the whole text.
        context: Exit facts, states and attempts, as far as they are known.
    """
    claims = text_claims(scanner, context)
    found = verdict_of(claims, scanner, context)
    if not claims and not scanner.blank and scanner.lines > EXCERPT_LINES_MAX:
        return unexplained(scanner) or found
    if claims and not has_end_evidence(claims):
        return replace(found, label=Label.UNKNOWN, outlook=OUTLOOKS[Label.UNKNOWN])
    return found


def has_end_evidence(claims: list[TextClaim]) -> bool:
    """Return whether any claim states a failure.

    A fact of the context states one, and so does every signature but a symptom. A healthy job may
    also print a symptom, such as a timeout, so a symptom alone names no cause.
    """
    return any(claim.number == 0 or claim.rank is not Rank.SYMPTOM for claim in claims)
