"""The sentence model that watchkeeper comes with, and files that are none."""

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from watchkeeper.adapters.sentence_model import SentenceModel, sentence_model, sentence_model_path
from watchkeeper.domain.triage.signatures.model import Label


def likeliest(text: str) -> Label:
    return tuple(Label)[int(sentence_model()(text).argmax())]


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("we killed it ourselves, the config was wrong and we want the TPUs back",
         Label.USER_STOPPED),
        ("loss went to nan after the warmup and never came back", Label.NUMERICAL),
        ("the spot machines were taken away from us at 3am", Label.PREEMPTION),
        ("the job sits in the queue since yesterday, no free A100 anywhere", Label.CAPACITY_WEDGE),
        ("saved checkpoint at step 4000, going on", Label.BENIGN),
        ("the disk of node 7 is full and nothing can be written", Label.DISK_FULL),
        ("all ranks are stuck in all-reduce, nobody moves", Label.COLLECTIVE_HANG),
    ],
)  # fmt: skip
def test_plain_words_are_understood(text: str, label: Label) -> None:
    assert likeliest(text) is label


@given(st.text(max_size=3_000))
@settings(max_examples=50, deadline=None)
def test_any_text_has_a_likelihood_for_each_class(text: str) -> None:
    found = sentence_model()(text)
    assert found.shape == (len(Label),)
    assert math.isclose(float(np.exp(found).sum()), 1, rel_tol=1e-4)


def test_a_text_is_read_alike_whatever_was_read_before() -> None:
    first = sentence_model()("the head node of Ray is gone")
    sentence_model()("x " * 500)
    assert (sentence_model()("the head node of Ray is gone") == first).all()


@pytest.mark.parametrize(
    ("held", "instead", "told"),
    [
        (b"\x0a\x04form\x12\x011", b"\x0a\x04form\x12\x017", "form 7, expected 1"),
        (b"preemption\n", b"redemption\n", "made for other classes"),
    ],
)
def test_a_file_of_another_make_is_refused(
    held: bytes, instead: bytes, told: str, tmp_path: Path
) -> None:
    content = sentence_model_path().read_bytes()
    assert content.count(held) == 1
    other = tmp_path / "other.onnx"
    other.write_bytes(content.replace(held, instead))
    with pytest.raises(ValueError, match=told):
        SentenceModel(other)
