"""Reads excerpts as sentences, by a small net in an ONNX file that ONNX Runtime computes.

tools/train_sentence_model.py makes it, from all-MiniLM-L6-v2 (Apache-2.0, see NOTICE).
"""

from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from watchkeeper.domain.triage.signatures.model import Label
from watchkeeper.domain.triage.word_pieces import pieces_of

FORM = 1
"""What the file takes and gives; raised where an older reader would misread it."""

PIECES_KEY = "pieces"
LABELS_KEY = "labels"

REMEMBERED = 4_096
"""Texts whose reading is kept, of some 500 bytes each."""

_FILE = "sentence_model.onnx"
_ONLY_ERRORS = 3

_RUNTIME: Any = onnxruntime
"""It publishes no types that are whole; what it gives is checked by what is made of it."""


class SentenceModel:
    """The net, and the pieces of words that it knows.

    Args:
        path: The file.

    Raises:
        ValueError: The file has another form, or other classes.
    """

    def __init__(self, path: Path) -> None:
        """Load the net."""
        options = _RUNTIME.SessionOptions()
        # One text at a time, on one core: a text's answer must not hang on what is read beside it,
        # and two cores read it a third faster at best.
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        options.log_severity_level = _ONLY_ERRORS
        self._net: Any = _RUNTIME.InferenceSession(
            path, options, providers=["CPUExecutionProvider"]
        )
        told: dict[str, str] = self._net.get_modelmeta().custom_metadata_map
        if told.get("form") != str(FORM):
            raise ValueError(f"{path}: sentence model of form {told.get('form')}, expected {FORM}")
        if told[LABELS_KEY].split("\n") != [label.value for label in Label]:
            raise ValueError(f"{path}: made for other classes; run tools/train_sentence_model.py")
        self._remembered = lru_cache(REMEMBERED)(self._read)
        self._places = {piece: at for at, piece in enumerate(told[PIECES_KEY].split("\n"))}

    def __call__(self, text: str) -> NDArray[np.float32]:
        """Return a text's log-likelihood for each class, in `Label`'s order.

        A text that differs from a recent one in its figures only is not computed again: a failure
        of a large job comes from each of its hosts.
        """
        return self._remembered(tuple(pieces_of(text, self._places)))

    def forget(self) -> None:
        """Keep no reading, as for whoever measures."""
        self._remembered.cache_clear()

    def _read(self, pieces: tuple[int, ...]) -> NDArray[np.float32]:
        row = np.array([pieces], np.int64)
        asked = {"pieces": row, "held": np.ones_like(row)}
        scores: NDArray[np.float32] = self._net.run(None, asked)[0][0]
        scores = scores - scores.max()
        found: NDArray[np.float32] = scores - np.log(np.exp(scores).sum())
        found.flags.writeable = False
        return found


@cache
def sentence_model() -> SentenceModel:
    """Return the model that this version of watchkeeper came with."""
    return SentenceModel(sentence_model_path())


def sentence_model_path() -> Path:
    """Return where the file stands."""
    return Path(__file__).with_name(_FILE)
