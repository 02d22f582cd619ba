"""Reads a text by how it is worded: groups of letters, words and signatures, each with a weight.

Signatures know messages; most texts of the world say the same in words that nobody has listed. What
stands here adds up weights that were learnt from labelled texts (tools/train_text_model.py). It is
a linear model, so that what spoke for a class can be shown: the line that weighs most.
"""

import re
import zlib
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from watchkeeper.domain.triage.signatures.model import Label, Rank
from watchkeeper.domain.triage.signatures.prefixes import bare

LETTERS_MIN = 2
LETTERS_MAX = 5
"""Groups of so many letters: a part of a word, also over its ends."""

TEXT_MAX = 8_000
"""Characters that are read of a text."""

_WORDS_SALT = 77
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|_")
_NUMBER = re.compile(r"\b0x[0-9a-f]+\b|\b[0-9a-f]{8,}\b|\d+")
_WORD = re.compile(r"[a-z0-9]+|[^\sa-z0-9]")
_SPREAD = np.uint32(0x9E3779B1)
_MIX = np.uint32(0x85EBCA77)
_PRIME = np.uint32(16777619)
_PAIR = np.uint32(31)


@dataclass(frozen=True, slots=True, eq=False)
class Weights:
    """What was learnt of one kind of features; their number is a power of two.

    Attributes:
        rarity: For each feature how rare it is (inverse document frequency).
        weights: For each feature a row: how much it speaks for each class, in units of `scale`.
        scale: What one unit weighs.
    """

    rarity: NDArray[np.float32]
    weights: NDArray[np.int8]
    scale: float


@dataclass(frozen=True, slots=True, eq=False)
class TextModel:
    """A linear reading of texts.

    Attributes:
        labels: The classes, in the order of the columns.
        letters: Groups of letters.
        words: Words and pairs of words.
        signs: For each name of `rules_told` and `manners_of` a row of weights.
        bias: What each class weighs before anything is read.
        sharpness: Turns weights into probabilities; fitted on texts that were held back.
    """

    labels: tuple[Label, ...]
    letters: Weights
    words: Weights
    signs: dict[str, NDArray[np.float32]]
    bias: NDArray[np.float32]
    sharpness: float


def plain(text: str) -> str:
    """Return a text without what stands before its lines, with words parted and numbers equal."""
    text = "\n".join(bare(line) for line in text[:TEXT_MAX].split("\n"))
    spaced = _NUMBER.sub("0", _CAMEL.sub(" ", text).lower())
    return f" {' '.join(spaced.split())} "


def letter_features(text: str, count: int) -> NDArray[np.uint32]:
    """Return the features of a plain text's groups of letters, one for each place: 0 to count-1."""
    codes = np.frombuffer(text.encode("utf-8", "replace"), np.uint8).astype(np.uint32)
    found: list[NDArray[np.uint32]] = []
    grams = codes
    for size in range(LETTERS_MIN, min(LETTERS_MAX, len(codes)) + 1):
        grams = (grams[:-1] * _PRIME) ^ codes[size - 1 :]
        found.append(grams ^ np.uint32(size))
    return _bucket(np.concatenate(found), count) if found else np.zeros(0, np.uint32)


def word_features(text: str, count: int) -> NDArray[np.uint32]:
    """Return the features of a plain text's words and pairs of words."""
    words = [zlib.crc32(word.encode("utf-8", "replace")) for word in _WORD.findall(text)]
    codes = np.array(words, np.uint32)
    pairs = (codes[:-1] * _PAIR) ^ codes[1:]
    salted = (codes ^ np.uint32(_WORDS_SALT), pairs ^ np.uint32(_WORDS_SALT + 1))
    return _bucket(np.concatenate(salted), count)


def _bucket(salted: NDArray[np.uint32], count: int) -> NDArray[np.uint32]:
    mixed = salted * _SPREAD
    mixed ^= mixed >> np.uint32(15)
    mixed *= _MIX
    mixed ^= mixed >> np.uint32(13)
    return mixed & np.uint32(count - 1)


def rules_told(rules: Iterable[tuple[str, Label, Rank]], root: Label) -> frozenset[str]:
    """Return the names of what signatures say of a text: which held, and what they conclude.

    Args:
        rules: Id, class and rank of each signature that held.
        root: The class that the signatures alone conclude; `benign` where none held.
    """
    told = list(rules)
    sure = any(label is root and rank >= Rank.SPECIFIC for _, label, rank in told)
    names = {name for name, _, _ in told} | {f"root:{root.value}"}
    return frozenset(names | ({f"sure:{root.value}"} if sure else set()))


def weighed(
    features: NDArray[np.uint32], rarity: NDArray[np.float32]
) -> tuple[NDArray[np.uint32], NDArray[np.float32]]:
    """Return each feature once with its share: the oftener and rarer the more, of length 1."""
    once, times = _counted(features)
    shares = (1 + np.log(times.astype(np.float32))) * rarity[once]
    length = float(np.sqrt(shares @ shares)) or 1.0
    return once, shares / np.float32(length)


def _counted(features: NDArray[np.uint32]) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """Return each feature once, and how often it stands there: a third of `np.unique`'s time."""
    ordered = np.sort(features)
    begins = np.empty(len(ordered) + 1, np.bool_)
    begins[0] = begins[-1] = True
    np.not_equal(ordered[1:], ordered[:-1], out=begins[1:-1])
    places = begins.nonzero()[0]
    return ordered[places[:-1]], places[1:] - places[:-1]


def scores_of(model: TextModel, text: str, signs: frozenset[str]) -> NDArray[np.float32]:
    """Return how much a text speaks for each class of `model.labels`; only differences count.

    Args:
        model: What was learnt.
        text: An excerpt, as people paste it.
        signs: What signatures and manners say of it (`rules_told`, `speech.manners_of`).
    """
    return scores_of_plain(model, plain(text), signs)


def scores_of_plain(model: TextModel, read: str, signs: frozenset[str]) -> NDArray[np.float32]:
    """Return the same of a text that is `plain` already, as who learns has thousands of them."""
    total = model.bias.copy()
    for part, found in (
        (model.letters, letter_features(read, len(model.letters.rarity))),
        (model.words, word_features(read, len(model.words.rarity))),
    ):
        once, shares = weighed(found, part.rarity)
        total += (shares @ part.weights[once].astype(np.float32)) * np.float32(part.scale)
    for name in sorted(signs):
        row = model.signs.get(name)
        if row is not None:
            total += row
    return total


def likelihoods(model: TextModel, scores: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the probability of each class; they add up to 1."""
    powers = np.exp((scores - scores.max()) * np.float32(model.sharpness))
    chances: NDArray[np.float32] = powers / powers.sum()
    return chances
