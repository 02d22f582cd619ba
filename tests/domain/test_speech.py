"""How a text speaks: one text for each manner, and one that only comes near."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchkeeper.adapters.text_model_file import text_model
from watchkeeper.domain.triage.excerpts import triage_excerpt
from watchkeeper.domain.triage.signatures.model import Label
from watchkeeper.domain.triage.speech import MANNERS, manners_of

SAID = {
    "asks": ("Can I resume from step 400?", "the query ended"),
    "wonders": ("it died, no idea what happened", "it died of a NaN"),
    "wishes": ("[Feature] a flag for NaN checks", "the flag was set"),
    "explains": ("If you see this error, lower the batch size", "this error came at step 4"),
    "is code": ("  raise ValueError(loss)", "ValueError was raised"),
    "is settings": ("train.py --skip-nan", "train.py skipped a NaN"),
    "recovers": ("link down, then Reconnected", "link down"),
    "calms": ("GPU 3: Non-fatal, corrected", "GPU 3: fatal"),
    "planned": ("dry-run of the preemption", "a preemption"),
    "tries again": ("503, retrying in 2 s", "503"),
    "gives up": ("failed after 5 attempts", "the 5th attempt"),
    "ends": ("worker 3 crashed", "worker 3 is slow"),
    "stands still": ("hangs at step 400", "is at step 400"),
    "raises": ("Traceback (most recent call last):", "it can be traced back"),
    "warns": ("UserWarning: lr is high", "lr is high"),
    "counts none": ("restarts: 0, step 4", "restarts: 10"),
    "trains": ("step 400 loss 2.1", "a loss of time"),
    "speaks of itself": ("We stopped it", "it was stopped"),
    "supposes": ("it may run out of memory", "it ran out of memory"),
    "looks back": ("the node had failed", "the node fails"),
}


@pytest.mark.parametrize("name", MANNERS)
def test_a_manner_is_heard_where_it_is_and_not_beside(name: str) -> None:
    said, beside = SAID[name]
    assert f"speech:{name}" in manners_of(said)
    assert f"speech:{name}" not in manners_of(beside)


@given(st.text(max_size=200))
def test_any_text_is_heard_in_either_case(text: str) -> None:
    assert manners_of(text.lower()) == manners_of(text)


def test_each_manner_was_learnt_from_texts() -> None:
    learnt = {name for name in text_model().signs if name.startswith("speech:")}
    assert learnt == {f"speech:{name}" for name in MANNERS}


def test_a_failure_that_is_explained_is_told_from_one_that_happened() -> None:
    happened = "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB"
    explained = f'If you see "{happened}", lower the batch size. See also the FAQ.'
    assert triage_excerpt(happened, model=text_model()).label is Label.HBM_OOM
    calm = triage_excerpt(explained, model=text_model())
    sure = triage_excerpt(happened, model=text_model())
    assert calm.label is Label.BENIGN or calm.confidence < sure.confidence
