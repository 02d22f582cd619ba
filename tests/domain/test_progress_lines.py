"""The shapes of progress lines: each as its framework writes it, and what is none of them."""

import math
import time

import pytest

from tests.every_row import every_row
from watchkeeper.domain.reading.progress.lines import Line, in_epoch_of, read_line
from watchkeeper.domain.reading.progress.progress import parse_progress

MEGATRON = (
    " iteration    12694/  115311 | consumed samples:      3249664 | elapsed time per iteration "
    "(ms): 2710.9 | learning rate: 1.2E-04 | global batch size:   256 | lm loss: 2.406640E+00 | "
    "loss scale: 1.0 | grad norm: 0.221 | number of skipped iterations:   0 |"
)
NEMO = (
    "Training epoch 0, iteration 12/999 | lr: 1e-05 | global_batch_size: 8 | global_step: 12 | "
    "reduced_train_loss: 11.03 | train_step_timing in s: 0.5"
)
TRAINING = [
    (MEGATRON, ("megatron", 12_694, 0, 115_311, True, 2.40664, 0.368881)),
    (NEMO, ("nemo", 12, 0, 999, True, 11.03, 2.0)),
    (
        "Progress on:train 1.86kit/2.38kit rate:4.3s/it remaining:37:42 postfix:loss=0.644",
        ("levanter", 1860, 5, 2380, False, 0.644, 0.232558),
    ),
    (
        "train:  78%|####8  | 1.86k/2.38k [2:26:40<37:42, 4.3s/it, loss=0.644]",
        ("tqdm", 1860, 5, 2380, False, 0.644, 0.232558),
    ),
    (
        " 12%|█▏        | 1167/9540 [1:02:03<7:11:10,  3.09s/it, loss=2.31]",
        ("tqdm", 1167, 0, 9540, True, 2.31, 0.323625),
    ),
    (
        "train: 2384it [2:26:40,  4.3s/it, loss=0.644]",
        ("tqdm", 2384, 0, None, False, 0.644, 0.232558),
    ),
    (
        "Training steps: 1.86kit [2:26:40, 2.0it/s]",
        ("tqdm", 1860, 5, None, False, None, 2.0),
    ),
    (
        "Epoch 0:  62%|██████▏   | 1167/1860 [10:02<05:33,  2.08it/s, v_num=0, train_loss=2.310]",
        ("lightning", 1167, 0, 1860, True, 2.31, 2.08),
    ),
    (
        "Epoch 0: : 1%|▏ | 100/5155 [02:00<1:00:00, reduced_train_loss=6.2, global_step=99.00]",
        ("lightning", 99, 0, None, False, 6.2, None),
    ),
    (
        "[2024-01-01 10:00:00,123] [INFO] [logging.py:96:log_dist] [Rank 0] step=10, skipped=0",
        ("deepspeed", 10, 0, None, False, None, None),
    ),
    (
        "steps: 10 loss: 2.3410 iter time (s): 1.25 samples/sec: 26.5",
        ("deepspeed", 10, 0, None, False, 2.341, 0.8),
    ),
    (
        "{'loss': 2.3121, 'grad_norm': 1.25, 'learning_rate': 4.9e-05, 'epoch': 0.12}",
        ("hugging_face", None, 0, None, False, 2.3121, None),
    ),
    ("step=4600 loss=2.41", ("key_value", 4600, 0, None, False, 2.41, None)),
    ("step: 100", ("key_value", 100, 0, None, False, None, None)),
    ("[step=100/738020,epoch=0]", ("key_value", 100, 0, 738_020, True, None, None)),
    ("Step 100, Loss: 2.3", ("key_value", 100, 0, None, False, 2.3, None)),
    ("iter 100: loss 2.3121, time 123.45ms", ("key_value", 100, 0, None, False, 2.3121, None)),
    (
        "step:1,250/9,536 train_loss:3.2123 train_time:12300ms",
        ("key_value", 1250, 0, 9536, True, 3.2123, None),
    ),
    (
        "(train_lm pid=1234, ip=10.0.0.2) step 100/5155 | loss 2.312 | 0.4s/it",
        ("key_value", 100, 0, 5155, True, 2.312, 2.5),
    ),
    (
        "I0101 10:00:00 metric_logger.py:192 completed step: 12, seconds: 3.2, loss: 9.123",
        ("key_value", 12, 0, None, False, 9.123, None),
    ),
    ("step 4.6k/50k | loss 2.31", ("key_value", 4600, 50, 50_000, False, 2.31, None)),
    ("[rank0] step=4.62k/50000, loss=2.31", ("key_value", 4620, 5, 50_000, True, 2.31, None)),
    ("step 4.6k tokens 3.1M loss 2.31", ("key_value", 4600, 50, None, False, 2.31, None)),
    ("step 4.6k tokens/s: 310 loss 2.31", ("key_value", 4600, 50, None, False, 2.31, None)),
    ("step 4.6k secs=0.4 | loss 2.31", ("key_value", 4600, 50, None, False, 2.31, None)),
    ("iter: 1.2M loss: 2.31 4.15it/s", ("key_value", 1_200_000, 50_000, None, False, 2.31, 4.15)),
    ("train step 12K/1.5M", ("key_value", 12_000, 500, 1_500_000, False, None, None)),
    ("loss=2.31", ("key_value", None, 0, None, False, 2.31, None)),
    ("train_loss: 2.310", ("key_value", None, 0, None, False, 2.31, None)),
    (
        "2026-11-21 10:00:00,123 INFO [rank0]: loss=2.31, lr=1e-4, grad_norm=0.4",
        ("key_value", None, 0, None, False, 2.31, None),
    ),
    ("(train_lm pid=1234) loss: 2.4e0 | ppl: 10", ("key_value", None, 0, None, False, 2.4, None)),
    ('{"step": 4600, "loss": 2.31, "lr": 0.0003}', ("json", 4600, 0, None, False, 2.31, None)),
    (
        '{"current_steps": 10, "total_steps": 1000, "loss": 1.2}',
        ("json", 10, 0, 1000, True, 1.2, None),
    ),
]


@every_row(("text", "said"), TRAINING)
def test_a_line_of_training_is_read(text: str, said: tuple[object, ...]) -> None:
    line = read_line(text)
    assert line is not None
    assert line.phase == "training"
    rate = None if line.rate is None else round(line.rate, 6)
    whole = (line.format, line.step, line.uncertainty, line.maximum, line.maximum_exact)
    assert (*whole, line.loss, rate) == said


@pytest.mark.parametrize(
    "text",
    [
        "Progress on:eval 10.0it/100it rate:4.3s/it remaining:37:42 elapsed:0:40 postfix:-",
        " validation loss at iteration 1000 | lm loss value: 2.379E+00 | lm loss PPL: 1.0E+01 |",
        "Sanity Checking DataLoader 0:   0%|          | 0/2 [00:00<?, ?it/s]",
        "Validation DataLoader 0:  50%|█████     | 5/10 [00:01<00:01,  4.1it/s]",
        "{'eval_loss': 2.1, 'eval_runtime': 3.2, 'epoch': 1.0}",
        '{"eval/loss": 2.2, "step": 1000}',
        "step:125/9536 val_loss:3.6123 train_time:12300ms",
        "eval step 10/50 loss 2.3",
        "eval step 1.2k/5k loss 2.3",
        "step 4.6k/50k | val_loss 2.31",
        "Progress on:train -/2384 rate:- remaining:? elapsed:00:00 postfix:-",
    ],
)
def test_an_evaluation_and_what_has_not_begun_are_no_progress(text: str) -> None:
    line = read_line(text)
    assert line is not None
    assert line.phase in ("evaluation", "not_started")
    assert parse_progress(text) is None


@pytest.mark.parametrize(
    ("counts", "maximum", "exact"),
    [
        ("-/2384", 2384, True),
        ("-/86.0it", 86, True),
        ("-/2.38kit", 2380, False),
        ("-/?", None, False),
    ],
)
def test_a_bar_that_has_not_begun_shows_its_maximum(
    counts: str, maximum: int | None, *, exact: bool
) -> None:
    line = read_line(f"Progress on:train {counts} rate:- remaining:? elapsed:00:00 postfix:-")
    if maximum is None:
        assert line is None
        return
    assert line is not None
    assert (line.phase, line.step) == ("not_started", None)
    assert (line.maximum, line.maximum_exact) == (maximum, exact)


@every_row(
    "text",
    [
        "Evaluating: 120it [00:41,  2.9it/s]",
        "Reading files: 120it [00:41,  2.9it/s]",
        "Downloading shards: 100%|██████████| 30/30 [00:41<00:00,  1.40s/it]",
        "Map (num_proc=8):  12%|█▏        | 1000/8000 [00:10<00:50, 123 examples/s]",
        "Tokenizing:  12%|█▏        | 1.2k/8.00k [00:10<00:50, 123it/s]",
        "Loading checkpoint shards: 100%|██████████| 8/8 [00:01<00:00,  7.1it/s]",
        " 12%|█▏        | 1167/9540 [1:02:03<7:11:10,  3.09s/it]",
        "{'train_runtime': 300.0, 'train_loss': 2.2, 'epoch': 3.0}",
        "Saving temporary checkpoint at step 1860",
        "Saving checkpoint at step 4.6k/50k",
        "max steps 50k, loss: ce",
        "total steps: 50k | loss 0.5",
        "warmup steps 1.2k/5k",
        "step 4.6k tokens",
        "step 4.6k tokens | loss 2.3",
        "step 4.6k ms loss 2.3",
        "step 4.6k-token batches, loss 2.3",
        "step 4.6k tokens/s | loss 2.3",
        "step 4.6k / 50k samples | loss 2.3",
        "step: 4.6k samples per second, loss 2.3",
        "step 4.6k/s",
        "step 4.6kB/50kB loss 2.3",
        "step 2.5m/10m",
        "every step 1k | loss 2.31",
        "step time 4.6k/50k",
        "test_loss=2.31",
        "test loss=2.31",
        "eval/loss=2.31",
        "[eval] loss=2.31",
        "best_loss=2.31",
        "best loss: 2.31",
        "loss=ce",
        "loss: 1",
        "  loss: 0.5",
        "loss_scale=65536.0",
        "loss: 0.5 # weight of the auxiliary loss",
        "loss=2.31 val_loss=2.40",
        "loss=0.5, optimizer=adam",
        "loss: 12.5%",
        "aux loss=2.31",
        "the loss=2.31",
        "loss 2.31",
        "Resuming training from step 1000",
        "max_steps=1000 warmup_steps: 100",
        "ERROR at step: 100 failed",
        "NCCL timeout at step: 1000",
        "Gradient overflow. Skipping step, loss scaler 0 reducing loss scale to 32768",
        "we agreed on the next step 3 people",
        '{"step": -1}',
        '{"step": "x"}',
        "{broken",
        "",
    ],
)
def test_other_lines_say_nothing(text: str) -> None:
    assert read_line(text) is None


@pytest.mark.parametrize(
    ("text", "step"),
    [
        ("Epoch 3:  62%|██▏  | 1167/1860 [10:02<05:33,  2.08it/s, train_loss=2.3]", 6747),
        ("Epoch 2/3:  40%|##  | 40/100 [00:10<00:15, 4.0it/s, loss=1.1]", 140),
        ("Epoch 0:  62%|██▏  | 1167/1860 [10:02<05:33,  2.08it/s, train_loss=2.3]", 1167),
    ],
)
def test_a_bar_of_an_epoch_counts_the_epochs_before(text: str, step: int) -> None:
    shown = parse_progress(text)
    assert shown is not None
    assert (shown.step, shown.maximum) == (step, 1860 if step == 1167 else None)


def test_a_loss_that_is_no_number_is_read() -> None:
    for text in ("step=5 loss=nan", "step=5 loss=-inf", '{"step": 5, "loss": NaN}'):
        line = read_line(text)
        assert line is not None
        assert line.loss is not None
        assert not math.isfinite(line.loss)


def test_rounding_of_a_printed_loss_is_known() -> None:
    assert read_line("step=5 loss=2.31") == Line(
        "key_value", "training", step=5, loss=2.31, loss_slack=0.005
    )


def test_of_updates_that_overwrite_each_other_the_newest_counts() -> None:
    line = read_line("step=1 loss=3\rstep=2 loss=2\r")
    assert line is not None
    assert line.step == 2


def test_colours_are_no_part_of_a_line() -> None:
    line = read_line("\x1b[32mstep:\x1b[0m 12  loss: 8.1")
    assert line is not None
    assert line.step == 12


def test_a_line_of_a_million_characters_is_read_in_time() -> None:
    assert read_line("step " * 200_000) is None
    assert read_line("a|" * 500_000) is None
    assert read_line("1" * 1_000_000) is None


# --- Epochs ---------------------------------------------------------------------------------------

FAIRSEQ = (
    "2026-01-01 10:00:00 | INFO | train_inner | epoch 003:    100 / 200 loss=2.3, nll_loss=2.1, "
    "wps=1000, ups=1.2, num_updates=4100, lr=0.0005, gnorm=1.2, train_wall=100"
)
OLMO = "2026-01-01 10:00:00.123 host:0 olmo.train:1005 INFO [step=100/739328,epoch=0]"


@every_row(
    ("text", "epoch", "step", "maximum", "of_the_run"),
    [
        ("Epoch 3/10: step 100/200", 3, 100, 200, 500),
        ("(trainer pid=123) Epoch 3/10: step 100/200 loss 2.3", 3, 100, 200, 500),
        ("Epoch [3/10], Step [100/600], Loss: 0.2345", 3, 100, 600, 1300),
        ("[Epoch 3/10][Batch 100/200] loss=2.3", 3, 100, 200, 500),
        ("epoch 3/10, iteration 100/200, loss=2.3", 3, 100, 200, 500),
        ("Epoch 3/10 | iteration 100/200 | loss 2.3 |", 3, 100, 200, 500),
        ("Epoch: [3][ 100/1251]  Time 0.3 (0.3)  Loss 2.3456e+00 (2.5)", 3, 100, 1251, 3853),
        ("Epoch(train)  [3][ 100/1251]  lr: 1.0e-02  eta: 1:00:00  loss: 2.3", 3, 100, 1251, 2602),
        ("Train: 3 [ 100/1251 (  8%)]  Loss: 2.345 (2.40)  Time: 0.300s", 3, 100, 1251, 3853),
        ("| epoch   3 |   200/ 2983 batches | lr 5.00 | loss  5.67 | ppl 290", 3, 200, 2983, 9149),
        # Composer's console counts epochs from 1: it prints `cur_epoch + 1`.
        ("[epoch=2][batch=100/4800]:", 2, 100, 4800, 4900),
        ("Epoch 3/9 ━━━━━━ 90/200 0:00:10 • 0:00:12 9.00it/s train_loss: 0.3", 3, 90, 200, 690),
        ("Epoch 3/10:  45%|████▌     | 90/200 [00:10<00:12, 9.0it/s, loss=1]", 3, 90, 200, 490),
        ("train    Epoch   2:   10%|██▌    | 100/1000 [02:00<18:00, 1.2s/ba, loss/train/total=2]",
         2, 100, 1000, 2100),
        ("Epoch 1/10: step 100/200", 1, 100, 200, 100),
    ],
)  # fmt: skip
def test_a_step_of_an_epoch_is_told_from_one_of_the_run(
    text: str, epoch: int, step: int, maximum: int, of_the_run: int
) -> None:
    line = read_line(text)
    assert line is not None
    assert (line.phase, line.in_epoch) == ("training", True)
    assert (line.epoch, line.step, line.maximum, line.maximum_exact) == (epoch, step, maximum, True)
    progress = parse_progress(text)
    assert progress is not None
    assert progress.step == of_the_run
    # The maximum of one epoch of several is no run's last step.
    assert progress.maximum is None


@every_row(
    ("text", "epoch", "step", "maximum"),
    [
        (OLMO, 0, 100, 739_328),
        (FAIRSEQ, 3, 4100, None),
        (
            "2026 | INFO | train | epoch 003 | loss 2.345 | num_updates 12300 | lr 1",
            3,
            12_300,
            None,
        ),
        ('{"epoch": 3, "update": 2.5, "loss": "2.345", "num_updates": "12300"}', 3, 12_300, None),
        ("[Epoch 3][Step 100]", 3, 100, None),
        ("Epoch 3, Step 100, Loss: 2.3", 3, 100, None),
        ("epoch: 3 | global step: 1234 | loss: 2.0", 3, 1234, None),
        ("epoch=0/micro_step=400/global_step=100, RunningAvgSamplesPerSec=12.3", 0, 100, None),
        ("epoch=3 step=100 total_steps=200 loss=2.3", 3, 100, 200),
        ("Epoch 3/10: step 100/200 global_step=500 loss=1", 3, 500, None),
        ("Training: step 100 of 1,000", None, 100, 1000),
        ("[batch=100/4800]:", None, 100, 4800),
        ("Iter(train) [  100/160000]  lr: 1.0e-02  eta: 1:00:00  loss: 2.3", None, 100, 160_000),
        ("INFO:absl:train_step=100, loss=2.3", None, 100, None),
        ("{'loss': 0.5, 'epoch': 1.2}", 1.2, None, None),
        ("{'loss': '0.5', 'epoch': '0.02'}", 0.02, None, None),
        (NEMO, 0, 12, 999),
    ],
)
def test_a_step_of_the_run_is_one_whatever_epoch_is_shown(
    text: str, epoch: float | None, step: int | None, maximum: int | None
) -> None:
    line = read_line(text)
    assert line is not None
    assert (line.phase, line.in_epoch) == ("training", False)
    assert (line.epoch, line.step, line.maximum) == (epoch, step, maximum)
    assert line.maximum_exact is (maximum is not None)


@pytest.mark.parametrize(
    "text",
    [
        "100/200 [==========>...................] - ETA: 12s - loss: 0.3456 - accuracy: 0.91",
        "100/200 ━━━━━━━━━━━━━━━━━━━━ 12s 120ms/step - accuracy: 0.9100 - loss: 0.3456",
    ],
)
def test_a_bar_of_keras_tells_no_step_of_the_run(text: str) -> None:
    line = read_line(text)
    assert line is not None
    assert (line.format, line.step, line.maximum, line.in_epoch) == ("keras", 100, 200, True)
    assert (line.epoch, line.loss) == (None, 0.3456)
    assert parse_progress(text) is None
    known = in_epoch_of(line, (3, 10))
    assert (known.epoch, known.epochs_done) == (3, 2)


@pytest.mark.parametrize(
    "text",
    [
        "Train Epoch: 3 [6400/60000 (11%)]\tLoss: 0.345678",
        "Step 2 of 5: building the image",
        "Processing batch 3/10",
        "batch size: 512",
        "Epoch 3/10",
        "epoch 3 began at 2026/01/02",
        "Saving checkpoint of epoch 3/10: step 100/200",
        "Epoch 3 took 100.5/200.5 s",
        "Step 1.86kit/2.38kit",
    ],
)
def test_what_counts_no_steps_tells_none(text: str) -> None:
    line = read_line(text)
    assert line is None or line.step is None


@pytest.mark.parametrize(
    "text", ["Eval Epoch: [3][ 10/50]  Loss 2.3", "Epoch 3/10: step 5/9 val_loss 2"]
)
def test_an_evaluation_in_an_epoch_is_no_progress(text: str) -> None:
    line = read_line(text)
    assert line is not None
    assert (line.phase, line.step) == ("evaluation", None)


@pytest.mark.parametrize(
    "text",
    [
        "epoch 1" + " " * 20_000,
        "epoch " * 4_000,
        "epoch 1 | " * 2_000 + "/",
        "step=" + " " * 20_000 + "x",
        "step" + " " * 20_000 + "[",
        "step 1" + " " * 20_000 + "of",
        "Train: 1" + " " * 20_000 + "/",
        " " * 20_000 + "1/2",
        "1/2 [" + "=" * 20_000 + "/",
        "epoch 1/" + "\u2501" * 20_000,
        "global step" + " " * 20_000,
    ],
)
def test_no_line_takes_long(text: str) -> None:
    begin_s = time.process_time()
    for _ in range(20):
        read_line.__wrapped__(text)
    assert time.process_time() - begin_s < 2, "under 100 ms of a processor for each line"
