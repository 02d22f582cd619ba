"""The model that the package comes with: whole, small, of today's classes and signatures."""

import numpy as np
import pytest

from watchkeeper.adapters.text_model_file import packed, text_model, text_model_path, unpacked
from watchkeeper.domain.triage.signatures import CAUSES, MARKS
from watchkeeper.domain.triage.signatures.model import Label
from watchkeeper.domain.triage.text_model import scores_of

TRENDS = {"nan.trend"}
STATED = ("root:", "sure:", "speech:")


def test_it_has_every_class_and_is_small() -> None:
    assert set(text_model().labels) == set(Label)
    assert text_model_path().stat().st_size < 1_000_000


def test_it_weighs_only_signatures_that_there_are() -> None:
    known = {one.id for one in (*CAUSES, *MARKS)} | TRENDS
    told = {name for name in text_model().signs if not name.startswith(STATED)}
    assert told <= known, "learn again: uv run python tools/train_text_model.py"


def test_what_is_packed_is_read_back_and_packed_alike() -> None:
    content = text_model_path().read_bytes()
    model = unpacked(content)
    assert packed(model) == packed(unpacked(packed(model)))
    again = unpacked(packed(model))
    text = "worker 3 lost its heartbeat"
    assert np.array_equal(scores_of(model, text, frozenset()), scores_of(again, text, frozenset()))


def test_a_file_of_another_form_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("watchkeeper.adapters.text_model_file.FORM", 2)
    with pytest.raises(ValueError, match="form 1, expected 2"):
        unpacked(text_model_path().read_bytes())
