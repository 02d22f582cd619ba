"""What each command costs with many runs, as a multiple of starting Python at all.

    uv run python -m bench.commands [--runs 1000] [--repetitions 15] [--json]

Both are started right after each other, and only the ratio of their CPU time counts: a slow or busy
machine slows both. The median of these paired ratios is compared with the command's limit. Both
have their modules compiled, as an installed program has, in the bench's own folder.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

from tests.domain.given import History, enveloped
from tests.domain.samples import contract
from tests.projections.tales import TALES
from tests.stores import store_at

from watchkeeper import clock
from watchkeeper.adapters.home import create_home
from watchkeeper.domain.run.envelope import Event, encode
from watchkeeper.domain.run.evolve.evolve import evolve
from watchkeeper.domain.run.launch import RunDrafted
from watchkeeper.domain.run.run import Run
from watchkeeper.ports.event_store import EventStore, StatusRow, Write
from watchkeeper.projections.status.writer import status_row
from watchkeeper.services.ledger.ledger_reader import run_stream

RUN = "run-00000"
LISTED = "listed"
"""A run whose checkpoints lie in a folder, so that no remote store is asked."""

LIMITS: Mapping[str, float] = {
    "--help": 15,
    "status": 15,
    "status --all": 15,
    "status --json": 15,
    f"status {RUN}": 15,
    "doctor": 40,
    f"events {RUN}": 40,
    f"why {RUN}": 40,
    f"checkpoints {LISTED}": 40,
    f"logbook {RUN}": 40,
}
"""At most so many starts of an empty Python, by command."""

RUNS = 1_000
REPETITIONS = 15
LIMIT_S = 60

WATCHKEEPER = "import sys; from watchkeeper.adapters.cli import main; main(sys.argv[1:])"
"""What the installed command does."""


def fill(home: Path, runs: int) -> None:
    """Make a home with runs of every kind of history, as the ledger itself stores them."""
    made = create_home(home)
    histories: list[History] = [tale() for tale in TALES.values()]
    with store_at(made.path) as store:
        for number in range(runs):
            history = histories[number % len(histories)]
            _keep(store, history.events, replace(history.run, slug=f"run-{number:05}"))


def fill_listed(home: Path, root: Path) -> None:
    """Add the run `LISTED` to a home, with checkpoints in a folder."""
    for step in range(100, 1100, 100):
        folder = root / "checkpoints" / f"step-{step}"
        folder.mkdir(parents=True)
        (folder / "metadata.json").write_text(json.dumps({"step": step}), encoding="utf-8")
    drafted = enveloped(RunDrafted(contract=contract(output_root=str(root))), 1)
    run = evolve(Run(LISTED), drafted)
    assert isinstance(run, Run), "a draft begins any history"
    with store_at(home) as store:
        _keep(store, [drafted], run)


def _keep(store: EventStore, history: Sequence[Event], run: Run) -> None:
    events = tuple(encode(event.envelope) for event in history)
    row = json.dumps(status_row(run), ensure_ascii=False)
    store.append([Write(run_stream(run.slug), 0, events)], status=[StatusRow(run.slug, "run", row)])


@dataclass(frozen=True, slots=True)
class Taken:
    """What a process took: its time and its CPU time, with those that it waited for."""

    wall_ms: float
    cpu_ms: float


def taken(command: Sequence[str], home: Path) -> Taken:
    """Run a command to its end.

    Raises:
        AssertionError: It failed, so that its time says nothing.
    """
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(home.parent / "compiled")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    before, timer = _cpu_ms(), clock.Timer()
    # Its output is read: without a pipe Python looks only every 50 ms whether a process has ended.
    done = subprocess.run(command, capture_output=True, timeout=LIMIT_S, env=environment)
    # A home without people and a watch is not well, which `doctor` says with exit code 1.
    assert done.returncode in (0, 1 if "doctor" in command else 0), done.stderr
    return Taken(timer.elapsed() / timedelta(milliseconds=1), _cpu_ms() - before)


def _cpu_ms() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (used.ru_utime + used.ru_stime) * 1000


def measure(home: Path, repetitions: int) -> dict[str, dict[str, float | bool]]:
    """Return the medians for each command, and their ratios to an empty Python."""
    python = sys.executable
    empty = (python, "-c", "pass")
    found: dict[str, dict[str, float | bool]] = {}
    for name, limit in LIMITS.items():
        place = () if name == "--help" else ("--home", str(home))
        command = (python, "-c", WATCHKEEPER, *name.split(), *place)
        # The first of each compiles, and finds files that are not in memory yet.
        for first in (empty, command):
            taken(first, home)
        pairs = [(taken(empty, home), taken(command, home)) for _ in range(repetitions)]
        ratios = [ours.cpu_ms / bare.cpu_ms for bare, ours in pairs]
        ratio = round(statistics.median(ratios), 2)
        found[name] = {
            "ratio": ratio,
            "ratio_max": limit,
            "within": ratio <= limit,
            "ratio_lowest": round(min(ratios), 2),
            "ratio_highest": round(max(ratios), 2),
            "python_cpu_ms": round(statistics.median(bare.cpu_ms for bare, _ in pairs), 1),
            "command_cpu_ms": round(statistics.median(ours.cpu_ms for _, ours in pairs), 1),
            "command_ms": round(statistics.median(ours.wall_ms for _, ours in pairs), 1),
        }
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, and fail when a command costs more than it may."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--runs", type=int, default=RUNS, help="runs in the home")
    parser.add_argument("--repetitions", type=int, default=REPETITIONS, help="pairs measured")
    parser.add_argument("--json", action="store_true", help="print JSON for programs")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="wk-bench-") as folder:
        home = Path(folder) / "home"
        fill(home, options.runs)
        fill_listed(home, Path(folder) / "output")
        commands = measure(home, options.repetitions)
    within = all(one["within"] for one in commands.values())
    document: dict[str, object] = {
        "bench": "commands",
        "runs": options.runs,
        "repetitions": options.repetitions,
        "within": within,
        "commands": commands,
    }
    print(json.dumps(document) if options.json else _text(document, commands))
    return 0 if within else 1


def _text(document: Mapping[str, object], commands: Mapping[str, Mapping[str, object]]) -> str:
    lines = [f"{document['runs']} runs, median of {document['repetitions']} pairs, by CPU time"]
    for name, one in commands.items():
        says = "" if one["within"] else "  MORE THAN ITS LIMIT"
        lines.append(
            f"  {name:<18} {one['ratio']:>6} of at most {one['ratio_max']} x an empty Python "
            f"({one['command_cpu_ms']} ms to {one['python_cpu_ms']} ms; "
            f"{one['ratio_lowest']} to {one['ratio_highest']}; {one['command_ms']} ms in all){says}"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
