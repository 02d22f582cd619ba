"""Learns how texts of each class are worded, and writes the model that `triage` comes with.

    uv run python tools/train_text_model.py [--check]

It learns from the labelled texts of tests/corpus/triage: those that signatures were written from,
and training/, which no signature was written from. Only of the latter it learns how far to believe
each signature. `field_blind.jsonl` is never read here: it measures (bench/triage.py).

`--check` writes nothing: it learns on four fifths of training/ at a time, and prints how well the
fifth that was held back is read, per class.
"""

# pyright: basic
# scikit-learn and SciPy publish no types.

import argparse
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, hstack
from sklearn.metrics import classification_report
from sklearn.model_selection import StratifiedGroupKFold
from sklearn.svm import LinearSVC

from watchkeeper.adapters.text_model_file import packed, text_model_path
from watchkeeper.domain.triage.excerpts import signs_of
from watchkeeper.domain.triage.signatures.model import Label
from watchkeeper.domain.triage.signatures.scanner import Scanner
from watchkeeper.domain.triage.speech import manners_of
from watchkeeper.domain.triage.text_model import (
    TextModel,
    Weights,
    letter_features,
    plain,
    scores_of_plain,
    weighed,
    word_features,
)
from watchkeeper.domain.triage.texts import told_by

CORPUS = Path(__file__).parents[1] / "tests" / "corpus" / "triage"
SIGNED = ("triage_dev.jsonl", "field_seen.jsonl", "messages.jsonl")
"""Signatures were written from these, and look truer on them than they are."""

FEATURES = 1 << 15
"""Of letters and of words. Twice as many read held-back texts no better, half as many worse."""

SIGN_WEIGHT = 0.25
"""How loud a signature or a manner is beside the wording, before weights are learnt."""

SOFTNESS = 0.6
"""LinearSVC's C: between 0.3 and 1.5 held-back texts are read alike."""

CALM_LEAN = 0.15
"""Added for `benign`: held-back texts are read as well in all, a quarter fewer harmless ones are
called failures, and as many failures more are called harmless."""

LABELS = tuple(Label)
CALM = LABELS.index(Label.BENIGN)
_FOLDS = 5


@dataclass(frozen=True, slots=True)
class Text:
    """One labelled text.

    Attributes:
        plain: As the model reads it.
        label: Its class, as a number.
        source: The thread or page it comes from; its own id, where it comes from none.
        signs: What signatures and manners say of it; manners only, where it is signed.
        signed: Signatures were written from it.
    """

    plain: str
    label: int
    source: str
    signs: frozenset[str]
    signed: bool


def texts_of(path: Path, signed: bool) -> Iterator[Text]:
    """Read labelled texts: one JSON object a line, with text and label."""
    for line in path.read_text("utf-8").splitlines():
        row: dict[str, Any] = json.loads(line)
        source = row.get("source", "")
        its_own = source if "#" in source or "://" in source else row["id"]
        yield read(row["text"], Label(row["label"]), its_own, signed)


def read(text: str, label: Label, source: str, signed: bool) -> Text:
    """Read one text as `triage` would."""
    scanner = Scanner()
    scanner.feed(text.encode("utf-8", "replace"))
    told = told_by(scanner)
    root = told[0].label if told else Label.BENIGN
    signs = manners_of(text) if signed else signs_of(text, told, root)
    return Text(plain(text), LABELS.index(label), source, signs, signed)


def corpus() -> list[Text]:
    """Return all texts that may be learnt from."""
    found = [text for name in SIGNED for text in texts_of(CORPUS / name, signed=True)]
    for path in sorted((CORPUS / "training").glob("*.jsonl")):
        found += texts_of(path, signed=False)
    return found


def learn(texts: list[Text]) -> TextModel:
    """Return the model of some texts; its probabilities are not fitted yet."""
    names = sorted({name for text in texts if not text.signed for name in text.signs})
    letters, letter_rarity = _counted(texts, letter_features)
    words, word_rarity = _counted(texts, word_features)
    machine = LinearSVC(C=SOFTNESS, class_weight="balanced", random_state=0)
    machine.fit(
        hstack([letters, words, _told(texts, names) * SIGN_WEIGHT]).tocsr(),
        [text.label for text in texts],
    )
    rows: NDArray[np.float64] = machine.coef_.T
    signs = rows[2 * FEATURES :].astype(np.float32) * np.float32(SIGN_WEIGHT)
    return TextModel(
        labels=LABELS,
        letters=_rounded(rows[:FEATURES], letter_rarity),
        words=_rounded(rows[FEATURES : 2 * FEATURES], word_rarity),
        signs=dict(zip(names, signs, strict=True)),
        bias=(machine.intercept_ + CALM_LEAN * np.eye(len(LABELS))[CALM]).astype(np.float32),
        sharpness=1.0,
    )


def _counted(
    texts: list[Text], features: Callable[[str, int], NDArray[np.uint32]]
) -> tuple[csr_matrix, NDArray[np.float32]]:
    """Return a row of shares for each text, and how rare each feature is."""
    found = [features(text.plain, FEATURES) for text in texts]
    holds = np.zeros(FEATURES)
    for one in found:
        holds[np.unique(one)] += 1
    rarity = (np.log((1 + len(texts)) / (1 + holds)) + 1).astype(np.float16).astype(np.float32)
    rows = [weighed(one, rarity) for one in found]
    ends = np.cumsum([0, *(len(once) for once, _ in rows)])
    shares = np.concatenate([share for _, share in rows])
    places = np.concatenate([once for once, _ in rows]).astype(np.int64)
    return csr_matrix((shares, places, ends), shape=(len(texts), FEATURES)), rarity


def _told(texts: list[Text], names: list[str]) -> csr_matrix:
    place = {name: number for number, name in enumerate(names)}
    rows = [sorted(place[name] for name in text.signs if name in place) for text in texts]
    ends = np.cumsum([0, *(len(row) for row in rows)])
    places = np.array([one for row in rows for one in row], np.int64)
    return csr_matrix((np.ones(len(places)), places, ends), shape=(len(texts), len(names)))


def _rounded(rows: NDArray[np.float64], rarity: NDArray[np.float32]) -> Weights:
    scale = float(np.abs(rows).max()) / 127
    return Weights(rarity, np.rint(rows / scale).astype(np.int8), scale)


def scores(model: TextModel, texts: list[Text]) -> NDArray[np.float32]:
    """Return the model's scores of texts that are read already, a row for each."""
    return np.array([scores_of_plain(model, text.plain, text.signs) for text in texts])


def held_back(texts: list[Text]) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return labels and scores of the texts of training/, each by a model that never saw it."""
    signed = [text for text in texts if text.signed]
    fresh = [text for text in texts if not text.signed]
    labels = np.array([text.label for text in fresh])
    found = np.zeros((len(fresh), len(LABELS)), np.float32)
    folds = StratifiedGroupKFold(_FOLDS, shuffle=True, random_state=0)
    # What comes from one thread is held back together: its texts are alike.
    for seen, unseen in folds.split(labels, labels, [text.source for text in fresh]):
        model = learn(signed + [fresh[at] for at in seen])
        found[unseen] = scores(model, [fresh[at] for at in unseen])
    return labels, found


def sharpness_of(labels: NDArray[np.int64], found: NDArray[np.float32]) -> float:
    """Return what makes probabilities of scores that are as often right as they say."""

    def surprise(sharpness: float) -> float:
        powers = found * sharpness
        powers -= powers.max(1, keepdims=True)
        logs = powers - np.log(np.exp(powers).sum(1, keepdims=True))
        return -float(logs[np.arange(len(labels)), labels].mean())

    tried = np.linspace(0.5, 12, 116)
    return float(min(tried, key=surprise))


def main() -> None:
    """Learn, and write the model or show how well held-back texts are read."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--check", action="store_true", help="measure on held-back texts only")
    options = parser.parse_args()
    texts = corpus()
    labels, found = held_back(texts)
    names = [label.value for label in LABELS]
    print(classification_report(labels, found.argmax(1), target_names=names, digits=3))
    sharpness = sharpness_of(labels, found)
    print(f"{len(texts)} texts; sharpness {sharpness:.2f}")
    if options.check:
        return
    whole = learn(texts)
    model = TextModel(whole.labels, whole.letters, whole.words, whole.signs, whole.bias, sharpness)
    content = packed(model)
    text_model_path().write_bytes(content)
    print(f"wrote {text_model_path()}: {len(content):,} bytes")


if __name__ == "__main__":
    main()
