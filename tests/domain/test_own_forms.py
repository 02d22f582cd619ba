"""Forms that only their framework tells of training: as each prints them, and what looks so."""

import json
import math

import pytest
from click.testing import CliRunner

from tests.every_row import every_row
from watchkeeper.adapters.cli import cli
from watchkeeper.domain.reading.progress.lines import read_line
from watchkeeper.domain.reading.progress.progress import parse_progress, progress_at

WRITER = "I0812 10:11:12.123456 140001 logging_writer.py:48] "
TUNED = "1|1200|Loss: 1.4831:   5%|\u258c         | 1200/25880 [1:01:10<20:01:09,  4.00s/it]"
LITGPT = "Epoch 2 | iter 80 step 10 | loss train: 3.141, val: 2.913 | iter time: 123.45 ms (step)"
TITAN = "step: 10  loss:  7.1234  grad_norm:  1.2  memory: 42.01GiB(44.20%)  tps: 1,234  mfu: 2.10%"
NANOTRON = (
    "08/12/2024 10:11:12 [INFO|DP=0|PP=0|TP=0|ip-10-0-0-1]: iteration: 10 / 1000 | consumed_tokens:"
    " 2.62M | elapsed_time_per_iteration_ms: 1.2K | tokens_per_sec: 218K | lm_loss: 10.9 | lr: 1e-4"
)
MAXTEXT = (
    "completed step: 10, seconds: 1.234, TFLOP/s/device: 56.2, Tokens/s/device: 1234.5, "
    "total_weights: 65536, loss: 3.412"
)
EASYDEL = "{'train': {'epoch': 0.1, 'loss': 2.31, 'train_step': 120, 'z_loss': None}}"


@every_row(
    ("text", "said"),
    [
        ("1|100|Loss: 2.3456", ("torchtune", 100, None, 2.3456, None, 1)),
        (TUNED, ("torchtune", 1200, None, 1.4831, 0.25, 1)),
        ("Step 100 | loss:2.345 lr:0.0003 tokens_per_second_per_gpu:1234.5 ",
         ("key_value", 100, None, 2.345, None, None)),
        (WRITER + "[100] steps_per_second=4.5, train_loss=0.123",
         ("clu", 100, None, 0.123, 4.5, None)),
        (WRITER + "[100] accuracy=0.9, loss=0.5", ("clu", 100, None, 0.5, None, None)),
        (WRITER + "[100] collection=train loss=0.5, lr=0.1", ("clu", 100, None, 0.5, None, None)),
        (WRITER + "[100] steps_per_sec=3.125", ("clu", 100, None, None, 3.125, None)),
        (WRITER + "[100] uptime=60.2", ("clu", 100, None, None, None, None)),
        ("[100] train_loss=0.123, steps_per_second=4.5", ("clu", 100, None, 0.123, 4.5, None)),
        ("I0325 local.py:41] Setting work unit notes: 8.3 steps/s, 40.0% (4/10), ETA: 0m",
         ("clu", 4, 10, None, 8.3, None)),
        ("I0325 local.py:41] Setting work unit notes: 0.5 steps/s, 0.0% (1/500000), ETA: 400d22h17m"
         " (2m : 4.3% data, 95.2% train_step)", ("clu", 1, 500_000, None, 0.5, None)),
        ("I0325 14:01:31 1302 trainer.py:512] Training: step 4096",
         ("t5x", 4096, None, None, None, None)),
        (LITGPT, ("litgpt", 10, None, 3.141, None, 2)),
        ("\t Train time/batch: 365", ("composer", 365, None, None, None, None)),
        (MAXTEXT, ("key_value", 10, None, 3.412, None, None)),
        (f"[titan] 2025-06-11 14:20:03,123 - root - INFO - \x1b[31m{TITAN}\x1b[39m",
         ("key_value", 10, None, 7.1234, None, None)),
        (NANOTRON, ("key_value", 10, 1000, 10.9, None, None)),
        ("2024-02-01 12:00:00.1 host:0 console_logger:68 INFO [step=50/2385,epoch=1,eta=17m]",
         ("key_value", 50, 2385, None, None, 1)),
        ("Train Metrics (step 100) - Loss: 2.345 | Gradient Norm: 1.2 | Elements per Second: 3",
         ("key_value", 100, None, 2.345, None, None)),
        (EASYDEL, ("hugging_face", 120, None, 2.31, None, 0.1)),
    ],
)  # fmt: skip
def test_a_line_is_read_as_its_framework_prints_it(text: str, said: tuple[object, ...]) -> None:
    line = read_line(text)
    assert line is not None
    assert (line.phase, line.in_epoch) == ("training", False)
    assert (line.format, line.step, line.maximum, line.loss, line.rate, line.epoch) == said
    shown = parse_progress(text)
    assert shown is not None
    assert shown.step == line.step


@pytest.mark.parametrize(
    "text",
    [
        WRITER + "[100] collection=eval loss=0.5",
        WRITER + "[100] collection=infer_eval/glue accuracy=0.5",
        WRITER + "[100] eval_loss=0.5, eval_accuracy=0.4",
        WRITER + "[100] validation/perplexity=12.5",
        "Validation Metrics (step 100) - Loss: 2.345",
        "iter 80: val loss 2.4000, val time: 123.40 ms",
        "validate step: 10  loss:  7.1234  memory: 42.01GiB(44.20%)  tps: 1,234",
        "eval metrics after step: 10, loss=3.412, total_weights=65536.0",
        "[Eval batch=8/8] Eval on eval data:",
        "{'eval': {'loss': 2.4, 'eval_step': 12}}",
    ],
)
def test_an_evaluation_is_no_progress(text: str) -> None:
    line = read_line(text)
    assert line is not None
    assert (line.phase, line.step) == ("evaluation", None)


@every_row(
    "text",
    [
        "1|100|Loss",
        "a table |1|100|Loss: high",
        "3|1|Lossless: 2.3",
        WRITER + "[100] Got images: {'x': (1, 2)}.",
        WRITER + "[100] Histogram for 'w' = {[0, 1): 3}",
        WRITER + "[Hyperparameters] {'lr': 0.1}",
        "[0] loss=2.31",  # A rank's number.
        "[3] NCCL INFO comm=0x1, rank=3",
        "[12] steps_per_second=4.5",
        "[2024-02-01] train_loss=0.1, steps_per_second=4.5",
        "the last job made 8.3 steps/s, 40.0% (of its peak)",
        "Starting training: step 0 -> 5000",
        "Training: step size 4096",
        "Epoch 2 | iter time: 123 ms | val: 2.9",
        "\t Train time/batch_in_epoch: 99",
        "\t Train time/token: 51904512",
        "\t Train trainer/device_train_microbatch_size: 16",
        "\t Train metrics/train/LanguagePerplexity: 114977.1562",
        "\t Eval metrics/eval/LanguageCrossEntropy: 2.31",
        "[token=51904512/1000000000]:",
        "    train/Perplexity=62,334",
        "    throughput/total_tokens=41,943,040",
        "[eval_step=10/100]",
        "[2022-03-11 02:06:58,985] [INFO] [timer.py:189:stop] 0/40, SamplesPerSec=83.48",
        "[INFO] [logging.py:96:log_dist] [Rank 0] time (ms) | forward: 652.41 | step: 1172.13",
        "time (ms) | forward: 659.86 | backward: 2164.69 | optimizer: 1172.51",
    ],
)
def test_what_looks_like_one_of_them_says_nothing(text: str) -> None:
    assert read_line(text) is None


COMPOSER = (
    "[batch=366/48000]:",
    "\t Train time/batch: 365",
    "\t Train time/token: 382730240",
    "\t Train trainer/device_train_microbatch_size: 16",
    "\t Train loss/train/total: {}",
    "\t Train metrics/train/LanguageCrossEntropy: 10.3750",
)
OLMO = (
    "2026-01-01 10:00:00.123 host:0 olmo.train:1005 INFO [step=100/739328,epoch=0]",
    "    optim/total_grad_norm=1.234",
    "    train/CrossEntropyLoss={}",
    "    train/Perplexity=62,334",
)
OLMO_CORE = (
    "2026-01-01 10:00:00.123 host:0 console_logger:68 INFO [step=100/2000,epoch=0,eta=5h11m]",
    "    train/CE loss={}",
    "    train/PPL=511.9",
)


@pytest.mark.parametrize(
    ("block", "name", "place", "step", "maximum"),
    [
        (COMPOSER, "composer", 4, 365, 48_000),
        (OLMO, "olmo", 2, 100, 739_328),
        (OLMO_CORE, "olmo", 1, 100, 2000),
    ],
    ids=["Composer", "OLMo", "OLMo-core"],
)
@pytest.mark.parametrize("loss", ["10.3750", "nan"])
def test_a_block_s_loss_is_of_the_step_above_it(
    block: tuple[str, ...], name: str, place: int, step: int, maximum: int, loss: str
) -> None:
    lines = [line.format(loss) for line in block]
    alone = read_line(lines[place])
    assert alone is not None
    assert (alone.format, alone.phase, alone.step) == (name, "training", None)
    shown = progress_at(lines, place)
    assert shown is not None
    assert shown.loss is not None
    assert (shown.step, shown.loss == 10.375) == (step, math.isfinite(float(loss)))
    # Without the block's first lines nobody knows of which step it is.
    assert progress_at(lines[place:], 0) is None
    asked = json.dumps({"id": 1, "text": "\n".join(lines)})
    words = ["tools", "progress", "--jsonl", "-"]
    answer = json.loads(CliRunner().invoke(cli, words, input=asked).stdout)
    assert (answer["step"] in (step, step + 1), answer["maximum"]) == (True, maximum)
    assert answer["loss"] == (10.375 if loss != "nan" else "NaN")


def test_a_loss_of_no_block_has_no_step() -> None:
    assert progress_at(["step: 7", "{'loss': 0.5, 'epoch': 1.2}"], 1) is None


@pytest.mark.parametrize(
    "text",
    [
        "eval Train loss/train/total: 2.1",
        "2026-01-01 10:00:00 INFO eval: Train loss/train/total: 2.1",
        "[validation] Train time/batch: 12",
        "eval train/CrossEntropyLoss=2.1",
        "eval " + TUNED,
        "eval: " + LITGPT,
        "eval {'loss': 2.3, 'epoch': 0.1}",
    ],
)
def test_a_form_of_training_that_an_evaluation_prints_is_no_training(text: str) -> None:
    line = read_line(text)
    assert line is not None
    assert (line.phase, line.step, line.loss) == ("evaluation", None, None)


@pytest.mark.parametrize(
    "before", ["", "\t ", "[INFO] ", "/jobs/eval ", "rank0: ", "I0812 test-run: "]
)
def test_what_else_stands_before_a_form_of_training_leaves_it_training(before: str) -> None:
    line = read_line(before + "Train loss/train/total: 2.1")
    assert line is not None
    assert (line.phase, line.loss) == ("training", 2.1)
