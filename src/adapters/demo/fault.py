"""Kill the demo's training from outside, in the middle of writing a checkpoint.

Run as `python -m watchkeeper.adapters.demo.fault`. It is a process of its own that shares nothing
with the watch: it looks at the output folder and at the machine's list of processes, and what it
did stands in a log of its own. The training script knows nothing of it.
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
"""Writing one checkpoint takes about 0.4 s: the look must be much shorter than that."""
SCAN_EVERY = timedelta(milliseconds=500)
"""Reading all processes of a busy machine takes tens of milliseconds, so it is done beforehand."""
DEATH_LIMIT = timedelta(seconds=10)
"""SIGKILL ends a process at once, unless the kernel itself holds it."""

_OPTIONS_WITH_VALUE = frozenset({"-X", "-W", "--check-hash-based-pycs"})
"""Options of the Python interpreter whose value is the next argument."""

Shards = frozenset[tuple[str, int, int]]
"""Name, inode and time of writing of each shard."""


class GaveUpError(Exception):
    """The fault did not happen; the message says why."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do.

    Attributes:
        output_root: The run's output root; checkpoints lie in `checkpoints/step-N`.
        run_id: The training's `--run-id`.
        step: The checkpoint in whose writing the training is killed.
        kills: How often; each time another process, at the same step.
        log: File that one JSON line is appended to for each kill.
        timeout: How long to wait for all of it.
        parent_pid: Process whose end ends this one; none for no such process.
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
        GaveUpError: The time is over, the parent has ended, or the checkpoint was completed.
    """
    folder = plan.output_root / "checkpoints" / f"step-{plan.step}"
    deadline = clock.Deadline.after(plan.timeout)
    parent = None if plan.parent_pid is None else _process(plan.parent_pid)
    # What an earlier start left half written is no sign of a process that writes now.
    left = _shards(folder)
    for _ in range(plan.kills):
        driver = _wait_for_writing(plan, folder, left, deadline, parent)
        _kill(driver)
        # Looked at before the record, which tells others that the next may start.
        mid_write, left = not (folder / "metadata.json").exists(), _shards(folder)
        killed = {"pid": driver.pid, "step": plan.step, "signal": int(signal.SIGKILL)}
        record(plan.log, {**killed, "mid_write": mid_write})


def find_driver(run_id: str, output_root: Path) -> psutil.Process | None:
    """Return the Python process that itself runs the training script for a run, if there is one.

    Shells and supervisors carry the script in their command lines too, but do not run it. Of
    several that do, the youngest is the one that was started by the others. The output root must
    fit as well: a run of the same id elsewhere on the machine is somebody else's.
    """
    found = [
        process
        for process in psutil.process_iter(["cmdline", "create_time"])
        if _runs_script(process.info["cmdline"] or [], run_id, output_root) and _lives(process)
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
    # Both `--name value` and `--name=value` are read.
    words = [word for argument in rest for word in argument.split("=", 1)]
    said = dict(pairwise(words))
    root = local_path(said.get("--output-root", ""))
    return said.get("--run-id") == run_id and root.resolve() == output_root.resolve()


def local_path(text: str) -> Path:
    """Read a local path or `file://` URL."""
    return Path(text.removeprefix("file://"))


def _wait_for_writing(
    plan: Plan,
    folder: Path,
    left: Shards,
    deadline: clock.Deadline,
    parent: psutil.Process | None,
) -> psutil.Process:
    driver: psutil.Process | None = None
    scanned = clock.Deadline.after(timedelta(0))
    while True:
        if driver is not None and not _lives(driver):
            driver = None
        # What is being written can't wait for the next look at the processes.
        writing = _writing(folder, left)
        if scanned.expired() or (writing and driver is None):
            driver = find_driver(plan.run_id, plan.output_root)
            scanned = clock.Deadline.after(SCAN_EVERY)
        if writing and driver is not None:
            return driver
        if (folder / "metadata.json").exists():
            seen = "no process was found" if driver is None else f"process {driver.pid} was seen"
            raise GaveUpError(f"{folder} is complete, and {seen}: it was too late to strike")
        if parent is not None and not _lives(parent):
            raise GaveUpError(f"the parent process {parent.pid} has ended")
        if deadline.expired():
            raise GaveUpError(f"{folder} was not written within {plan.timeout.total_seconds():g} s")
        clock.sleep(POLL)


def _writing(folder: Path, left: Shards) -> bool:
    return bool(_shards(folder) - left) and not (folder / "metadata.json").exists()


def _shards(folder: Path) -> Shards:
    found: set[tuple[str, int, int]] = set()
    for path in folder.glob("shard-*"):
        try:
            status = path.stat()
        except FileNotFoundError:
            # Removed between the listing and the look: a new start clears the folder first.
            continue
        found.add((path.name, status.st_ino, status.st_mtime_ns))
    return frozenset(found)


def _kill(driver: psutil.Process) -> None:
    driver.kill()
    backoff = clock.ExponentialBackoff(initial=timedelta(milliseconds=1))
    backoff.wait_until_or_raise(
        lambda: not _lives(driver), DEATH_LIMIT, f"waiting for the end of process {driver.pid}"
    )


def _lives(process: psutil.Process) -> bool:
    """Say whether a process still runs; one that only waits to be reaped does not."""
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
    """Add to a log what was done, and when; it stays there whatever becomes of this process.

    The disk is not waited for: on a busy one that takes seconds, and the next start may be
    writing by then.
    """
    with log.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"at": clock.now().isoformat(), **row}) + "\n")


def parse(arguments: Sequence[str]) -> Plan:
    """Read the command line."""
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
    """Run the command line; 0 after all kills, 1 when it gave up, with the reason on stderr."""
    try:
        strike(parse(arguments))
    except GaveUpError as error:
        print(f"fault: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
