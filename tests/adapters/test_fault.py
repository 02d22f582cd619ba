import json
import shlex
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import watchkeeper.adapters.demo
from watchkeeper import clock
from watchkeeper.adapters.demo import fault
from watchkeeper.domain.reading.progress.progress import parse_startup

SCRIPT = Path(watchkeeper.adapters.demo.__file__).parent / "assets" / "train_lm.py"
STEPS = 40
SLOW = ("--shard-delay", "0.2")
"""A start that is to be struck writes for 1.6 s, so that a busy machine has seen it by then."""


@contextmanager
def started(command: list[str]) -> Generator[subprocess.Popen[str]]:
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def training_command(folder: Path, *more: str, run_id: str = "demo-1") -> list[str]:
    return [
        *(sys.executable, "-u", str(SCRIPT), "--run-id", run_id),
        *("--num-train-steps", str(STEPS), "--checkpoint-every", "10", "--step-delay", "0"),
        *("--shard-delay", "0.05"),
        *("--output-root", str(folder / "out"), "--metrics", str(folder / "metrics.jsonl"), *more),
    ]


def fault_command(folder: Path, *more: str, step: int = 30) -> list[str]:
    return [
        *(sys.executable, "-m", "watchkeeper.adapters.demo.fault", "--run-id", "demo-1"),
        *("--output-root", str(folder / "out"), "--step", str(step)),
        *("--log", str(folder / "fault.jsonl"), "--timeout", "60", *more),
    ]


def checkpoint(folder: Path, step: int) -> Path:
    return folder / "out" / "checkpoints" / f"step-{step}"


def kills(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "fault.jsonl").read_text().splitlines()]


def losses(folder: Path) -> dict[int, float]:
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return {row["step"]: row["loss"] for row in map(json.loads, lines) if "step" in row}


def wait_for(path: Path) -> None:
    backoff = clock.ExponentialBackoff(initial=timedelta(milliseconds=5))
    backoff.wait_until_or_raise(path.exists, timedelta(seconds=30), f"waiting for {path}")


def finish(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    output, errors = process.communicate(timeout=60)
    return process.returncode, output, errors


def test_a_training_killed_in_mid_write_ends_as_if_nothing_had_happened(tmp_path: Path) -> None:
    hit, calm = tmp_path / "hit", tmp_path / "calm"
    with started(training_command(calm)) as undisturbed:
        assert finish(undisturbed)[0] == 0

    slow = training_command(hit, *SLOW)
    with started(slow) as training, started(fault_command(hit)) as striker:
        assert finish(striker)[0] == 0
        assert finish(training)[0] == -9
        (kill,) = kills(hit)
        assert (kill["pid"], kill["step"], kill["signal"]) == (training.pid, 30, 9)
    assert kill["mid_write"] is True
    assert not (checkpoint(hit, 30) / "metadata.json").exists()
    assert 1 <= len(list(checkpoint(hit, 30).glob("shard-*.npy"))) <= 8
    assert (checkpoint(hit, 20) / "metadata.json").exists()

    again = training_command(hit, "--initialize-from", str(checkpoint(hit, 20)))
    with started(again) as resumed:
        code, output, _ = finish(resumed)
    assert code == 0
    assert parse_startup(output.splitlines()).resumed_step == 20
    assert losses(hit) == losses(calm)
    last = [(checkpoint(folder, STEPS) / "shard-7.npy").read_bytes() for folder in (hit, calm)]
    assert last[0] == last[1]


def test_each_restart_is_killed_at_the_same_step_while_it_writes(tmp_path: Path) -> None:
    resume = ("--initialize-from", str(checkpoint(tmp_path, 20)))
    with started(fault_command(tmp_path, "--kills", "2")) as striker:
        with started(training_command(tmp_path, *SLOW)) as first:
            assert finish(first)[0] == -9
        # The record is waited for, as the next start writes the same step at once.
        wait_for(tmp_path / "fault.jsonl")
        # What the first left half written is there from the start, and must not count.
        with started(training_command(tmp_path, *resume, *SLOW)) as second:
            code, output, _ = finish(second)
        assert code == -9
        assert "Saving temporary checkpoint at step 30" in output
        assert finish(striker)[0] == 0
    assert [kill["pid"] for kill in kills(tmp_path)] == [first.pid, second.pid]
    assert all(kill["mid_write"] for kill in kills(tmp_path))
    with started(training_command(tmp_path, *resume)) as third:
        assert finish(third)[0] == 0


def test_the_python_process_is_killed_and_not_the_shell_that_waits_for_it(tmp_path: Path) -> None:
    line = shlex.join(training_command(tmp_path, *SLOW)) + '; echo "driver ended with $?"'
    with started(["/bin/sh", "-c", line]) as shell, started(fault_command(tmp_path)) as striker:
        assert finish(striker)[0] == 0
        code, output, _ = finish(shell)
    assert code == 0
    assert output.endswith("driver ended with 137\n")
    assert kills(tmp_path)[0]["pid"] != shell.pid


def test_the_youngest_of_nested_pythons_is_the_driver(tmp_path: Path) -> None:
    wrapper = tmp_path / "train_lm.py"
    wrapper.write_text(
        f"import subprocess, sys\nsubprocess.run([sys.executable, {str(SCRIPT)!r}, *sys.argv[1:]])"
    )
    command = [
        argument.replace(str(SCRIPT), str(wrapper))
        for argument in training_command(tmp_path, *SLOW)
    ]
    with started(command) as outer, started(fault_command(tmp_path)) as striker:
        assert finish(striker)[0] == 0
        assert finish(outer)[0] == 0
    assert kills(tmp_path)[0]["pid"] != outer.pid


def test_the_training_of_another_root_is_left_alone(tmp_path: Path) -> None:
    mine, other = tmp_path / "mine", tmp_path / "other"
    with started(training_command(other, "--step-delay", "0.2")) as elsewhere:
        slow = training_command(mine, *SLOW)
        with started(slow) as training, started(fault_command(mine)) as striker:
            assert finish(striker)[0] == 0
            assert finish(training)[0] == -9
        assert elsewhere.poll() is None


def test_the_training_of_another_run_is_left_alone(tmp_path: Path) -> None:
    with (
        started(training_command(tmp_path, run_id="demo-10")) as training,
        started(fault_command(tmp_path)) as striker,
    ):
        assert finish(training)[0] == 0
        code, _, errors = finish(striker)
    assert code == 1
    assert "no process was found: it was too late" in errors
    assert not (tmp_path / "fault.jsonl").exists()


def test_a_checkpoint_that_was_complete_before_is_not_struck(tmp_path: Path) -> None:
    with started(training_command(tmp_path, "--step-delay", "5")) as training:
        # A training that finds a complete checkpoint as it starts would not go on.
        wait_for(tmp_path / "metrics.jsonl")
        checkpoint(tmp_path, 30).mkdir(parents=True)
        (checkpoint(tmp_path, 30) / "metadata.json").write_text("{}")
        with started(fault_command(tmp_path)) as striker:
            code, _, errors = finish(striker)
        assert training.poll() is None
    assert code == 1
    assert "is complete" in errors


def test_it_leaves_when_its_parent_has_ended(tmp_path: Path) -> None:
    # Nobody reaps the parent meanwhile, so that it stays in the list of processes.
    parent = [sys.executable, "-c", "import time; time.sleep(2)"]
    with (
        started(parent) as ending,
        started(fault_command(tmp_path, "--parent-pid", str(ending.pid))) as striker,
    ):
        code, _, errors = finish(striker)
    assert code == 1
    assert "parent process" in errors


def test_it_leaves_when_its_time_is_over(tmp_path: Path) -> None:
    with started(fault_command(tmp_path, "--timeout", "0.2")) as striker:
        code, _, errors = finish(striker)
    assert code == 1
    assert "was not written within 0.2 s" in errors


def test_a_kill_that_came_too_late_is_recorded_as_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A fake look at the folder: metadata.json appears between look and kill only by chance. It
    # waits for the file, which could otherwise appear right after a look that saw none.
    def complete(folder: Path, _left: fault.Shards) -> bool:
        wait_for(folder / "metadata.json")
        return True

    monkeypatch.setattr(fault, "_writing", complete)
    # Far from its end when its process is looked for, however busy the machine is.
    long = ("--step-delay", "0.02", "--num-train-steps", "2000")
    with started(training_command(tmp_path, *long)) as training:
        code = fault.main(fault_command(tmp_path)[3:])
        assert finish(training)[0] == -9
    assert code == 0
    assert [kill["mid_write"] for kill in kills(tmp_path)] == [False]


def test_it_shares_nothing_heavy_with_the_service() -> None:
    heavy = ("pydantic", "ray", "numpy", "fsspec", "eventsourcing", "click")
    line = (
        "import sys, watchkeeper.adapters.demo.fault;"
        f"print([name for name in {heavy} if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", line], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "[]\n"
