"""A linear reading: what it reads of a text, and that it adds up what it was given."""

import itertools
import math
import zlib
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from watchkeeper.domain.triage.signatures.model import Label, Rank
from watchkeeper.domain.triage.text_model import (
    LETTERS_MAX,
    LETTERS_MIN,
    TextModel,
    Weights,
    letter_features,
    likelihoods,
    plain,
    rules_told,
    scores_of,
    word_features,
)

COUNT = 64
LABELS = (Label.HOST_OOM, Label.BENIGN)
LETTERS_OF_OOM = [3509, 3715, 6653, 7866, 1974, 11019, 15722, 5699, 16061, 15781]
WORDS_OF_OUT_OF_MEMORY = [8395, 8760, 529, 11331, 10401]
CHANCE = np.random.default_rng(7)


def weights() -> Weights:
    rows = CHANCE.integers(-127, 128, (COUNT, len(LABELS)), np.int8)
    return Weights(CHANCE.uniform(1, 3, COUNT).astype(np.float32), rows, 0.01)


MODEL = TextModel(
    labels=LABELS,
    letters=weights(),
    words=weights(),
    signs={"root:host_oom": np.array([0.5, -0.5], np.float32)},
    bias=np.array([0.1, 0.2], np.float32),
    sharpness=3.0,
)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("OutOfMemoryError", " out of memory error "),
        ("NCCLTimeout at seq_num 12345", " nccl timeout at seq num 0 "),
        ("HTTPError 503", " http error 0 "),
        ("0x7f00deadbeef\n\n  in  frame", " 0 in frame "),
        ("[rank3]: Killed\n[rank4]: Killed", " killed killed "),
        ("2026-01-02 03:04:05,678 (raylet) lost", " lost "),
        ("", "  "),
    ],
)
def test_what_differs_from_run_to_run_is_read_alike(text: str, read: str) -> None:
    assert plain(text) == read


def test_features_are_the_same_on_every_machine() -> None:
    assert letter_features(" oom ", 1 << 14).tolist() == LETTERS_OF_OOM
    assert word_features(" out of memory ", 1 << 14).tolist() == WORDS_OF_OUT_OF_MEMORY


@given(st.text(max_size=40), st.sampled_from([frozenset[str](), frozenset({"root:host_oom"})]))
@settings(max_examples=200, deadline=None)
def test_scores_are_what_plain_arithmetic_says(text: str, signs: frozenset[str]) -> None:
    expected = slowly(text, signs)
    assert scores_of(MODEL, text, signs).tolist() == pytest.approx(expected, abs=1e-3)


def slowly(text: str, signs: frozenset[str]) -> list[float]:
    """Add up in plain Python what the model weighs."""
    total = [float(one) for one in MODEL.bias]
    read = plain(text)
    for part, features in ((MODEL.letters, letters(read)), (MODEL.words, words(read))):
        counts = Counter(features)
        shares = {f: (1 + math.log(n)) * float(part.rarity[f]) for f, n in counts.items()}
        length = math.sqrt(sum(share**2 for share in shares.values())) or 1.0
        for feature, share in shares.items():
            for column in range(len(LABELS)):
                weight = int(part.weights[feature, column]) * part.scale
                total[column] += share / length * weight
    for name in signs:
        total = [a + float(b) for a, b in zip(total, MODEL.signs[name], strict=True)]
    return total


def letters(read: str) -> list[int]:
    data = read.encode("utf-8", "replace")
    found: list[int] = []
    for size in range(LETTERS_MIN, LETTERS_MAX + 1):
        for start in range(len(data) - size + 1):
            code = data[start]
            for byte in data[start + 1 : start + size]:
                code = (code * 16777619 & 0xFFFFFFFF) ^ byte
            found.append(bucket(code, size))
    return found


def words(read: str) -> list[int]:
    parts: list[str] = []
    for character in read:
        if character in "abcdefghijklmnopqrstuvwxyz0123456789":
            if parts and parts[-1].isascii() and parts[-1].isalnum():
                parts[-1] += character
            else:
                parts.append(character)
        else:
            parts.append(character)
    codes = [zlib.crc32(part.encode("utf-8", "replace")) for part in parts if part.strip()]
    # A space parts words and is none itself.
    pairs = [(a * 31 & 0xFFFFFFFF) ^ b for a, b in itertools.pairwise(codes)]
    return [bucket(code, 77) for code in codes] + [bucket(pair, 78) for pair in pairs]


def bucket(code: int, salt: int) -> int:
    mixed = (code ^ salt) * 0x9E3779B1 & 0xFFFFFFFF
    mixed ^= mixed >> 15
    mixed = mixed * 0x85EBCA77 & 0xFFFFFFFF
    mixed ^= mixed >> 13
    return mixed & (COUNT - 1)


@given(st.lists(st.floats(-5, 5), min_size=2, max_size=2))
def test_probabilities_add_up_and_keep_the_order(scores: list[float]) -> None:
    given_scores = np.array(scores, np.float32)
    chances = likelihoods(MODEL, given_scores)
    assert float(chances.sum()) == pytest.approx(1, abs=1e-5)
    if abs(scores[0] - scores[1]) > 0.01:
        assert (chances[0] > chances[1]) == (scores[0] > scores[1])


def test_signatures_are_named_with_what_they_conclude_and_how_surely() -> None:
    sure = rules_told([("oom.kernel", Label.HOST_OOM, Rank.ROOT)], Label.HOST_OOM)
    assert sure == {"oom.kernel", "root:host_oom", "sure:host_oom"}
    weak = rules_told([("mark.words", Label.UNKNOWN, Rank.MARK)], Label.UNKNOWN)
    assert weak == {"mark.words", "root:unknown"}
    assert rules_told([], Label.BENIGN) == {"root:benign"}
