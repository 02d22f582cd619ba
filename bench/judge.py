"""What judging one check costs: from an observation that was read to the events that follow.

    uv run python -m bench.judge [--points 10000] [--repetitions 200] [--json]

The observation holds a history of so many points with eight metrics, 200 lines of output and 32
checkpoints; the run has a full trail behind it. Time is CPU time of the process. The least of the
repetitions counts, since other work on the same cores only adds to it; the median is shown.
"""

import argparse
import cProfile
import json
import pstats
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from datetime import timedelta

import numpy as np
from tests.domain.given import History
from tests.domain.samples import bar, contract, fresh, job, listing, tracker

from watchkeeper.domain.reading.log_tail import read_tail
from watchkeeper.domain.reading.metrics.measuring import measure
from watchkeeper.domain.reading.progress.bare_bars import bare_maxima
from watchkeeper.domain.reading.progress.lines import read_line
from watchkeeper.domain.rules.decide import decide
from watchkeeper.domain.rules.watch.check import summarise
from watchkeeper.domain.rules.watch.commands import RecordCheck
from watchkeeper.domain.run.check_history import RECENT_CHECKS_MAX
from watchkeeper.domain.run.queries import earlier_of
from watchkeeper.domain.values.observation.observation import Observation
from watchkeeper.domain.values.observation.sources import MetricHistory

CPU_MS_MAX = 2.0
"""One check is judged in less."""

POINTS = 10_000
STEP_S = 2.0
CADENCE = timedelta(seconds=570)


def history_at(now: float, points: int) -> MetricHistory:
    """Return a healthy run's history that ends now."""
    rng = np.random.default_rng(1)
    last = int(now / STEP_S)
    steps = np.arange(max(1, last - points), last)
    size = steps.size

    def about(level: float, share: float) -> tuple[float, ...]:
        return tuple((level * (1 + share * rng.standard_normal(size))).tolist())

    return MetricHistory(
        steps=tuple(steps.tolist()),
        times=tuple((now - STEP_S * np.arange(size)[::-1]).tolist()),
        columns={
            "train/loss": about(2.4, 0.02),
            "grad/norm/total": about(0.3, 0.2),
            "throughput/tokens_per_second": about(2.5e6, 0.01),
            "throughput/mfu": about(0.4, 0.01),
            "train/z_loss": about(1e-3, 0.2),
            "train/router/routing_entropy_mean": about(2.0, 0.02),
            "optim/learning_rate": about(3e-4, 0.0),
            "optim/step_skipped": tuple([0.0] * size),
        },
    )


def command_of(history: History, points: int) -> RecordCheck:
    """Return a check of a healthy run with everything in it."""
    now = history.now.timestamp()
    reported = history_at(now, points)
    lines = tuple(bar(f"{one / 1000:.2f}kit/119kit") for one in range(17_000, 17_200))
    names = ("orchestrator", "logs", "tracker", "checkpoints", "history")
    seen = Observation(
        instance=history.instance,
        at=history.now,
        readings=tuple(fresh(name) for name in names),
        job=job(),
        log_lines=lines,
        tracker=tracker(
            reported.steps[-1],
            heartbeat_at=history.now,
            metrics={name: column[-1] for name, column in reported.columns.items()},
        ),
        checkpoints=listing(*range(1000, 33_000, 1000)),
        history=reported,
    )
    return RecordCheck.model_construct(
        now=history.now,
        actor=history.check_command().actor,
        token=history.run.watch.token,
        observation=seen,
        digest="d" * 64,
    )


def prepared(points: int) -> tuple[History, RecordCheck]:
    """Return a run with a full trail, and the check that is judged."""
    history = History().launch(contract(final_step={"value": 119_209, "source": "config"}))
    for _ in range(RECENT_CHECKS_MAX + 2):
        history.later(CADENCE)
        history.tell(command_of(history, 600))
    history.later(CADENCE)
    return history, command_of(history, points)


def with_megatron_tail(command: RecordCheck) -> RecordCheck:
    """Return the check with an output as Megatron-LM prints it: 65 kB, thirty words a line."""
    assert command.observation.history is not None
    first = command.observation.history.steps[-1] - 199
    rng = np.random.default_rng(2)
    losses = (2.4 + 0.02 * rng.standard_normal(200)).tolist()
    norms = (0.3 + 0.05 * rng.standard_normal(200)).tolist()
    lines = tuple(
        f" [2026-11-18 18:00:00] iteration {first + at:8d}/  119209 | consumed samples: "
        f"{512 * (first + at):12d} | elapsed time per iteration (ms): 812.3 | learning rate: "
        f"3.000000E-04 | global batch size:   512 | lm loss: {loss:.6E} | loss scale: 1.0 | "
        f"grad norm: {norm:.3f} | num zeros: 0 | params norm: 812.331 | number of skipped "
        "iterations:   0 | number of nan iterations:   0 |"
        for at, (loss, norm) in enumerate(zip(losses, norms, strict=True))
    )
    seen = command.observation.model_copy(update={"log_lines": lines})
    return command.model_copy(update={"observation": seen})


def cpu_ms(work: Callable[[], object], repetitions: int) -> tuple[float, float]:
    """Return the least and the median CPU time of work whose lines were not read before."""
    taken: list[float] = []
    for _ in range(repetitions):
        read_line.cache_clear()
        bare_maxima.cache_clear()
        begin = time.process_time_ns()
        work()
        taken.append((time.process_time_ns() - begin) / 1e6)
    return round(min(taken), 3), round(statistics.median(taken), 3)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=POINTS)
    parser.add_argument("--repetitions", type=int, default=200)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--profile", action="store_true", help="say where the time goes")
    chosen = parser.parse_args(arguments)
    history, command = prepared(chosen.points)
    instance = history.run.instances[-1]
    seen = command.observation
    check, _ = summarise(history.run, instance, command)
    past = earlier_of(history.run)
    tail = read_tail(past, instance.plan.instance, seen)
    megatron = with_megatron_tail(command)
    parts: dict[str, Callable[[], object]] = {
        "judged": lambda: decide(history.run, command),
        "judged_megatron": lambda: decide(history.run, megatron),
        "summarised": lambda: summarise(history.run, instance, command),
        "read": lambda: read_tail(past, instance.plan.instance, seen),
        "measured": lambda: measure(past, instance, seen, tail, seen.tracker, check.progress),
    }
    figures: dict[str, float] = {}
    for name, work in parts.items():
        figures[name], figures[f"{name}_median"] = cpu_ms(work, chosen.repetitions)
    if chosen.profile:
        with cProfile.Profile() as profile:
            for _ in range(100):
                decide(history.run, command)
        pstats.Stats(profile).sort_stats("tottime").print_stats(28)
    figures["record_bytes"] = len(check.model_dump_json())
    figures["measured_bytes"] = len(check.measured.model_dump_json())
    if chosen.json:
        print(json.dumps({"points": chosen.points, "cpu_ms_max": CPU_MS_MAX, **figures}))
    else:
        print(f"one check with {chosen.points} points of history, CPU time:")
        for name, value in figures.items():
            print(f"  {name:24}{value:>10} {'bytes' if 'bytes' in name else 'ms'}")
        print(f"  at most {CPU_MS_MAX} ms for `judged`")
    return 0 if figures["judged"] < CPU_MS_MAX else 1


if __name__ == "__main__":
    sys.exit(main())
