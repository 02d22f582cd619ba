"""Reads an excerpt twice: what signatures know of it, and how it is worded.

A whole log is judged by signatures alone: it holds every word there is. An excerpt of a few lines,
as people paste it into a chat or an issue, is mostly words that no signature lists.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from watchkeeper.domain.triage.context import Context, tells_of_its_end
from watchkeeper.domain.triage.log_verdict import by_signatures, is_excerpt
from watchkeeper.domain.triage.signatures.model import OUTLOOKS, Label
from watchkeeper.domain.triage.signatures.scanner import Scanner
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

Sentences = Callable[[str], NDArray[np.float32]]
"""Reads an excerpt as whole sentences: its log-likelihood for each class, in `Label`'s order."""

SURE = 0.7
"""What words and signatures are as sure of is not read as sentences: of texts of new files that is
three quarters. To read all as sentences brought 0.005 of F1 there, and takes three times as long.
"""

SENTENCES_SHARE = 0.6
"""How much sentences count beside words and signatures. Between 0.5 and 0.8 new files are read
alike."""

CALM_LEAN = 0.4
"""Added for `benign` where both are heard: files that were held back are read as well in all with
0.7, and worse with 1."""

_SECOND_MIN = 0.1
"""A class that is less likely is no other reading."""

_CHANCE_MIN = 1e-6
_CALM = tuple(Label).index(Label.BENIGN)
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
    return found if calmed and scanner.lines > CALM_LINES_MAX else read


def signs_of(text: str, told: list[Told], root: Label) -> frozenset[str]:
    """Return what signatures and manners say of a text, in names that a model has weights for.

    Args:
        text: The excerpt.
        told: What signatures say of it.
        root: The class that they conclude.
    """
    return manners_of(text) | rules_told(((one.rule, one.label, one.rank) for one in told), root)


def together(words: NDArray[np.float32], sentences: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the likelihood of each class by both readings; they add up to 1.

    Args:
        words: Likelihoods by words and signatures, in `Label`'s order.
        sentences: Log-likelihoods by sentences.
    """
    if words.max() >= SURE:
        return words
    powers = np.log(words + np.float32(_CHANCE_MIN)) * np.float32(1 - SENTENCES_SHARE)
    powers += sentences * np.float32(SENTENCES_SHARE)
    powers[_CALM] += np.float32(CALM_LEAN)
    chances = np.exp(powers - powers.max())
    shared: NDArray[np.float32] = chances / chances.sum()
    return shared


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
