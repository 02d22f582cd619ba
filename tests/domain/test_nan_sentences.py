"""Sentences in which a run says that its loss is no number, and those that look like them."""

import pytest

from watchkeeper.domain.measuring.sentences import says_no_number


@pytest.mark.parametrize(
    "line",
    [
        "Loss is nan, stopping",
        "loss is NaN at step 500",
        "Non-finite loss, exiting",
        "Loss is nan, stopping training",
        "NaN loss detected at step 500",
        "ERROR: loss became NaN",
        "Loss is inf, stopping training",
        "FloatingPointError: Loss became infinite or NaN at iteration=5!",
        "2026-11-21 12:00:00 ERROR train.py:33 Training loss is nan",
        "[rank0]: The loss is NaN.",
        "The loss returned in `training_step` is nan.",
        "detected NaN loss at step 1300",
        "Found nan in the loss",
        "step 500: loss is nan",
        "epoch 3 step 500 loss is nan",
        "NaN loss - terminating",
        "Non-finite loss encountered",
        "loss diverged to NaN, aborting",
        "ValueError: loss is not finite at step 1100",
        "Loss is NaN or Inf",
        "loss has become nan!!!",
        "Got a NaN loss, exiting",
    ],
)
def test_a_sentence_says_it(line: str) -> None:
    assert says_no_number(line)[0]


@pytest.mark.parametrize(
    "line",
    [
        "0 nan iterations",
        "skipping step, loss is inf, reducing loss scale",
        "checking for NaN",
        "nan_guard enabled",
        "loss is not nan",
        "if loss is nan: raise",
        "will stop if the loss is nan",
        "loss isn't nan",
        "validation loss is nan",
        "Validation: loss is nan",
        "eval step 500: loss is nan",
        "best loss is inf",
        "aux loss is nan",
        "stop_on_nan_loss: true",
        "terminate_on_nan=True",
        "raise ValueError('Loss is nan')",
        'help: "loss is nan"',
        "loss is nan: False",
        "loss is nan? no",
        "loss is nan-safe",
        "loss is nan guarded",
        "no NaN loss detected",
        "no nan in the loss",
        "NaN loss detection enabled",
        "NaN loss detected, skipping batch 5",
        "NaN loss: 0",
        "0 NaN losses",
        "non-finite loss handling: raise",
        "checks that loss is finite",
        "loss is finite",
        "loss is information",
        "loss is infrequently logged",
        "loss is nanometres",
        "resumed since the loss became nan in the previous run",
        "loss became nan in the previous attempt, lr halved",
        "fixed a bug where loss became nan",
        "assert not loss is nan",
        "when loss is NaN the run ends",
        "Gradient overflow, loss is nan",
        "min loss is inf",
        "nan loss action: exit",
        "loss is nan check passed",
        "detected nan loss handler",
        "loss=nan_to_num(loss)",
        "perplexity is nan",
        "test loss is nan",
        "loss_is_nan=false",
        "the val loss is nan",
        "NaN loss detected: False",
    ],
)
def test_a_sentence_that_looks_like_it_says_nothing(line: str) -> None:
    assert says_no_number(line) == (False, None)


@pytest.mark.parametrize(
    ("line", "step"),
    [
        ("loss is NaN at step 500", 500),
        ("Loss became infinite or NaN at iteration=5!", 5),
        ("NaN loss detected at step 500", 500),
        ("step 500: loss is nan", 500),
        ("loss is nan, lr 3", None),
    ],
)
def test_the_step_that_it_names_is_read(line: str, step: int | None) -> None:
    assert says_no_number(line) == (True, step)


def test_a_long_line_is_read_in_no_time() -> None:
    for part in ("loss is ", "nan loss ", "the loss returned in ", "loss is nan_", "nan or "):
        assert says_no_number(part * (2_000 // len(part)))[0] is False
