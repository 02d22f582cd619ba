"""Made logs for the speed of triage: progress as loggers write it, and one failure near the end.

Of each logger in `SHAPES` all lines have a text that some signature needs, so that each was read
closely once, at 0.5 to 17 MB/s.
"""

import json
from collections.abc import Callable, Sequence
from functools import partial
from random import Random

FAILURE = "RuntimeError: CUDA error: uncorrectable ECC error encountered"
_LINES = 8_000


def made_log(megabytes: int) -> bytes:
    """Return a log as training writes it: progress of several frameworks, and one failure."""
    lines: list[str] = []
    for step in range(2_000):
        lines += [
            f"I20260425 09:{step % 60:02}:05 14065304713811 tqdm_logging Progress on:train "
            f"{step}it/20.0kit rate:4.3s/it remaining:37:42 postfix:loss=0.{step % 1000:03}",
            f" iteration {step:8}/  311541 | consumed samples: {step * 512} | elapsed time per "
            f"iteration (ms): 23490.2 | learning rate: 9.702E-05 | lm loss: 2.7{step % 100:02}E+00 "
            "| grad norm: 0.175 | number of skipped iterations:   0 | number of nan iterations:   "
            "0 |",
            f"{{'loss': 2.9{step % 100:02}, 'grad_norm': 1.02, 'learning_rate': 4e-05, 'epoch': "
            f"0.{step % 100:02}}}",
            f"Epoch 3:  62%|######    | {step}/1860 [04:48<02:46, 4.15it/s, loss=2.61, v_num=7]",
            f"2026-04-25 09:{step % 60:02}:05,123 - trainer - INFO - step {step} loss 2.9"
            f"{step % 100:02} lr 4e-05 {step % 977} tokens/s",
            f"host-{step % 64} NCCL INFO Channel 00/0 : {step % 8}[0] -> 1[1] via P2P/IPC",
        ]
        if step % 10 == 0:
            lines.append(f"wandb: step {step} synced, train/error 0.031, eval/nan_count 0")
            lines.append(f"2026-04-25 09:00:05 INFO saved checkpoint to gs://b/r/step-{step}")
    return _planted(lines, megabytes)


def placed_log(megabytes: int) -> bytes:
    """Return a log of loggers that write into each line where in the code it stands."""
    lines: list[str] = []
    for step in range(2_000):
        at = f"2026-11-20 12:{step // 60 % 60:02}:{step % 60:02}"
        lines += [
            f"{at} INFO trainer.py:231 step={step} loss=2.{step % 100:02} grad_norm=0.3"
            f"{step % 10} host=worker-{step % 16}",
            f"I1120 12:{step // 60 % 60:02}:{step % 60:02}.123456 12345 trainer.py:88] step={step}",
            f"INFO {at[5:]} llm_engine.py:612] {step % 977}.0 tokens/s, {step % 10} reqs (3/10)",
        ]
    return _planted(lines, megabytes)


def _at(step: int) -> str:
    return f"2026-11-20 {step // 3600 % 24:02}:{step // 60 % 60:02}:{step % 60:02}"


def _placed_at_end(step: int, chance: Random) -> str:
    loss, norm = chance.uniform(1, 3), chance.random()
    return f"{_at(step)} INFO step={step} loss={loss:.3f} grad_norm={norm:.2f} (trainer.py:231)"


def _maxtext(step: int, chance: Random) -> str:
    return (
        f"completed step: {step}, seconds: {chance.uniform(2, 12):.3f}, TFLOP/s/device: "
        f"{chance.uniform(80, 400):.3f}, Tokens/s/device: {chance.uniform(900, 9000):.3f}, "
        f"total_weights: {chance.randrange(60_000, 70_000)}, loss: {chance.uniform(1, 12):.3f}"
    )


def _klog(step: int, chance: Random) -> str:
    return (
        f"I1120 {_at(step)[11:]}.{chance.randrange(10**6):06}       1 controller.go:"
        f'{chance.randrange(100, 999)}] "Reconciled" job="default/run-{step % 13}" '
        f'duration="{chance.randrange(5, 400)}ms"'
    )


def _json(step: int, chance: Random) -> str:
    line = {
        "level": "info",
        "ts": _at(step).replace(" ", "T") + ".123Z",
        "caller": f"trainer/loop.go:{chance.randrange(10, 999)}",
        "msg": "step done",
        "step": step,
        "loss": round(chance.uniform(1, 3), 4),
    }
    return json.dumps(line)


def _fairseq(step: int, chance: Random) -> str:
    return (
        f"{_at(step)} | INFO | train_inner | epoch 001:  {step:5} / 30000 loss="
        f"{chance.uniform(1, 12):.3f}, ppl={chance.uniform(4, 40):.2f}, "
        f"wps={chance.uniform(9e3, 9e4):.1f}, ups={chance.uniform(1, 3):.2f}, "
        f"wpb={chance.randrange(30_000, 40_000)}, bsz=512, num_updates={step}, "
        f"lr=0.000{step % 977}, gnorm={chance.random():.3f}, loss_scale=32, "
        f"train_wall={chance.randrange(5, 50)}, gb_free={chance.uniform(8, 30):.1f}, wall={step}"
    )


def _deepspeed(step: int, chance: Random) -> str:
    speed, now = chance.uniform(10, 99), chance.uniform(10, 99)
    return (
        f"[{_at(step)},{step % 1000:03}] [INFO] [timer.py:264:stop] epoch=0/micro_step={step}/"
        f"global_step={step}, RunningAvgSamplesPerSec={speed:.14f}, CurrSamplesPerSec={now:.14f}, "
        "MemAllocated=22.31GB, MaxMemAllocated=38.12GB"
    )


def _http(step: int, chance: Random) -> str:
    port = chance.randrange(20_000, 60_000)
    return f'INFO:     10.0.{step % 4}.{step % 250}:{port} - "POST /v1/completions HTTP/1.1" 200 OK'


def _saving(step: int, chance: Random) -> str:
    took = chance.uniform(1, 20)
    return f"{_at(step)} INFO saved checkpoint to gs://b/r/step-{step} in {took:.2f} s"


SHAPES: dict[str, Callable[[int, Random], str]] = {
    "a place in brackets at the end": _placed_at_end,
    "MaxText": _maxtext,
    "klog of a controller": _klog,
    "JSON with level and caller": _json,
    "fairseq": _fairseq,
    "DeepSpeed's timer": _deepspeed,
    "answers of an HTTP server": _http,
    "saved checkpoints": _saving,
}
"""A line of a logger, by what it is called: its step, and chance for its other numbers."""


def shaped_log(write: Callable[[int, Random], str], megabytes: int) -> bytes:
    """Return a log of one logger's lines alone."""
    chance = Random(7)
    return _planted([write(step, chance) for step in range(_LINES)], megabytes)


def logs(megabytes: int) -> dict[str, Callable[[], bytes]]:
    """Return what makes each log, by its name: so that one at a time is held in memory."""
    made: dict[str, Callable[[], bytes]] = {
        "log": partial(made_log, megabytes),
        "log with places of the code": partial(placed_log, megabytes),
    }
    made.update({name: partial(shaped_log, write, megabytes) for name, write in SHAPES.items()})
    return made


def _planted(lines: Sequence[str], megabytes: int) -> bytes:
    """Return the lines again and again, with one failure near the end."""
    block = ("\n".join(lines) + "\n").encode()
    log = block * (megabytes * 1_000_000 // len(block) + 1)
    at = log.rfind(b"\n", 0, len(log) - len(block) // 2) + 1
    return log[:at] + FAILURE.encode() + b"\n" + log[at:]
