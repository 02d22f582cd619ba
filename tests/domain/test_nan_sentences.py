"""Sentences in which a run says that its loss is no number, and those that look like them."""

import pytest

from tests.every_row import every_row
from watchkeeper.domain.reading.nonfinite_sentences import says_no_number


@every_row(
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
        # What stands before a line says nothing of it.
        "[rank 0] Loss is nan",
        "Epoch 0: Loss is nan, stopping",
        "[0] Loss is nan, stopping training",
        "0: Loss is nan, stopping training",
        "GPU 0: Loss is nan",
        "node1:0: Loss is nan",
        "worker/0 | Loss is nan",
        "epoch 0 step 500: loss is nan",
        "May 21 02:00:00 node7 train[12]: Loss is nan, stopping training",
        "/data/test/train.py:31 Loss is nan, stopping training",
        "my-test-job: Loss is nan, stopping",
        "pod/llama-val-1 Loss is nan",
        "run=dev-7 loss is nan",
        "[test-run] loss is nan",
        "\x1b[31mLoss is nan, stopping training\x1b[0m",
        "\x1b[1;31mERROR\x1b[0m Loss is nan, stopping training",
        "Stopping training because loss is nan",
        "Training stopped since the loss is nan",
        "AssertionError: loss is nan",
        "loss is -inf",
        "nan detected in loss",
        "found NaN in local forward loss calculation. Device: 3, node: n7",
        "Loss is nan, exiting. No retry.",
        "Loss is nan, stopping training {'lr': 0.1, 'scale': 2}",
        "Loss is NaN at iteration 421 (skipped 0 so far)",
        "Loss is nan, cannot continue",
        "Loss is nan, cannot recover",
    ],
)
def test_a_sentence_says_it(line: str) -> None:
    assert says_no_number(line)[0]


@every_row(
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
        # The loop went on.
        "loss is nan, continuing",
        "loss is nan, using 0 instead",
        "loss is nan; setting it to zero",
        "loss is nan -> replaced by 0",
        "loss is nan, rolling back to step 100",
        "Loss is nan, recovered",
        "Loss is nan, skipped 3 so far",
        "loss is nan in 0 of 100 batches",
        "loss is nan for 0 samples",
        "nan loss at epoch end: 0",
        "NaN loss: stopping disabled",
        "Non-finite loss, exiting is disabled",
        "training stops as soon as the loss is nan",
        "the run stops after the loss is nan",
        "once the loss is nan, training ends",
        "Callback TerminateOnNaN: loss is nan terminates",
        "# loss is nan",
        "// loss is nan",
        "    # Loss is nan, stopping training",
        "loss is nan threshold 5",
        "Known issue: loss is nan on V100",
        "EarlyStopping(monitor=loss): loss is nan patience=3",
        "it may be that loss is nan",
        "[eval] loss is nan",
        "[Validation] step 100 loss is nan",
        "test: loss is nan",
        "nan detected in validation loss",
        "0 nan loss detected",
        "because loss is nan we lowered the rate",
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
