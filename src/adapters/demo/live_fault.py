"""Harms the demo's training from outside without ending it.

The live run goes wrong, but does not end. Run it as
`python -m watchkeeper.adapters.demo.live_fault`. It is a separate process that shares nothing with
the watch. It reads the output folder and the machine's list of processes, and writes its acts to
its own log. The training script does not know about it.
"""

import argparse
import json
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from types import MappingProxyType

import numpy as np
import psutil

from watchkeeper import clock
from watchkeeper.adapters.demo.fault import GaveUpError, find_driver, local_path, record

POLL = timedelta(milliseconds=10)

STOPPED, WENT_ON = timedelta(milliseconds=75), timedelta(milliseconds=25)
"""A slow machine: the training runs for a quarter of each tenth of a second."""

_PATTERN = 64
"""Number of weights that identify the model in memory and are overwritten."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The planned harm.

    Attributes:
        kind: One of `KINDS`.
        output_root: The run's output root. Checkpoints lie in `checkpoints/step-N`.
        metrics: The tracker's file of JSON lines.
        run_id: The training's `--run-id`.
        step: The checkpoint at which the harm begins.
        log: File that gets one JSON line.
        deadline: When to give up.
        parent: Process whose end also ends this one.
    """

    kind: str
    output_root: Path
    metrics: Path
    run_id: str
    step: int
    log: Path
    deadline: clock.Deadline
    parent: psutil.Process


def harm(plan: Plan) -> None:
    """Do harm from the planned step on, until the parent ends or a signal ends this process.

    Raises:
        GaveUpError: The training was not found, or never wrote the checkpoint.
    """
    KINDS[plan.kind](plan)


# --- Kinds of harm -------------------------------------------------------------------------------


def _hang(plan: Plan) -> None:
    """Stop the process, like a hung kernel call: it lives, but does nothing."""
    _wait_for(plan, lambda: _is_complete(plan, plan.step))
    driver = _driver(plan)
    _record(plan, driver.pid)
    try:
        driver.suspend()
        _wait_for_the_end(plan)
    finally:
        # A stopped training could not react to a later SIGTERM.
        with suppress(psutil.NoSuchProcess):
            driver.resume()


def _slow(plan: Plan) -> None:
    """Let the process run only part of the time, like a slow machine."""
    _wait_for(plan, lambda: _is_complete(plan, plan.step))
    driver = _driver(plan)
    _record(plan, driver.pid)
    try:
        while _goes_on(plan) and driver.is_running():
            driver.suspend()
            clock.sleep(STOPPED)
            driver.resume()
            clock.sleep(WENT_ON)
    except psutil.NoSuchProcess:
        return
    finally:
        with suppress(psutil.NoSuchProcess):
            driver.resume()


def _nan(plan: Plan) -> None:
    """Overwrite weights in the process's memory with NaN, like a broken memory chip."""
    first, second = (_folder(plan, plan.step) / f"shard-{n}.npy" for n in (0, 1))
    # While it writes a checkpoint, the memory has the same weights as the file.
    _wait_for(plan, lambda: second.exists() or _is_complete(plan, plan.step))
    driver = _driver(plan)
    driver.suspend()
    try:
        pattern = np.load(first)[:_PATTERN].tobytes()
        overwritten = _overwrite(driver.pid, pattern)
    finally:
        driver.resume()
    if not overwritten:
        raise GaveUpError(f"the weights were not found in the memory of process {driver.pid}")
    _record(plan, driver.pid, overwritten=overwritten)
    _wait_for_the_end(plan)


def _overwrite(pid: int, pattern: bytes) -> int:
    """Overwrite each match of a pattern in a process's memory, and return their number."""
    nothing = np.full(_PATTERN, np.nan).tobytes()
    places = 0
    try:
        with open(f"/proc/{pid}/mem", "r+b", buffering=0) as memory:
            for start, end in _writable(pid):
                with suppress(OSError, OverflowError, ValueError):
                    memory.seek(start)
                    content = memory.read(end - start)
                    at = content.find(pattern)
                    while at >= 0:
                        memory.seek(start + at)
                        memory.write(nothing)
                        places += 1
                        at = content.find(pattern, at + len(pattern))
    except PermissionError as error:
        raise GaveUpError(
            f"this user may not write the memory of process {pid} ({error}): "
            "set kernel.yama.ptrace_scope to 0, or choose another fault"
        ) from error
    return places


def _writable(pid: int) -> Iterator[tuple[int, int]]:
    """Yield the writable memory regions of a process that belong to no file."""
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        span, rights, _, _, inode, *_ = line.split()
        if rights.startswith("rw") and inode == "0":
            start, end = (int(part, 16) for part in span.split("-"))
            yield start, end


def _wrong_tracker(plan: Plan) -> None:
    """Log to the same place under another identity, like a stale copy of the job."""
    _wait_for(plan, lambda: _is_complete(plan, plan.step))
    driver = _driver(plan)
    at = clock.now().replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"
    other = {"id": f"{plan.run_id}-old", "display_name": "Demo LM", "state": "running"}
    with plan.metrics.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"tracker": other, "time": at}) + "\n")
    _record(plan, driver.pid)
    _wait_for_the_end(plan)


def _no_checkpoint(plan: Plan) -> None:
    """Delete the metadata of each later checkpoint at once, like a faulty clean-up job."""
    _wait_for(plan, lambda: _is_complete(plan, plan.step))
    driver = _driver(plan)
    _record(plan, driver.pid)
    while _goes_on(plan):
        for metadata in (plan.output_root / "checkpoints").glob("step-*/metadata.json"):
            if int(metadata.parent.name.removeprefix("step-")) > plan.step:
                metadata.unlink(missing_ok=True)
        clock.sleep(POLL)


KINDS: Mapping[str, Callable[[Plan], None]] = MappingProxyType(
    {
        "nan": _nan,
        "hang": _hang,
        "slow": _slow,
        "wrong-tracker": _wrong_tracker,
        "no-checkpoint": _no_checkpoint,
    }
)
"""Kinds of harm to a training that goes on."""


# --- Looking -------------------------------------------------------------------------------------


def _folder(plan: Plan, step: int) -> Path:
    return plan.output_root / "checkpoints" / f"step-{step}"


def _is_complete(plan: Plan, step: int) -> bool:
    return (_folder(plan, step) / "metadata.json").exists()


def _wait_for(plan: Plan, condition: Callable[[], bool]) -> None:
    while not condition():
        if not _goes_on(plan):
            raise GaveUpError(f"step-{plan.step} was not written in time")
        clock.sleep(POLL)


def _wait_for_the_end(plan: Plan) -> None:
    while _goes_on(plan):
        clock.sleep(10 * POLL)


def _goes_on(plan: Plan) -> bool:
    return plan.parent.is_running() and not plan.deadline.expired()


def _driver(plan: Plan) -> psutil.Process:
    driver = find_driver(plan.run_id, plan.output_root)
    if driver is None:
        raise GaveUpError(f"no process trains {plan.run_id} below {plan.output_root}")
    return driver


def _record(plan: Plan, pid: int, **more: int) -> None:
    record(plan.log, {"kind": plan.kind, "pid": pid, "step": plan.step, **more})


def parse(arguments: Sequence[str]) -> Plan:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m watchkeeper.adapters.demo.live_fault",
        description="Break the demo's training without ending it.",
    )
    add = parser.add_argument
    add("--kind", required=True, choices=list(KINDS), help="what to do")
    add("--output-root", required=True, type=local_path, help="the training's --output-root")
    add("--metrics", required=True, type=local_path, help="the training's --metrics")
    add("--run-id", required=True, help="the training's --run-id")
    add("--step", required=True, type=int, help="the checkpoint at which the fault begins")
    add("--log", required=True, type=local_path, help="file that one JSON line is added to")
    add("--timeout", type=float, default=600.0, help="seconds after which it stops trying")
    add("--parent-pid", required=True, type=int, help="leave when this process has ended")
    found = parser.parse_args(arguments)
    return Plan(
        kind=found.kind,
        output_root=found.output_root,
        metrics=found.metrics,
        run_id=found.run_id,
        step=found.step,
        log=found.log,
        deadline=clock.Deadline.after(timedelta(seconds=found.timeout)),
        parent=psutil.Process(found.parent_pid),
    )


def main(arguments: Sequence[str]) -> int:
    """Run the command line. Return 0 if a signal ended it after the harm, or 1 if it gave up."""
    # On SIGTERM it undoes the harm that would keep the training from ending.
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(0 if number else 1))
    try:
        harm(parse(arguments))
    except (GaveUpError, psutil.NoSuchProcess) as error:
        print(f"fault: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
