"""Classifies the failure in a text.

The result is the class, its confidence, the lines that support it, and an outlook.

A signature names a cause. The strongest claim wins. Of equal claims the first in the text wins,
because later failures follow from the first. Lines that a guard marks as harmless are not read. If
nothing names a cause, a text that shows a failure is `unknown`. Every other text is `benign`.
"""

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from watchkeeper.domain.reading.signatures.echoes import is_frame
from watchkeeper.domain.reading.signatures.model import OUTLOOKS, Label, Rank, outlook_of
from watchkeeper.domain.reading.signatures.prefixes import bare
from watchkeeper.domain.reading.signatures.scanner import Hit, Scanner
from watchkeeper.domain.reading.signatures.trends import diverging_line
from watchkeeper.domain.reading.triage.announced import WeakClaim, failures_in
from watchkeeper.domain.reading.triage.context import (
    Context,
    ContextFact,
    ended_well,
    facts_of,
    states_no_failure,
)
from watchkeeper.domain.reading.triage.frames import label_above
from watchkeeper.domain.reading.triage.transient_errors import (
    ending_of,
    is_own_error,
    is_survivable,
)
from watchkeeper.domain.reading.triage.volatile import normalise
from watchkeeper.domain.values.causes import Outlook

EVIDENCE_MAX = 8
LINE_MAX = 300

_LIST_LINES_MAX = 60
_LIST_LABELS_MIN = 3
"""A text that names so many classes on as many lines is documentation, not a failure."""

_EXPLAINS: dict[Label, tuple[Label, ...]] = {
    Label.PREEMPTION: (
        Label.NODE_FAILURE,
        Label.CONTROLLER_FAILURE,
        Label.CAPACITY_WEDGE,
        Label.COLLECTIVE_HANG,
        Label.USER_STOPPED,
        Label.NETWORK,
    ),
    Label.NODE_FAILURE: (Label.COLLECTIVE_HANG, Label.NETWORK, Label.CONTROLLER_FAILURE),
    Label.DISK_FULL: (Label.CHECKPOINT_ERROR, Label.DATA_ERROR, Label.WANDB_ERROR),
    Label.HOST_OOM: (Label.USER_STOPPED, Label.NODE_FAILURE, Label.DISK_FULL),
    Label.HBM_OOM: (Label.COLLECTIVE_HANG, Label.CODE_BUG),
    Label.CAPACITY_WEDGE: (Label.CONFIG_ERROR, Label.HBM_OOM, Label.HOST_OOM),
    Label.COLLECTIVE_HANG: (Label.NETWORK,),
    Label.WANDB_ERROR: (Label.NETWORK, Label.CONFIG_ERROR),
    Label.TPU_BAD_NODE: (Label.CONFIG_ERROR,),
    Label.NUMERICAL: (Label.CHECKPOINT_ERROR, Label.CODE_BUG),
    Label.CHECKPOINT_ERROR: (Label.CONFIG_ERROR, Label.DATA_ERROR, Label.CODE_BUG),
    Label.CONTROLLER_FAILURE: (Label.NETWORK,),
}
"""By label, the labels that are its consequences if they are as strong."""

_CONFIDENCE = {
    Rank.ROOT: 0.95, Rank.SPECIFIC: 0.88, Rank.SYMPTOM: 0.75, Rank.GENERIC: 0.65, Rank.MARK: 0.5,
}  # fmt: skip
_UNKNOWN_CONFIDENCE = 0.6
_TRANSIENT_CONFIDENCE = 0.3

_PLACES = re.compile(
    r"\b[0-9a-f]{4}(?:[0-9a-f]{4})?:[0-9a-f]{2}:[0-9a-f]{2}(?:\.\d)?\b|(?:\b[a-z]+://|(?<![\w/])/)[^\s'\",;:)\]}]+|\b(?:\d{1,3}\.){3}\d{1,3}\b(?::\d+)?"
    r"|\b[\w-]+(?:\.[\w-]+)*\.(?:internal|local|svc|compute|cluster|com|org|net)\b(?::\d+)?"
    r"|\b(?:node|host|worker|rank|gpu|pod|ip|vm|tpu|cpu|pid|tid)[-_ ]?[\w.-]*\d[\w.-]*",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Evidence:
    """One line that supports a verdict.

    Attributes:
        line: The line, at most 300 characters.
        number: Its number in the text, from 1; 0 for a fact of the context.
        rule: The signature's id.
        also: Ids of the other signatures that matched it.
    """

    line: str
    number: int
    rule: str
    also: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Triage:
    """The classified failure of a text, or that nothing failed.

    Attributes:
        label: The most probable cause; `unknown` is an honest answer.
        secondary: Other possible causes, the most likely first.
        fingerprint: 8 hex digits, the same for the same failure. Empty if nothing failed or the
            text is empty.
        confidence: From 0 to 1: how specific the matched message is.
        rules: Ids of the signatures that decided, the deciding one first.
        evidence: The lines, the root cause first.
        outlook: Whether a retry makes sense; independent of the cause.
    """

    label: Label
    secondary: tuple[Label, ...]
    fingerprint: str
    confidence: float
    rules: tuple[str, ...]
    evidence: tuple[Evidence, ...]
    outlook: Outlook


EMPTY = "text.empty"
"""The rule of a verdict on an empty text."""

NOTHING_READ = Triage(Label.UNKNOWN, (), "", 0.0, (EMPTY,), (), Outlook.ASK)
"""The verdict on an empty text. It has no fingerprint, because nothing was read."""


@dataclass(frozen=True, slots=True)
class TextClaim:
    """A claim of one line or one fact about the cause.

    Attributes:
        label: The class that it names.
        rank: How close it is to the root cause.
        number: The line's number, from 1; 0 for a fact of the context.
        rule: The signature's id.
        line: The line.
        outlook: Whether a retry makes sense.
        also: Other possible causes.
        transient: Training continued after it, and failed later by another error.
    """

    label: Label
    rank: Rank
    number: int
    rule: str
    line: str
    outlook: Outlook
    also: tuple[Label, ...]
    transient: bool = False


def verdict_of(claims: list[TextClaim], scanner: Scanner, context: Context | None = None) -> Triage:
    """Sum up what `text_claims` returned.

    An empty text is `unknown`, unless the context shows a successful end. An empty text does not
    prove that nothing failed.
    """
    if claims:
        return _verdict(claims)
    if scanner.blank and not states_no_failure(context):
        return NOTHING_READ
    return _benign(scanner)


def text_claims(scanner: Scanner, context: Context | None = None) -> list[TextClaim]:
    """Return the claims of the kept lines and the context, root first; empty if harmless."""
    scanner.finish()
    claims = [_claim_of(hit) for kept in scanner.kept.values() for hit in (*kept.first, *kept.last)]
    trend_line = diverging_line(scanner.tail.decode("utf-8", "replace"))
    if trend_line:
        outlook = OUTLOOKS[Label.NUMERICAL]
        number = scanner.lines
        claims.append(
            TextClaim(Label.NUMERICAL, Rank.SPECIFIC, number, "nan.trend", trend_line, outlook, ())
        )
    claims = [one for one in claims if one.rank > _harmless_up_to(context)]
    claims += [_from_fact(fact) for fact in facts_of(context)]
    if context is not None and context.planned_acts:
        claims = _without_stop(claims)
    claims = _mark_transient(claims, scanner)
    if not claims or _is_enumeration(claims, scanner):
        return []
    return _root_first(claims)


def _harmless_up_to(context: Context | None) -> int:
    """Return the rank up to which a text's claims are ignored, given its known end.

    After a success they are the noise of a shutdown, unless a line names a cause.
    """
    return Rank.SYMPTOM if ended_well(context) else Rank.MARK - 1


def _mark_transient(claims: list[TextClaim], scanner: Scanner) -> list[TextClaim]:
    """Mark failures that training survived before it failed by another error."""
    transients = [one for one in claims if one.number and is_survivable(one.label)]
    transient_lines = {one.number for one in transients}
    errors = [one for one in claims if one.number and one.number not in transient_lines]
    if not transients or not errors:
        return claims
    tail = scanner.tail.decode("utf-8", "replace").removesuffix("\n").split("\n")
    ending = ending_of(tail, scanner.lines)
    ends = [one for one in errors if ending.is_end(one.number)]
    gone = [
        one
        for one in transients
        if ending.is_transient(one.number)
        and any(is_own_error(end.label, end.rule, end.line, one.label) for end in ends)
    ]
    return [replace(one, rank=Rank.MARK, transient=True) if one in gone else one for one in claims]


def _without_stop(claims: list[TextClaim]) -> list[TextClaim]:
    """Drop the marks of an announced stop, in the text and its context."""
    weak = {_weak(one): one for one in claims if one.rank is Rank.MARK}
    failed = set(failures_in(tuple(weak)))
    return [one for one in claims if one.rank is not Rank.MARK or _weak(one) in failed]


def _weak(one: TextClaim) -> WeakClaim:
    return WeakClaim(one.rule, one.number, one.line)


def _is_enumeration(claims: list[TextClaim], scanner: Scanner) -> bool:
    """Return whether a text lists possible failures: many causes, and no log line."""
    if scanner.lines > _LIST_LINES_MAX or scanner.logged:
        return False
    named = {claim.label for claim in claims if claim.number and claim.rank >= Rank.SYMPTOM}
    lines = {claim.number for claim in claims if claim.number and claim.rank >= Rank.SYMPTOM}
    return len(named) >= _LIST_LABELS_MIN and len(lines) >= _LIST_LABELS_MIN


def _from_fact(fact: ContextFact) -> TextClaim:
    outlook = fact.outlook or OUTLOOKS[fact.label]
    return TextClaim(fact.label, fact.rank, 0, fact.rule, fact.says, outlook, fact.also)


def _claim_of(hit: Hit) -> TextClaim:
    signature = hit.signature
    label, rank, outlook, also = (
        signature.label,
        signature.rank,
        outlook_of(signature),
        signature.also,
    )
    moved = label_above(hit)
    if moved is not None and moved is not label:
        also = (label, *also) if label is not Label.UNKNOWN else also
        # A frame only leads to the error. The error says more if the traceback is complete.
        least = Rank.MARK if is_frame(hit.line) else Rank.GENERIC
        label, rank, outlook = moved, max(rank, least), OUTLOOKS[moved]
    return TextClaim(label, rank, hit.number, signature.id, hit.line, outlook, also)


def _tier(rank: Rank) -> int:
    # A generic error and a symptom have the same weight: the first in the text is the cause.
    return {Rank.MARK: 0, Rank.GENERIC: 1, Rank.SYMPTOM: 1, Rank.SPECIFIC: 2, Rank.ROOT: 3}[rank]


def _root_first(claims: list[TextClaim]) -> list[TextClaim]:
    """Order claims: the strongest first; equal claims in the order of the text."""
    claims.sort(
        key=lambda one: (
            one.transient,
            -_tier(one.rank),
            one.label is Label.UNKNOWN and one.rank is Rank.MARK,
            one.number,
            -one.rank,
        )
    )
    top = _strongest(claims)
    labels = {one.label for one in top}
    explained = {b for a in labels for b in _EXPLAINS.get(a, ()) if a is not b}
    root = next((one for one in top if one.label not in explained), top[0])
    return [root, *(one for one in claims if one is not root)]


def _strongest(claims: list[TextClaim]) -> list[TextClaim]:
    best = max(_tier(one.rank) for one in claims)
    return [one for one in claims if _tier(one.rank) == best]


def _verdict(ordered: list[TextClaim]) -> Triage:
    """Sum up claims, in their order."""
    root, top = ordered[0], _strongest(ordered)
    others = dict.fromkeys(
        label
        for claim in ordered
        for label in (claim.label, *(claim.also if claim is root else ()))
        if label is not root.label and label is not Label.UNKNOWN
    )
    return Triage(
        label=root.label,
        secondary=tuple(others)[:3],
        fingerprint=fingerprint_of(root.label, root.line),
        confidence=confidence_of(root, top),
        rules=tuple(dict.fromkeys(claim.rule for claim in ordered))[:EVIDENCE_MAX],
        evidence=_evidence((claim.line, claim.number, claim.rule) for claim in ordered),
        outlook=root.outlook,
    )


def confidence_of(root: TextClaim, top: list[TextClaim]) -> float:
    """Return how specific the matched message is, 0 to 1; less if others contradict."""
    if root.transient:
        return _TRANSIENT_CONFIDENCE
    if root.label is Label.UNKNOWN:
        return _UNKNOWN_CONFIDENCE
    doubt = 0.1 if any(claim.label is not root.label for claim in top) else 0.0
    return round(_CONFIDENCE[root.rank] - doubt, 2)


def _benign(scanner: Scanner) -> Triage:
    seen = [*scanner.answered.values(), *scanner.silenced.values()]
    return Triage(
        label=Label.BENIGN,
        secondary=(),
        fingerprint="",
        confidence=0.9 if seen else 0.8,
        rules=tuple(hit.signature.id for hit in seen)[:EVIDENCE_MAX],
        evidence=_evidence((hit.line, hit.number, hit.signature.id) for hit in seen),
        outlook=OUTLOOKS[Label.BENIGN],
    )


def _evidence(claims: Iterable[tuple[str, int, str]]) -> tuple[Evidence, ...]:
    """Return each line once, in order, with the signatures that matched it."""
    rules: dict[tuple[str, int], dict[str, None]] = {}
    for line, number, rule in claims:
        rules.setdefault((line.strip()[:LINE_MAX], number), {})[rule] = None
    return tuple(
        Evidence(line, number, first, tuple(others))
        for (line, number), (first, *others) in list(rules.items())[:EVIDENCE_MAX]
    )


def fingerprint_of(label: Label, line: str) -> str:
    """Return 8 hex digits: the same for the same failure on another host, step, path or day."""
    plain = normalise(_PLACES.sub("<place>", bare(line))).lower()
    return hashlib.sha256(f"{label.value}\n{plain}".encode("utf-8", "replace")).hexdigest()[:8]
