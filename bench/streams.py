"""How well the metric detectors judge: seeded streams with planted faults, check by check.

    uv run python -m bench.streams [--streams 2000] [--seeds held-out|validation|tuning] [--json]

Each stream is read through the real judging path: an observation with the tracker's history becomes
a check, the check's findings open and clear, and the run is folded, at the cadence of the loop.
Parameters were chosen on the tuning seeds and looked at once more on the validation seeds; figures
are reported on seeds that were held out from both.
"""

import argparse
import json
import statistics
import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from typing import Any

import numpy as np
from tests.domain.given import History
from tests.domain.samples import (
    DIGEST,
    LOOP,
    START,
    contract,
    fresh,
    job,
    listing,
    node_lost,
    tracker,
)

from bench.stream_making import ALLOWED, CADENCE_S, FAULTY, HEALTHY, Stream, make_stream
from watchkeeper.domain.rules.watch.commands import RecordCheck
from watchkeeper.domain.run.health import FindingOpened
from watchkeeper.domain.values.observation.observation import Observation
from watchkeeper.domain.values.observation.sources import HISTORY_POINTS_MAX, MetricHistory

STREAMS = 2_000
SEEDS = {"tuning": 0, "validation": 1_000_000, "held-out": 2_000_000}
"""The first seed of each set; a stream's seed is it and the stream's number."""

FALSE_ALARMS_MAX = 0.05
"""False alarms for each healthy run-day, at most."""

RECALL_MIN, PRECISION_MIN = 0.9, 0.9

JUDGED = frozenset(FAULTY.values())
WORKERS = 2
SOURCES = ("orchestrator", "logs", "tracker", "checkpoints", "history")


@dataclass(frozen=True)
class Outcome:
    """What the watch made of one stream.

    Attributes:
        opened: Findings with the seconds since the launch at which they opened.
        days: How long it was watched.
    """

    kind: str
    seed: int
    onset: float | None
    onset_step: int | None
    opened: tuple[tuple[str, float, int], ...]
    days: float


@lru_cache(maxsize=8)
def _launched(lane: str, final_step: int) -> History:
    promised = contract(
        lane=lane,
        final_step={"value": final_step, "source": "trainer.num_train_steps"},
        watch={"holder": "watchkeeper", "cadence": "570s"},
    )
    return History().launch(promised)


def watch(stream: Stream, seed: int) -> Outcome:
    """Watch a stream from its launch to its end."""
    base = _launched(stream.lane, stream.final_step)
    history = History(base.run, [], base.now)
    opened: list[tuple[str, float, int]] = []
    resumed = stream.resumes_at is None
    for number in range(1, stream.checks + 1):
        at = number * CADENCE_S
        if not resumed and stream.resumes_at is not None and at >= stream.resumes_at[0]:
            died, launched, step = stream.resumes_at
            if at < launched:
                continue
            history.now = START + timedelta(seconds=died)
            history.fail(node_lost(), wait=timedelta(0), found=listing(max(step, 1)))
            history.now = START + timedelta(seconds=launched)
            history.relaunch()
            resumed = True
        history.now = START + timedelta(seconds=at)
        command = _command(history, stream, at)
        answer = history.tell(command)
        newest = command.observation.tracker
        shown = newest.step if newest is not None and newest.step is not None else 0
        opened += [
            (finding.kind, at, shown)
            for finding in answer.all(FindingOpened)
            if finding.kind in JUDGED
        ]
    days = stream.checks * CADENCE_S / 86_400
    return Outcome(stream.kind, seed, stream.onset, stream.onset_step, tuple(opened), days)


def _command(history: History, stream: Stream, at: float) -> RecordCheck:
    count = int(np.searchsorted(stream.times, at))
    rows = np.arange(count)
    lines: tuple[str, ...] = ()
    highest: int | None = None
    loss_name = next(iter(stream.columns))
    if stream.resumes_at is not None and stream.drops_replayed and count:
        died = int(np.searchsorted(stream.times, stream.resumes_at[1]))
        high = int(stream.steps[: min(died, count)].max())
        replayed = (rows >= died) & (stream.steps[:count] <= high)
        if count > died:
            shown = rows[died:][-100:]
            lines = tuple(
                f"step={stream.steps[row]} loss={stream.columns[loss_name][row]:.4f}"
                for row in shown
            )
        rows = rows[~replayed]
    rows = rows[-HISTORY_POINTS_MAX:]
    if rows.size:
        highest = int(stream.steps[rows[-1]])
    epoch = START.timestamp()
    columns = {name: tuple(column[rows].tolist()) for name, column in stream.columns.items()}
    reported = MetricHistory.model_construct(
        steps=tuple(stream.steps[rows].tolist()),
        times=tuple((epoch + stream.times[rows]).tolist()),
        columns=columns,
        not_finite={
            name: tuple(step for time, step in pairs if time <= at)
            for name, pairs in stream.not_finite.items()
        },
    )
    newest = {name: column[-1] for name, column in columns.items() if column}
    finite = {name: value for name, value in newest.items() if np.isfinite(value)}
    observation = Observation(
        instance=history.instance,
        at=history.now,
        readings=tuple(fresh(name) for name in SOURCES),
        job=job().model_copy(
            update={"submission_id": history.run.instances[-1].plan.submission_id}
        ),
        log_lines=lines,
        tracker=tracker(highest, heartbeat_at=history.now, metrics=finite),
        checkpoints=listing(),
        history=reported if rows.size else None,
    )
    return RecordCheck(
        now=history.now,
        actor=LOOP,
        token=history.run.watch.token,
        observation=observation,
        digest=DIGEST,
    )


def judge(task: tuple[str, int]) -> Outcome:
    """Make the stream of a kind and a seed, and watch it."""
    kind, seed = task
    return watch(make_stream(kind, seed), seed)


def tasks(streams: int, first: int) -> list[tuple[str, int]]:
    """Return kinds and seeds, half of them healthy."""
    faulty = list(FAULTY)
    return [
        (
            HEALTHY[(n // 2) % len(HEALTHY)] if n % 2 else faulty[(n // 2) % len(faulty)],
            first + n,
        )
        for n in range(streams)
    ]


def score(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Return the figures of a set of streams."""
    hits: Counter[str] = Counter()
    planted: Counter[str] = Counter()
    false: Counter[str] = Counter()
    delays: defaultdict[str, list[float]] = defaultdict(list)
    late_steps: defaultdict[str, list[float]] = defaultdict(list)
    kinds: dict[str, Counter[str]] = defaultdict(Counter)
    wrong: list[tuple[str, int, str]] = []
    missed: list[tuple[str, int]] = []
    healthy_days = healthy_alarms = 0.0
    for one in outcomes:
        wanted = FAULTY.get(one.kind)
        kinds[one.kind]["streams"] += 1
        if wanted is None:
            healthy_days += one.days
        found = False
        for kind, at, step in one.opened:
            in_time = one.onset is not None and at >= one.onset
            if kind == wanted and in_time:
                if not found:
                    assert one.onset is not None
                    assert one.onset_step is not None
                    delays[kind].append((at - one.onset) / CADENCE_S)
                    late_steps[kind].append(step - one.onset_step)
                found = True
            elif not (in_time and kind in ALLOWED.get(one.kind, ())):
                false[kind] += 1
                kinds[one.kind]["false"] += 1
                healthy_alarms += wanted is None
                wrong.append((one.kind, one.seed, kind))
        if wanted is not None:
            planted[wanted] += 1
            hits[wanted] += found
            kinds[one.kind]["found"] += found
            if not found:
                missed.append((one.kind, one.seed))
    return {
        "streams": len(outcomes),
        "healthy_run_days": round(healthy_days, 1),
        "false_alarms_per_healthy_run_day": round(healthy_alarms / max(healthy_days, 1e-9), 4),
        "detectors": {
            kind: {
                "planted": planted[kind],
                "found": hits[kind],
                "false": false[kind],
                "recall": round(hits[kind] / planted[kind], 4) if planted[kind] else None,
                "precision": round(hits[kind] / (hits[kind] + false[kind]), 4)
                if hits[kind] + false[kind]
                else None,
                "delay_cadences_median": _median(delays[kind]),
                "delay_cadences_worst": round(max(delays[kind], default=0.0), 1),
                "delay_steps_median": _median(late_steps[kind]),
            }
            for kind in sorted(JUDGED)
        },
        "kinds": {kind: dict(counts) for kind, counts in sorted(kinds.items())},
        "wrong": wrong[:40],
        "missed": missed[:40],
    }


def _median(values: list[float]) -> float | None:
    return round(statistics.median(values), 2) if values else None


def holds(figures: dict[str, Any]) -> bool:
    """Say whether the promises hold."""
    alarms: float = figures["false_alarms_per_healthy_run_day"]
    detectors: dict[str, dict[str, Any]] = figures["detectors"]
    return alarms <= FALSE_ALARMS_MAX and all(
        one["recall"] >= RECALL_MIN and one["precision"] >= PRECISION_MIN
        for one in detectors.values()
        if one["planted"]
    )


def table(figures: dict[str, Any]) -> str:
    """Write the figures for people."""
    detectors: dict[str, dict[str, Any]] = figures["detectors"]
    lines = [
        f"{'detector':24}{'planted':>8}{'found':>7}{'false':>7}{'recall':>8}{'precision':>11}"
        f"{'delay (cadences)':>18}{'worst':>7}{'(steps)':>9}"
    ]
    for kind, one in detectors.items():
        lines.append(
            f"{kind:24}{one['planted']:>8}{one['found']:>7}{one['false']:>7}"
            f"{_cell(one['recall']):>8}{_cell(one['precision']):>11}"
            f"{_cell(one['delay_cadences_median']):>18}{one['delay_cadences_worst']:>7}"
            f"{_cell(one['delay_steps_median']):>9}"
        )
    lines.append(
        f"{figures['streams']} streams, {figures['healthy_run_days']} healthy run-days, "
        f"{figures['false_alarms_per_healthy_run_day']} false alarms a healthy run-day "
        f"(at most {FALSE_ALARMS_MAX})"
    )
    return "\n".join(lines)


def _cell(value: object) -> str:
    return "-" if value is None else str(value)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, default=STREAMS)
    parser.add_argument("--seeds", choices=sorted(SEEDS), default="held-out")
    parser.add_argument("--kind", help="only streams of this kind")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--wrong", action="store_true", help="name what was missed or false")
    chosen = parser.parse_args(arguments)
    todo = tasks(chosen.streams, SEEDS[chosen.seeds])
    if chosen.kind:
        todo = [(chosen.kind, SEEDS[chosen.seeds] + n) for n in range(chosen.streams)]
    with ProcessPoolExecutor(max_workers=WORKERS) as pool:
        outcomes = list(pool.map(judge, todo, chunksize=8))
    figures = score(outcomes)
    print(json.dumps(figures) if chosen.json else table(figures))
    if chosen.wrong:
        for key in ("wrong", "missed"):
            print(key, figures[key])
        print(json.dumps(figures["kinds"]))
    return 0 if holds(figures) else 1


if __name__ == "__main__":
    sys.exit(main())
