"""Kills the demo's training from outside, while it writes a checkpoint.

Run it as `python -m watchkeeper.adapters.demo.fault`. It is a separate process that shares nothing
with the watch. It reads the output folder and the machine's list of processes, and writes each kill
to its own log. The training script does not know about it.
"""

import argparse
import json
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import psutil

from watchkeeper import clock

SCRIPT = "train_lm.py"
POLL = timedelta(milliseconds=5)
"""Writing a checkpoint takes about 0.4 s, so the interval must be much shorter."""
SCAN_EVERY = timedelta(milliseconds=500)
"""Reading all processes of a busy machine takes tens of milliseconds, so it is done in advance."""
DEATH_LIMIT = timedelta(seconds=10)
"""SIGKILL ends a process at once, unless the kernel blocks it."""

_OPTIONS_WITH_VALUE = frozenset({"-X", "-W", "--check-hash-based-pycs"})
"""Options of the Python interpreter whose value is the next argument."""

Shards = frozenset[tuple[str, int, int]]
"""Name, inode and time of writing of each shard."""


class GaveUpError(Exception):
    """The fault did not happen; the message says why."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The planned kills.

    Attributes:
        output_root: The run's output root. Checkpoints lie in `checkpoints/step-N`.
        run_id: The training's `--run-id`.
        step: The checkpoint during whose writing the training is killed.
        kills: Number of kills, each of a new process at the same step.
        log: File that gets one JSON line for each kill.
        timeout: Time limit for all kills.
        parent_pid: Process whose end also ends this one, or `None`.
    """

    output_root: Path
    run_id: str
    step: int
    kills: int
    log: Path
    timeout: timedelta
    parent_pid: int | None


def strike(plan: Plan) -> None:
    """Kill the training as often as planned.

    Raises:
        GaveUpError: The time limit passed, the parent ended, or the checkpoint was completed.
    """
    folder = plan.output_root / "checkpoints" / f"step-{plan.step}"
    deadline = clock.Deadline.after(plan.timeout)
    parent = None if plan.parent_pid is None else _process(plan.parent_pid)
    # A partial checkpoint of an earlier start does not prove that a process writes now.
    old_shards = _shards(folder)
    for _ in range(plan.kills):
        driver = _wait_for_writing(plan, folder, old_shards, deadline, parent)
        _kill(driver)
        # The folder is read first, because the next start may begin as soon as the record exists.
        mid_write, old_shards = not (folder / "metadata.json").exists(), _shards(folder)
        killed = {"pid": driver.pid, "step": plan.step, "signal": int(signal.SIGKILL)}
        record(plan.log, {**killed, "mid_write": mid_write})


def find_driver(run_id: str, output_root: Path) -> psutil.Process | None:
    """Return the Python process that runs the training script of a run, if there is one.

    Shells and supervisors name the script in their command lines too, but do not run it. If several
    processes run it, the youngest is the training, and the others started it. The output root must
    also match, because another run on the machine may have the same id.
    """
    found = [
        process
        for process in psutil.process_iter(["cmdline", "create_time"])
        if _runs_script(process.info["cmdline"] or [], run_id, output_root) and _is_alive(process)
    ]
    return max(found, key=lambda process: float(process.info["create_time"]), default=None)


def _runs_script(command: Sequence[str], run_id: str, output_root: Path) -> bool:
    if not command or not Path(command[0]).name.startswith("python"):
        return False
    rest = iter(command[1:])
    script = ""
    for argument in rest:
        if argument in _OPTIONS_WITH_VALUE:
            next(rest, None)
        elif not argument.startswith("-"):
            script = argument
            break
        elif argument in ("-m", "-c"):
            return False
    if Path(script).name != SCRIPT:
        return False
    # Accept both `--name value` and `--name=value`.
    words = [word for argument in rest for word in argument.split("=", 1)]
    options = dict(pairwise(words))
    root = local_path(options.get("--output-root", ""))
    return options.get("--run-id") == run_id and root.resolve() == output_root.resolve()


def local_path(text: str) -> Path:
    """Return the path of a local path or `file://` URL."""
    return Path(text.removeprefix("file://"))


def _wait_for_writing(
    plan: Plan,
    folder: Path,
    old_shards: Shards,
    deadline: clock.Deadline,
    parent: psutil.Process | None,
) -> psutil.Process:
    driver: psutil.Process | None = None
    next_scan = clock.Deadline.after(timedelta(0))
    while True:
        if driver is not None and not _is_alive(driver):
            driver = None
        # The write may end before the next scan of the processes.
        writing = _writing(folder, old_shards)
        if next_scan.expired() or (writing and driver is None):
            driver = find_driver(plan.run_id, plan.output_root)
            next_scan = clock.Deadline.after(SCAN_EVERY)
        if writing and driver is not None:
            return driver
        if (folder / "metadata.json").exists():
            seen = "no process was found" if driver is None else f"process {driver.pid} was seen"
            raise GaveUpError(f"{folder} is complete, and {seen}: it was too late for the fault")
        if parent is not None and not _is_alive(parent):
            raise GaveUpError(f"the parent process {parent.pid} has ended")
        if deadline.expired():
            raise GaveUpError(f"{folder} was not written within {plan.timeout.total_seconds():g} s")
        clock.sleep(POLL)


def _writing(folder: Path, old_shards: Shards) -> bool:
    return bool(_shards(folder) - old_shards) and not (folder / "metadata.json").exists()


def _shards(folder: Path) -> Shards:
    found: set[tuple[str, int, int]] = set()
    for path in folder.glob("shard-*"):
        try:
            status = path.stat()
        except FileNotFoundError:
            # Removed after the listing, because a new start clears the folder first.
            continue
        found.add((path.name, status.st_ino, status.st_mtime_ns))
    return frozenset(found)


def _kill(driver: psutil.Process) -> None:
    driver.kill()
    backoff = clock.ExponentialBackoff(initial=timedelta(milliseconds=1))
    backoff.wait_until_or_raise(
        lambda: not _is_alive(driver), DEATH_LIMIT, f"waiting for the end of process {driver.pid}"
    )


def _is_alive(process: psutil.Process) -> bool:
    """Return whether a process still runs. A zombie does not."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _process(pid: int) -> psutil.Process:
    try:
        return psutil.Process(pid)
    except psutil.NoSuchProcess as error:
        raise GaveUpError(f"the parent process {pid} has ended") from error


def record(log: Path, row: Mapping[str, str | int]) -> None:
    """Append an act and its time to a log. The line outlives this process.

    There is no fsync. On a busy disk it takes seconds, and the next start may write by then.
    """
    with log.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"at": clock.now().isoformat(), **row}) + "\n")


def parse(arguments: Sequence[str]) -> Plan:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m watchkeeper.adapters.demo.fault",
        description="Kill the demo's training in the middle of writing a checkpoint.",
    )
    add = parser.add_argument
    add("--output-root", required=True, type=local_path, help="the training's --output-root")
    add("--run-id", required=True, help="the training's --run-id")
    add("--step", required=True, type=int, help="the checkpoint in whose writing it is killed")
    add("--kills", type=int, default=1, help="how often, at the same step each time")
    add(
        "--log",
        required=True,
        type=local_path,
        help="file that one JSON line is added to for each kill",
    )
    add("--timeout", type=float, default=600.0, help="seconds to wait for all of it")
    add("--parent-pid", type=int, help="leave when this process has ended")
    found = parser.parse_args(arguments)
    return Plan(
        output_root=found.output_root,
        run_id=found.run_id,
        step=found.step,
        kills=found.kills,
        log=found.log,
        timeout=timedelta(seconds=found.timeout),
        parent_pid=found.parent_pid,
    )


def main(arguments: Sequence[str]) -> int:
    """Run the command line. Return 0 after all kills, or 1 with the reason on stderr."""
    try:
        strike(parse(arguments))
    except GaveUpError as error:
        print(f"fault: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
