"""The claims about a cause that a check records from a log's tail."""

import re
from collections.abc import Sequence

from watchkeeper.domain.reading.signatures.model import Label
from watchkeeper.domain.reading.signatures.scanner import Scanner
from watchkeeper.domain.reading.triage.texts import LINE_MAX, confidence_of, text_claims
from watchkeeper.domain.values.causes import CLAIMS_MAX, CauseClaim

_TASK = re.compile(
    r"^\s*(?:\[?(rank ?\d+)\]?:|[\[(](rank[ =:_-]?\d+)[\])]|\[(default\d+)\]:"
    r"|\(([^()\s]{1,60} pid=\d+)[^()]*\))",
    re.IGNORECASE,
)


def claims_in(lines: Sequence[str]) -> tuple[CauseClaim, ...]:
    """Return the lines' claims, root first, each line and class once; at most `CLAIMS_MAX`.

    Lines that only show a failure claim no cause. They are kept as evidence.
    """
    text = "\n".join(lines)
    if not text.strip():
        return ()  # The signatures are only loaded for a suspicious tail.
    scanner = Scanner()
    if text.count("\n") >= len(lines):
        text = "\n".join(line.replace("\n", " ") for line in lines)
    scanner.feed(text.encode("utf-8", "replace"))
    scanner.finish()
    if not scanner.kept and not _may_run_away(scanner.tail):
        return ()
    claims: dict[tuple[str, str], CauseClaim] = {}
    for one in text_claims(scanner):
        if one.label is Label.UNKNOWN:
            continue
        line = one.line.strip()[:LINE_MAX]
        claim = CauseClaim(
            label=one.label.value,
            signature=one.rule,
            outlook=one.outlook,
            confidence=confidence_of(one, [one]),
            line=line,
            task=_task_of(one.line),
        )
        claims.setdefault((claim.label, line), claim)
    return tuple(claims.values())[:CLAIMS_MAX]


def _may_run_away(tail: bytes) -> bool:
    """Return whether numbers may diverge; a full search would cost more than all else.

    A loss alone is never enough: a gradient norm or a loss scale has to accompany it.
    """
    lower = tail.lower()
    return b"norm" in lower or b"scale" in lower


def _task_of(line: str) -> str:
    found = _TASK.match(line)
    return next((part for part in found.groups() if part), "") if found else ""
