"""What `watchkeeper status` costs with many runs, as a multiple of starting Python at all.

    uv run python -m bench.status [--runs 1000] [--repetitions 15] [--json]

Both are started anew, one right after the other, and only their ratio is looked at: a slow or busy
machine slows both. The median of these paired ratios is compared with `RATIO_MAX`. Both have their
modules compiled, as an installed program has; the compiled files lie in the bench's own folder.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from tests.domain.given import History
from tests.projections.tales import TALES
from tests.stores import store_at

from watchkeeper import clock
from watchkeeper.adapters.home import create_home
from watchkeeper.domain.run.envelope import encode
from watchkeeper.ports.event_store import StatusRow, Write
from watchkeeper.projections.status.writer import status_row
from watchkeeper.services.ledger.ledger import run_stream

RATIO_MAX = 12.0
"""`status` with 1,000 runs costs at most so many starts of an empty Python."""

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
            slug = f"run-{number:05}"
            events = tuple(encode(event.envelope) for event in history.events)
            row = json.dumps(status_row(replace(history.run, slug=slug)), ensure_ascii=False)
            store.append([Write(run_stream(slug), 0, events)], status=[StatusRow(slug, "run", row)])


def taken(command: Sequence[str], home: Path) -> timedelta:
    """Return how long a command takes from its start to its end.

    Raises:
        subprocess.CalledProcessError: It failed, so that its time says nothing.
    """
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(home.parent / "compiled")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    timer = clock.Timer()
    # Its output is read: without a pipe Python looks only every 50 ms whether a process has ended.
    subprocess.run(command, capture_output=True, timeout=LIMIT_S, check=True, env=environment)
    return timer.elapsed()


def measure(home: Path, repetitions: int) -> dict[str, dict[str, float]]:
    """Return the medians for each command, and their ratios to an empty Python."""
    python = sys.executable
    empty = (python, "-c", "pass")
    commands = {
        "status": ("status",),
        "status --all": ("status", "--all"),
        "status --json": ("status", "--json"),
        "status RUN": ("status", "run-00000"),
    }
    found: dict[str, dict[str, float]] = {}
    for name, words in commands.items():
        command = (python, "-c", WATCHKEEPER, *words, "--home", str(home))
        # The first of each compiles, and finds files that are not in memory yet.
        for first in (empty, command):
            taken(first, home)
        pairs = [(taken(empty, home), taken(command, home)) for _ in range(repetitions)]
        found[name] = {
            "ratio": round(statistics.median(ours / bare for bare, ours in pairs), 2),
            "ratio_lowest": round(min(ours / bare for bare, ours in pairs), 2),
            "ratio_highest": round(max(ours / bare for bare, ours in pairs), 2),
            "python_ms": _median_ms([bare for bare, _ in pairs]),
            "status_ms": _median_ms([ours for _, ours in pairs]),
        }
    return found


def _median_ms(times: Sequence[timedelta]) -> float:
    return round(statistics.median(time / timedelta(milliseconds=1) for time in times), 1)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, and fail when `status` costs more than it may."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--runs", type=int, default=RUNS, help="runs in the home")
    parser.add_argument("--repetitions", type=int, default=REPETITIONS, help="pairs measured")
    parser.add_argument("--json", action="store_true", help="print JSON for programs")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="wk-bench-") as folder:
        home = Path(folder) / "home"
        fill(home, options.runs)
        commands = measure(home, options.repetitions)
    within = max(one["ratio"] for one in commands.values()) <= RATIO_MAX
    document: dict[str, object] = {
        "bench": "status",
        "runs": options.runs,
        "repetitions": options.repetitions,
        "ratio_max": RATIO_MAX,
        "within": within,
        "commands": commands,
    }
    print(json.dumps(document) if options.json else _text(document, commands))
    return 0 if within else 1


def _text(document: dict[str, object], commands: dict[str, dict[str, float]]) -> str:
    lines = [f"{document['runs']} runs, median of {document['repetitions']} pairs"]
    for name, one in commands.items():
        lines.append(
            f"  {name:<14} {one['ratio']:>6} x an empty Python "
            f"({one['status_ms']} ms to {one['python_ms']} ms; "
            f"{one['ratio_lowest']} to {one['ratio_highest']})"
        )
    says = "within" if document["within"] else "MORE THAN"
    return "\n".join([*lines, f"{says} {RATIO_MAX:g} x"])


if __name__ == "__main__":
    sys.exit(main())
