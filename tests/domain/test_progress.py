import math

import pytest

from tests.every_row import every_row
from watchkeeper.domain.reading.progress.progress import (
    Progress,
    StartupProof,
    parse_progress,
    parse_startup,
)
from watchkeeper.domain.values.check import render_progress

LEVANTER = (
    "I20260425 09:16:05 140653047138112 tqdm_loggable.tqdm_logging Progress on:train "
    "{count} rate:4.3s/it remaining:37:42 elapsed:2:26:40 postfix:loss=0.644"
)


@every_row(
    ("count", "step", "uncertainty", "maximum"),
    [
        ("1.86kit/2.38kit", 1860, 5, None),
        ("86.0it/4.77kit", 86, 0, None),
        ("86.0it/200it", 86, 0, 200),
        ("9.00it/99.0it", 9, 0, 99),
        ("9.00it/99.5it", 9, 0, None),
        ("860it/4.77kit", 860, 0, None),
        ("0.00it/4.77kit", 0, 0, None),
        ("12.4kit/155kit", 12_400, 50, None),
        ("120.4kit/155kit", 120_400, 50, None),
        ("155kit/155kit", 155_000, 500, None),
        ("1.00Mit/1.20Mit", 1_000_000, 5_000, None),
        ("1.860kit/2.38kit", 1860, 0, None),
        ("4600it/5155it", 4600, 0, 5155),
        ("4600/5155", 4600, 0, 5155),
        ("1.86kit/?", 1860, 5, None),
    ],
)
def test_a_bar_gives_the_step_with_its_rounding(
    count: str, step: int, uncertainty: int, maximum: int | None
) -> None:
    assert parse_progress(LEVANTER.format(count=count)) == Progress(
        step=step, uncertainty=uncertainty, maximum=maximum, loss=0.644
    )


@pytest.mark.parametrize("exact", [1855, 1856, 1860, 1864, 1865])
def test_the_true_step_lies_within_the_uncertainty(exact: int) -> None:
    # What tqdm itself makes of the exact number: three digits.
    shown = parse_progress(LEVANTER.format(count=f"{exact / 1000:.2f}kit/2.38kit"))
    assert shown is not None
    assert abs(shown.step - exact) <= shown.uncertainty


@pytest.mark.parametrize(
    "line",
    [
        "Progress on:train -/2384 rate:- remaining:? elapsed:00:00 postfix:-",
        "Progress on:eval 10.0it/100it rate:4.3s/it remaining:37:42 elapsed:0:40 postfix:-",
        "Progress on:training_data 10.0it/100it rate:4.3s/it",
        "eval:  78%|#######   | 1.86k/2.38k [2:26:40<37:42, 4.3s/it]",
        "100%|##########| 8/8 [00:01<00:00,  7.1it/s]",
        "Saving temporary checkpoint at step 1860",
        "loss=0.644 12/30",
        "",
    ],
)
def test_other_lines_are_no_progress(line: str) -> None:
    assert parse_progress(line) is None


def test_a_plain_tqdm_bar_is_read_too() -> None:
    line = "train:  78%|#######8  | 1.86k/2.38k [2:26:40<37:42, 4.3s/it, loss=0.644]"
    assert parse_progress(line) == Progress(step=1860, uncertainty=5, loss=0.644)


def test_a_bar_without_a_loss_has_none() -> None:
    line = "Progress on:train 86.0it/200it rate:- remaining:? elapsed:00:09 postfix:-"
    assert parse_progress(line) == Progress(step=86, maximum=200)


@pytest.mark.parametrize(("text", "loss"), [("1e-05", 1e-05), ("-2.5", -2.5), ("inf", math.inf)])
def test_the_loss_beside_the_step_is_read(text: str, loss: float) -> None:
    shown = parse_progress(f"Progress on:train 86.0it/200it rate:- postfix:loss={text}")
    assert shown is not None
    assert shown.loss == loss


def test_a_loss_that_is_not_a_number_stays_one() -> None:
    shown = parse_progress("Progress on:train 86.0it/200it rate:- postfix:loss=nan")
    assert shown is not None
    assert shown.loss is not None
    assert math.isnan(shown.loss)


def test_a_cold_start_is_read_from_its_lines() -> None:
    lines = [
        "I20260425 09:16:05 1 levanter.main Using run ID demo-1",
        "I20260425 09:16:05 1 levanter.main Using output path: 'gs://bucket/demo-1'",
        "I20260425 09:16:06 1 levanter.main Starting from scratch",
    ]
    assert parse_startup(lines) == StartupProof(
        run_id="demo-1", output_path="gs://bucket/demo-1", from_scratch=True
    )


def test_a_resume_is_read_from_its_lines() -> None:
    lines = [
        "Using run ID: demo-1",
        "Using output path gs://bucket/demo-1",
        "Discovered latest checkpoint at gs://bucket/demo-1/checkpoints/step-1000",
        "Loading checkpoint from gs://bucket/demo-1/checkpoints/step-1000",
        "Resuming training from step 1000",
        "Progress on:train 1.01kit/1.50kit rate:4.3s/it",
    ]
    assert parse_startup(lines) == StartupProof(
        run_id="demo-1",
        output_path="gs://bucket/demo-1",
        checkpoint="gs://bucket/demo-1/checkpoints/step-1000",
        resumed_step=1000,
    )


def test_a_start_from_scratch_is_never_hidden_by_a_resume() -> None:
    proof = parse_startup(["Starting from scratch", "Resuming training from step 1000"])
    assert (proof.from_scratch, proof.resumed_step) == (True, 1000)


def test_a_log_without_a_start_proves_nothing() -> None:
    assert parse_startup(["Progress on:train -/2384 rate:-"]) == StartupProof()


@pytest.mark.parametrize(
    ("step", "uncertainty", "maximum", "text"),
    [
        (4600, 0, 5155, "~4600/5155"),
        (4600, 50, None, "~4600/unknown"),
        (1500, 5, 1499, "~1499/1499"),
        (1500, 0, 1499, "~1500/1499"),
        (1499, 5, 1499, "~1499/1499"),
        (1510, 5, 1499, "~1510/1499"),
    ],
)
def test_progress_is_reported_against_the_exact_maximum(
    step: int, uncertainty: int, maximum: int | None, text: str
) -> None:
    assert render_progress(step, uncertainty, maximum) == text
