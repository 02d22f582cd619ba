"""Separates real failures from effects of an announced stop.

A stop leaves signals, cancelled tasks, and complaints of processes that were cut off. A traceback
that no signal ended, or an exit code of a program's own, is a failure, with or without an announced
act.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from watchkeeper.domain.reading.signatures.prefixes import bare

_STOPS = re.compile(
    r"\bSIG(?:TERM|INT|KILL|HUP|QUIT|USR\d)\b|SignalException|KeyboardInterrupt"
    r"|\bsignals?:? ?\(?(?:1|2|3|9|10|12|15)\b|\bclosing signal\b"
    r"|(?:code|status|rc|SystemExit)\W{0,5}(?:129|130|131|137|138|140|143|-1|-2|-3|-9|-10|-12|-15)\b"
    r"|\bterminat(?:ed|ing|ion)\b|\bkill(?:ed|ing)\b|\bcancel\w*|\bdrain\w*|\bpaus(?:ed|ing)\b"
    r"|\binterrupt(?:ed|ing)?\b|\bshut(?:ting)?[- ]?down\b|\bgraceful\w*|\bjob step aborted"
    r"|\bstopp(?:ed|ing)\b(?! (?:making|progress|advanc|respond|emit))|\basked to stop",
    re.IGNORECASE,
)
_NO_STOP = re.compile(
    r"terminate called|unexpected|abnormal|core dumped|SIG(?:ABRT|SEGV|BUS|FPE|ILL)", re.IGNORECASE
)
_ENDS_TRACEBACK = re.compile(r"[\w.]*(?:Signal|Interrupt|Terminat|Cancel|Shutdown|SystemExit)\w*")
_RAISED_BY_A_SIGNAL = re.compile(
    r"(?:[\w.]+\.)?(?:SignalException|SIGTERMException|KeyboardInterrupt)(?::|$)"
    r"|SystemExit: (?:129|130|131|138|140|143)$"
)
"""Exceptions of torchrun, Lightning and Python, and an exit code of 128 plus the number of a caught
signal. The list is kept short: a relaunch may rest on it, and a program's own errors have similar
names."""

_TRACED = ("mark.traceback", "mark.exception")
_HANG_RULE = "mark.hang"
"""The signature of a hang: a job that was announced to stop does not move."""

_FRAME_LINES = 4
"""The last frame of a traceback is at most so many lines above its exception."""


@dataclass(frozen=True, slots=True)
class WeakClaim:
    """A claim that something failed, without a reason.

    Attributes:
        rule: The signature or fact that makes the claim.
        number: The line's number, from 1; 0 for a fact of the context.
        line: The line, or the fact in words.
    """

    rule: str
    number: int
    line: str


def failures_in(weak: Sequence[WeakClaim]) -> list[WeakClaim]:
    """Return which weak claims are failures, not effects of an announced stop.

    Everything after the first sign of a stop is its effect. A traceback that ends in such a sign is
    also an effect. Any sign of a stop explains a fact such as the state `FAILED`.

    Args:
        weak: All weak claims of a text and its context.
    """
    marks = [one for one in weak if is_stop(one.line)]
    known = any(one.number == 0 for one in marks)
    stopped_at = min((one.number for one in marks if one.number), default=None)
    traced = [one.number for one in weak if one.rule in _TRACED]
    ended_by = max((one.number for one in marks if _ends_traceback(one, traced)), default=0)
    said = [
        one
        for one in weak
        if one.number
        and one not in marks
        and one.rule != _HANG_RULE
        and (stopped_at is None or one.number < stopped_at)
        and not (one.rule == "mark.traceback" and one.number < ended_by)
        and (one.rule in _TRACED or not known)
    ]
    if marks and not said:
        return []
    return [*(one for one in weak if one.number == 0 and one not in marks), *said]


def is_stop(line: str) -> bool:
    """Return whether a line names a stop from outside: a signal, a cancelled job, a shutdown."""
    return _STOPS.search(line) is not None and _NO_STOP.search(line) is None


def ended_by_stop(errors: Sequence[str]) -> bool:
    """Return whether all tracebacks are complete and end in an error that a signal raises.

    Args:
        errors: The last line of each traceback; empty for an incomplete one.
    """
    return bool(errors) and all(_RAISED_BY_A_SIGNAL.match(one) for one in errors)


def _ends_traceback(one: WeakClaim, traced: Sequence[int]) -> bool:
    above = any(one.number - _FRAME_LINES <= number < one.number for number in traced)
    return above and _ENDS_TRACEBACK.match(bare(one.line)) is not None
