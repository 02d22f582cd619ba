"""The door `progress`: lines in, one JSON object out for each, and no line takes the rest along."""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import in_this_process
from watchkeeper.adapters.cli.progressing import LINE_BYTES_MAX

COMMAND = (sys.executable, "-c", "import sys; from watchkeeper.adapters.cli import main; main()")
BAR = "Progress on:train 1.86kit/2.38kit rate:4.3s/it remaining:37:42 postfix:loss=0.644"


@pytest.fixture(autouse=True)
def no_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WATCHKEEPER_HOME", "/nonexistent")


def run(*arguments: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return in_this_process("tools", "progress", *arguments, given=given)


def run_process(*arguments: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        (*COMMAND, "tools", "progress", *arguments),
        input=given,
        capture_output=True,
        timeout=60,
        check=False,
    )


def answers(done: subprocess.CompletedProcess[bytes]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in done.stdout.splitlines()]


def asked(*rows: object) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def test_each_line_is_answered_in_order_with_every_field() -> None:
    done = run_process(
        "--jsonl",
        "-",
        given=asked(
            {"id": "a", "line": BAR},
            {"id": 2, "line": "Saved checkpoint"},
            {"id": "c", "text": f"step: 4600 loss: nan\n{'x' * 50}\n"},
        ),
    )
    assert done.returncode == 0, done.stderr
    first, second, third = answers(done)
    assert first == {
        "id": "a",
        "step": 1860,
        "uncertainty": 5,
        "maximum": 2380,
        "maximum_exact": False,
        "loss": 0.644,
        "rate": 0.232558,
        "phase": "training",
        "format": "levanter",
    }
    assert second == dict.fromkeys(first) | {"id": 2}
    assert (third["step"], third["loss"], third["format"]) == (4600, "NaN", "key_value")


def test_of_a_text_the_newest_line_of_training_is_told() -> None:
    text = "step=10 loss=3\nstep=20 loss=2\nValidation:  50%|##| 5/10 [00:01<00:01, 4it/s]"
    (answer,) = answers(run("--jsonl", "-", given=asked({"id": 1, "text": text})))
    assert (answer["step"], answer["phase"]) == (20, "training")


@pytest.mark.parametrize(
    ("text", "step", "loss"),
    [
        ("loss=2.31", None, 2.31),
        ("step=10 loss=3\nloss=2.31", 10, 3.0),
        ("step=10\nloss=2.31", 10, 2.31),
        ("loss=2.31\nstep=20 loss=2", 20, 2.0),
        ("loss=nan", None, "NaN"),
    ],
)
def test_a_loss_alone_takes_no_step_from_a_line_that_has_its_own(
    text: str, step: int | None, loss: float | str
) -> None:
    (answer,) = answers(run("--jsonl", "-", given=asked({"id": 1, "text": text})))
    assert (answer["step"], answer["loss"], answer["phase"]) == (step, loss, "training")


@pytest.mark.parametrize(
    ("text", "step", "loss"),
    [
        ("step 100/1000 loss 3.0\nstep 200/1000\nloss=2.31\nEvaluation\nloss=9.99", 200, 2.31),
        ("step 200/1000\nEvaluation\nloss=9.99", 200, None),
        ("step 200/1000\n=== Running validation ===\n\nloss=9.98\nloss=9.99", 200, None),
        ("step 200/1000\nEvaluating: 100%|##| 5/5 [00:01<00:00, 4it/s]\nloss=9.99", 200, None),
        ("Evaluation\nstep 200/1000\nloss=2.31", 200, 2.31),
        ("step 200/1000\nval_loss=9.99\nloss=2.31", 200, 2.31),
        ("step 200/1000\nEvaluation finished\nloss=2.31", 200, 2.31),
        ("step 200/1000\nmodel /data/validated/7b\nloss=2.31", 200, 2.31),
    ],
)
def test_the_loss_below_an_evaluation_s_header_is_not_training_s(
    text: str, step: int, loss: float | None
) -> None:
    (answer,) = answers(run("--jsonl", "-", given=asked({"id": 1, "text": text})))
    assert (answer["step"], answer["loss"], answer["phase"]) == (step, loss, "training")


def test_a_text_of_an_evaluation_alone_shows_no_loss() -> None:
    text = "Evaluation\nloss=9.99"
    (answer,) = answers(run("--jsonl", "-", given=asked({"id": 1, "text": text})))
    assert (answer["step"], answer["loss"], answer["phase"]) == (None, None, "evaluation")


HF_BAR = " 36%|███▌      | {}/5155 [04:48<02:46,  4.15it/s]"
HF_LOSS = "{'loss': 2.3121, 'grad_norm': 1.25, 'learning_rate': 4.9e-05, 'epoch': 0.36}"


@pytest.mark.parametrize(
    "text",
    [
        f"{HF_BAR.format(1860)}\n{HF_LOSS}",
        f"{HF_LOSS}\n{HF_BAR.format(1860)}",
        f"{HF_BAR.format(1860)}\r{' ' * 60}\r{HF_LOSS}",
    ],
)
def test_a_bare_bar_beside_a_loss_tells_the_step(text: str) -> None:
    (answer,) = answers(run("--jsonl", "-", given=asked({"id": 1, "text": text})))
    shown = (answer["step"], answer["maximum"], answer["phase"])
    assert shown == (1860, 5155, "training")
    assert answer["loss"] == 2.3121


def test_a_log_s_bare_bars_tell_steps_once_a_loss_stands_beside_them(tmp_path: Path) -> None:
    log = tmp_path / "log"
    lines = [HF_BAR.format(1), HF_LOSS, HF_BAR.format(2), " 4%|#  | 3/63 [00:01<00:09, 4.15it/s]"]
    log.write_text("\n".join(lines), encoding="utf-8")
    shown = [(answer["id"], answer["step"]) for answer in answers(run(str(log)))]
    assert shown == [(2, None), (3, 2)]


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (b"{broken\n", "line 2: "),
        (b'{"id": "x"}\n', 'expected either "line" or "text"'),
        (b'{"line": "step=1"}\n', "id: Field required"),
        (b'{"id": "x", "line": 5}\n', "line: Input should be a valid string"),
        (b'"step=1"\n', "line 2: "),
        (b"\xff\xfe\n", "line 2: "),
    ],
)
def test_a_bad_line_is_told_with_its_number_and_the_others_are_answered(
    bad: bytes, said: str
) -> None:
    good = asked({"id": 1, "line": "step=1 loss=2"})
    done = run("--jsonl", "-", given=good + bad + b"\n" + good)
    assert done.returncode == 4
    assert [one["step"] for one in answers(done)] == [1, 1]
    errors = done.stderr.decode()
    assert said in errors
    assert "1 line not answered" in errors
    assert "Traceback" not in errors


def test_a_log_gives_the_lines_that_say_something(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text(f"hello\n{BAR}\nProgress on:train -/2384 rate:- remaining:?\nstep=7 loss=inf\n")
    found = [(one["id"], one["step"], one["phase"]) for one in answers(run(str(log)))]
    assert found == [(2, 1860, "training"), (3, None, "not_started"), (4, 7, "training")]


def test_a_process_leaves_with_the_code_of_bad_input() -> None:
    done = run_process("--jsonl", "-", given=b"{broken\n")
    assert (done.returncode, done.stdout) == (4, b"")
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("arguments", [(), ("log", "--jsonl", "-"), ("/nonexistent/log",)])
def test_what_is_asked_wrongly_is_bad_input(arguments: tuple[str, ...]) -> None:
    done = run(*arguments)
    assert done.returncode == 4
    assert b"Traceback" not in done.stderr


def test_a_thousand_lines_a_second_and_constant_memory(tmp_path: Path) -> None:
    lines = tmp_path / "many.jsonl"
    with lines.open("w") as file:
        for number in range(30_000):
            file.write(json.dumps({"id": number, "line": f"step={number} loss=2.{number}"}) + "\n")
    begin = time.perf_counter()
    done = run_process("--jsonl", str(lines))
    taken = time.perf_counter() - begin
    assert len(done.stdout.splitlines()) == 30_000
    assert taken < 30, "1,000 lines a second, the start of Python included"


def test_a_log_s_line_that_is_too_long_is_told_and_the_others_are_answered(tmp_path: Path) -> None:
    log = tmp_path / "long.log"
    log.write_bytes(b"x" * (LINE_BYTES_MAX + 1) + b"\nstep 100/200 loss 2.5\n")
    done = run(str(log))
    assert (done.returncode, len(done.stdout.splitlines())) == (4, 1)
    assert f"line 1: longer than {LINE_BYTES_MAX} bytes" in done.stderr.decode()


def test_an_epoch_is_told_as_printed_and_a_bar_of_keras_gets_it_from_the_line_above(
    tmp_path: Path,
) -> None:
    log = tmp_path / "keras.log"
    bar = "{}/200 [=====>....] - ETA: 12s - loss: 0.5"
    log.write_text(
        "\n".join(["Epoch 3/10", bar.format(100), bar.format(150), "Epoch 4/10", bar.format(1)])
    )
    told = [(one["epoch"], one["step"], one["in_epoch"]) for one in answers(run(str(log)))]
    assert told == [(3, 100, True), (3, 150, True), (4, 1, True)]
    rows = [
        {"id": 1, "text": log.read_text()},
        {"id": 2, "line": "Epoch 3/10: step 100/200"},
        {"id": 3, "line": "[step=100/739328,epoch=0]"},
        {"id": 4, "line": bar.format(7)},
    ]
    first, second, third, fourth = answers(run("--jsonl", "-", given=asked(*rows)))
    assert (first["epoch"], first["step"], first["maximum"]) == (4, 1, 200)
    assert (second["epoch"], second["step"], second["maximum"]) == (3, 100, 200)
    assert second["in_epoch"]
    assert (third["epoch"], third["step"], "in_epoch" in third) == (0, 100, False)
    assert (fourth["step"], "epoch" in fourth) == (7, False)


@pytest.mark.parametrize(("row", "many"), [({"line": BAR}, True), ({"loss": 1}, False)])
def test_lines_that_were_read_as_one_log_are_told_of(row: dict[str, Any], many: bool) -> None:
    done = run("-", given=asked({"id": 7, **row}))
    assert done.returncode == 0
    told = b'{"id", "line"} or {"id", "text"}, use `watchkeeper tools progress'
    assert (told in done.stderr) == many
