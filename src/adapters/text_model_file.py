"""Keeps what was learnt of texts in a file beside the code, made by tools/train_text_model.py."""

import io
from functools import cache
from importlib import resources
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from watchkeeper.adapters.load import load
from watchkeeper.domain.triage.context import Context
from watchkeeper.domain.triage.excerpts import concluded, triage_excerpt
from watchkeeper.domain.triage.signatures.model import Label
from watchkeeper.domain.triage.signatures.scanner import Scanner
from watchkeeper.domain.triage.text_model import TextModel, Weights
from watchkeeper.domain.triage.texts import Triage

FORM = 1
"""How the file is laid out; raised where an older reader would misread it."""

_FILE = "text_model.npz"


@cache
def text_model() -> TextModel:
    """Return the model that this version of watchkeeper came with."""
    packaged = resources.files("watchkeeper.adapters").joinpath(_FILE)
    return unpacked(packaged.read_bytes())


def excerpt_read(text: str, context: Context | None) -> Triage:
    """Triage a text, also by its wording where it is an excerpt."""
    return triage_excerpt(text, context, text_model(), _sentences)


def excerpt_concluded(scanner: Scanner) -> Triage:
    """Judge an excerpt that a scanner has read, by its wording as well."""
    return concluded(scanner, model=text_model(), sentences=_sentences)


def _sentences(text: str) -> NDArray[np.float32]:
    """Read a text as sentences; what computes that is loaded for the first that needs it."""
    read: NDArray[np.float32] = load("sentence_model", "sentence_model")()(text)
    return read


def unpacked(content: bytes) -> TextModel:
    """Read a model from the bytes of `packed`.

    Raises:
        ValueError: The bytes are no model of this form.
    """
    with np.load(io.BytesIO(content), allow_pickle=False) as kept:
        if int(kept["form"]) != FORM:
            raise ValueError(f"text model of form {int(kept['form'])}, expected {FORM}")
        names = [str(name) for name in kept["rule_names"]]
        rows: NDArray[np.float32] = kept["rule_weights"].astype(np.float32)
        return TextModel(
            labels=tuple(Label(str(name)) for name in kept["labels"]),
            letters=_weights(kept, "letter"),
            words=_weights(kept, "word"),
            signs=dict(zip(names, rows, strict=True)),
            bias=kept["bias"].astype(np.float32),
            sharpness=float(kept["sharpness"]),
        )


def _weights(kept: "np.lib.npyio.NpzFile", kind: str) -> Weights:
    return Weights(
        rarity=kept[f"{kind}_rarity"].astype(np.float32),
        weights=kept[f"{kind}_weights"],
        scale=float(kept[f"{kind}_scale"]),
    )


def packed(model: TextModel) -> bytes:
    """Return a model as bytes; the same model gives the same bytes."""
    names = sorted(model.signs)
    buffer = io.BytesIO()
    np.savez_compressed(
        buffer,
        form=np.int64(FORM),
        labels=np.array([label.value for label in model.labels]),
        letter_rarity=model.letters.rarity.astype(np.float16),
        letter_weights=model.letters.weights,
        letter_scale=np.float64(model.letters.scale),
        word_rarity=model.words.rarity.astype(np.float16),
        word_weights=model.words.weights,
        word_scale=np.float64(model.words.scale),
        rule_names=np.array(names),
        rule_weights=np.array([model.signs[name] for name in names], np.float16),
        bias=model.bias,
        sharpness=np.float64(model.sharpness),
    )
    return buffer.getvalue()


def text_model_path() -> Path:
    """Return where a checkout keeps the file."""
    return Path(__file__).with_name(_FILE)
