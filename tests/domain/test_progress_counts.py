"""What a step reads as under each name that may carry one, however its count is printed."""

import json

import pytest

from tests.every_row import every_row
from watchkeeper.domain.reading.progress.lines import read_line
from watchkeeper.domain.reading.progress.numbers import Count, shown_count
from watchkeeper.domain.reading.progress.progress import Progress, parse_progress

COUNTS = [
    ("1860", (1860, 0, None, False)),
    ("1860.0", (1860, 0, None, False)),
    ("1,860", (1860, 0, None, False)),
    ("1_860", (1860, 0, None, False)),
    ("1'860", (1860, 0, None, False)),
    ("1.86k", (1860, 5, None, False)),
    ("1.86K", (1860, 5, None, False)),
    ("5k", (5000, 500, None, False)),
    ("1.2M", (1_200_000, 50_000, None, False)),
    ("1.5G", (1_500_000_000, 50_000_000, None, False)),
    ("1e4", (10_000, 5000, None, False)),
    ("1.86e3", (1860, 5, None, False)),
    ("1.1e+4", (11_000, 500, None, False)),
    ("1.234560e+05", (123_456, 0, None, False)),
    ("1860/5155", (1860, 0, 5155, True)),
    ("1,860/5,155", (1860, 0, 5155, True)),
    ("1860/5.16k", (1860, 0, 5160, False)),
    ("1.86k/5155", (1860, 5, 5155, True)),
    ("1.86k/5.16k", (1860, 5, 5160, False)),
    ("1e4/2e4", (10_000, 5000, 20_000, False)),
]
UNSURE = [
    "12:30",
    "12:30:05",
    *("1,86", "1 860", "1.86", "1.860", "12.345", "1.86 k", "1.86kit", "1860/5.16", "1.86e1"),
    *("2m", "2T", "12%", "0x10", "1e400", "1" * 16, "1" * 30, "1.2.3", "1,860k"),
]
NAMES = [
    *("step", "Step", "iter", "iteration", "train_step", "train/step", "global_step"),
    *("global step", "trainer/global_step", "train/global_step", "num_updates"),
]
BETWEEN = ["=", ": "]
AFTER = ["", " loss=2.3"]


@every_row("name", NAMES)
@every_row(("printed", "said"), COUNTS)
def test_a_count_reads_alike_under_each_name(
    name: str, printed: str, said: tuple[object, ...]
) -> None:
    for text in (f"{name}{sign}{printed}{after}" for sign in BETWEEN for after in AFTER):
        line = read_line(text)
        assert line is not None, text
        assert (line.step, line.uncertainty, line.maximum, line.maximum_exact) == said, text


@every_row("name", NAMES)
@every_row("printed", UNSURE)
def test_a_count_that_cannot_be_read_tells_no_step(name: str, printed: str) -> None:
    for text in (f"{name}{sign}{printed}{after}" for sign in BETWEEN for after in AFTER):
        line = read_line(text)
        assert line is None or line.step is None, text


@pytest.mark.parametrize(
    "key", ["step", "global_step", "iter", "trainer/global_step", "train_step", "num_updates"]
)
def test_a_count_of_json_reads_as_one_of_a_line(key: str) -> None:
    for printed, said in COUNTS:
        if "/" not in printed:
            line = read_line(json.dumps({key: printed, "loss": 2.3}))
            assert line is not None, printed
            assert (line.step, line.uncertainty, line.maximum, line.maximum_exact) == said
    for printed in UNSURE:
        assert read_line(json.dumps({key: printed, "loss": 2.3})) is None


@every_row(
    ("text", "progress"),
    [
        ("iteration 99/999 | global_step: 1.10k", (1100, 5, None)),
        ("iteration 99/999 | global_step: 1099", (1099, 0, None)),
        ("iteration 400/999 | global_step: 100", (100, 0, None)),
        ("iteration 99/999 | global_step: 100", (100, 0, 999)),
        ("iteration 1860/5.16k | lm loss: 2 |", (1860, 0, None)),
        ("iteration 1.86k/5155 | lm loss: 2 |", (1860, 5, 5155)),
        ("Epoch 0: 1%|#| 100/5155 [02:00<60:00, loss=6, global_step=1.1e+4]", (11_000, 500, None)),
        ("Epoch 0: 1%|#| 100/5155 [02:00<60:00, loss=6, global_step=1.10k]", (1100, 5, None)),
        ("Epoch 3/10: step 100/200 global_step=1.86k", (1860, 5, None)),
        ("Epoch 1/10: step 1.86k/2.38k", (1860, 5, None)),
        ("Epoch 3/10: step 1,860/2,380", (6620, 0, None)),
        ("step=5 total_steps=5.16k loss=2", (5, 0, None)),
        ("step=5 max_steps=50,000 loss=2", (5, 0, 50_000)),
        ("step=500 total_steps=100 loss=2", (500, 0, None)),
        ("step=1.50k/1499 loss=2", (1500, 5, 1499)),
        ("step=1.51k/1499 loss=2", (1510, 5, None)),
        ('{"step": 1e4}', (10_000, 0, None)),
        ('{"step": 10, "max_steps": 5}', (10, 0, None)),
        ('{"step": 10, "max_steps": "5.16k"}', (10, 0, None)),
    ],
)  # fmt: skip
def test_what_a_count_in_another_form_tells(text: str, progress: tuple[object, ...]) -> None:
    shown = parse_progress(text)
    assert shown is not None
    assert (shown.step, shown.uncertainty, shown.maximum) == progress


@every_row(
    "text",
    [
        "iteration 99/999 | global_step: 1x | loss: 2",
        "Epoch 0: 1%|#| 100/5155 [02:00<60:00, loss=6, global_step=1.86kit]",
        "Epoch 3/10: step 100/200 global_step=1.86kit",
        # The length of an epoch is rounded, so nobody knows how many steps came before this one.
        "Epoch 3/10: step 1.86k/2.38k",
        "Epoch 3/10: step 100/200k",
        "Epoch 3/10: 1.2M/5.0M tokens",
        "global_step: 4.6k tokens loss 2.3",
        "step 1e4 tokens | loss 2.3",
        "steps: 50k",
        "step=1.86kit iter=5 loss=2",
        "Training: step 1.86k",
        "Train time/batch: 1.86k",
        "1|1.86k|Loss: 2.3",
    ],
)
def test_where_a_count_is_of_something_else_no_step_is_told(text: str) -> None:
    assert parse_progress(text) is None


@pytest.mark.parametrize(
    ("printed", "step", "uncertainty"),
    [("1860", 1860, 0), ("1860.0", 1860, 0), ("1.86e3", 1860, 5), ("'1.86k'", 1860, 5)],
)
def test_a_step_of_hugging_face_is_read_whole(printed: str, step: int, uncertainty: int) -> None:
    shown = parse_progress(f"{{'loss': 2.3, 'step': {printed}}}")
    assert shown == Progress(step=step, uncertainty=uncertainty, loss=2.3)


@pytest.mark.parametrize(("power", "exact"), [(3, 1234), (4, 12_345), (5, 123_456)])
def test_the_true_count_lies_within_what_scientific_notation_leaves_open(
    power: int, exact: int
) -> None:
    for places in range(power + 2):
        shown = shown_count(f"{exact:.{places}e}")
        assert isinstance(shown, Count)
        assert abs(shown.value - exact) <= shown.uncertainty
