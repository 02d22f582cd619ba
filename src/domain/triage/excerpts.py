"""Reads an excerpt twice: what signatures know of it, and how it is worded.

A whole log is judged by signatures alone: it holds every word there is. An excerpt of a few lines,
as people paste it into a chat or an issue, is mostly words that no signature lists.
"""

from dataclasses import replace

from watchkeeper.domain.triage.both_readings import SURE, Sentences, together
from watchkeeper.domain.triage.context import Context, tells_of_its_end
from watchkeeper.domain.triage.log_verdict import by_signatures, is_excerpt
from watchkeeper.domain.triage.signatures.model import OUTLOOKS, Label, Rank
from watchkeeper.domain.triage.signatures.scanner import SUCCESS, Scanner
from watchkeeper.domain.triage.speech import manners_of
from watchkeeper.domain.triage.text_model import TextModel, likelihoods, rules_told, scores_of
from watchkeeper.domain.triage.texts import (
    EVIDENCE_MAX,
    LINE_MAX,
    Evidence,
    Told,
    Triage,
    fingerprint_of,
)

WORDING = "text.wording"
"""Stands among the rules where the wording decided, and not a signature."""

CALM_LINES_MAX = 12
"""In a longer text what signatures call a failure stays one, whatever its wording: the model has
learnt from texts of 1 to 6 lines, and a log's many harmless lines would outvote the few that tell.
"""

_GIVEN_UP = frozenset({"mark.failure-limit", "mark.given-up"})
"""Signatures that say that a job was given up: however calmly they are worded, it failed."""

_GUESSED = "calm.guessed-memory"
"""Took a guess at memory out of what signatures read: its words are no witness either."""

_SECOND_MIN = 0.1
"""A class that is less likely is no other reading."""

_SECONDS_MAX = 3
_CONFIDENCE_MAX = 0.99


def triage_excerpt(
    text: str,
    context: Context | None = None,
    model: TextModel | None = None,
    sentences: Sentences | None = None,
) -> Triage:
    """Name what broke from a text, what is known around it, and its wording. Never raises."""
    scanner = Scanner()
    scanner.feed(text.encode("utf-8", "replace"))
    return concluded(scanner, context, model, sentences)


def concluded(
    scanner: Scanner,
    context: Context | None = None,
    model: TextModel | None = None,
    sentences: Sentences | None = None,
) -> Triage:
    """Judge what a scanner has kept; of an excerpt also the wording, where a model is given.

    Args:
        scanner: What was read.
        context: What is known around the text.
        model: Reads the wording of an excerpt.
        sentences: Asked as well, where the model is not sure.
    """
    told, found = by_signatures(scanner, context)
    known_around = any(claim.number == 0 for claim in told) or tells_of_its_end(context)
    if scanner.blank or model is None or known_around or not is_excerpt(scanner):
        # Of nothing to read there is no line to show, and no word to read.
        return found
    read = _reread(found, told, scanner.tail.decode("utf-8", "replace"), model, sentences)
    calmed = read.label is Label.BENIGN and found.label is not Label.BENIGN
    failed = any(claim.rule in _GIVEN_UP for claim in told)
    if calmed and (failed or scanner.lines > CALM_LINES_MAX):
        return found
    if _GUESSED in scanner.silenced and (found.label, read.label) == (
        Label.UNKNOWN,
        Label.HOST_OOM,
    ):
        return found
    alarmed = found.label is Label.BENIGN and read.label in _noise_of_an_end(scanner)
    return found if alarmed else read


def _noise_of_an_end(scanner: Scanner) -> frozenset[Label]:
    """Return the classes that name no cause where a weak error came after a stated success.

    A reader that left is such an error. A mark alone, such as a killed process, is none: the
    wording may doubt the success; nor does a symptom hide a class of which it is none.
    """
    succeeded = scanner.answered.get(SUCCESS)
    if succeeded is None:
        return frozenset()
    hits = (hit for hit in scanner.silenced.values() if hit.number > succeeded.number)
    after = [hit.signature for hit in hits]
    weak = [one for one in after if one.label is not Label.BENIGN and one.rank > Rank.MARK]
    symptoms = {one.label for one in weak if one.rank is Rank.SYMPTOM}
    return frozenset({Label.UNKNOWN, *symptoms}) if weak else frozenset()


def signs_of(text: str, told: list[Told], root: Label) -> frozenset[str]:
    """Return what signatures and manners say of a text, in names that a model has weights for.

    Args:
        text: The excerpt.
        told: What signatures say of it.
        root: The class that they conclude.
    """
    return manners_of(text) | rules_told(((one.rule, one.label, one.rank) for one in told), root)


def _reread(
    found: Triage,
    told: list[Told],
    text: str,
    model: TextModel,
    sentences: Sentences | None,
) -> Triage:
    chances = likelihoods(model, scores_of(model, text, signs_of(text, told, found.label)))
    if sentences is not None and chances.max() < SURE:
        chances = together(chances, sentences(text))
    order = chances.argsort()[::-1]
    label = model.labels[int(order[0])]
    likely = [model.labels[int(at)] for at in order[1:] if chances[int(at)] >= _SECOND_MIN]
    confidence = min(round(float(chances[int(order[0])]), 2), _CONFIDENCE_MAX)
    # The signatures' own reading comes before a merely likely one.
    others = [one for one in (found.label, *likely, *found.secondary) if one is not label]
    seconds = tuple(dict.fromkeys(others))[:_SECONDS_MAX]
    if label is found.label:
        return replace(found, secondary=seconds, confidence=confidence)
    lines = _lines_for(label, text, model)
    return Triage(
        label=label,
        secondary=seconds,
        fingerprint=fingerprint_of(label, lines[0].line) if label is not Label.BENIGN else "",
        confidence=confidence,
        rules=(WORDING, *found.rules)[:EVIDENCE_MAX],
        evidence=(*lines, *(one for one in found.evidence if one.line != lines[0].line))[
            :EVIDENCE_MAX
        ],
        outlook=OUTLOOKS[label],
    )


def _lines_for(label: Label, text: str, model: TextModel) -> tuple[Evidence, ...]:
    """Return the line that speaks most for a class."""
    column = model.labels.index(label)
    lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    number, line = lines[0]
    if len(lines) > 1:
        number, line = max(
            lines, key=lambda one: float(scores_of(model, one[1], frozenset())[column])
        )
    return (Evidence(line.strip()[:LINE_MAX], number, WORDING),)
