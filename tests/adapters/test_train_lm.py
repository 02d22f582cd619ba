import ast
import json
import os
import signal
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
from watchkeeper.domain.reading.progress.progress import parse_progress, parse_startup

SCRIPT = Path(watchkeeper.adapters.demo.__file__).parent / "assets" / "train_lm.py"
QUICK = ["--checkpoint-every", "20", "--step-delay", "0", "--shard-delay", "0"]
"""A run of 60 steps so takes half a second."""


def command(folder: Path, *more: str) -> list[str]:
    return [
        *(sys.executable, str(SCRIPT), "--run-id", "demo-1", "--num-train-steps", "60", *QUICK),
        *("--output-root", str(folder / "out"), "--metrics", str(folder / "metrics.jsonl"), *more),
    ]


def train(
    folder: Path, *more: str, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(folder, *more),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=os.environ | (env or {}),
    )


@contextmanager
def training(folder: Path, *more: str) -> Generator[subprocess.Popen[str]]:
    with subprocess.Popen(
        command(folder, *more),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_for(path: Path) -> None:
    backoff = clock.ExponentialBackoff(initial=timedelta(milliseconds=5))
    backoff.wait_until_or_raise(path.exists, timedelta(seconds=30), f"waiting for {path}")


def rows(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def losses(folder: Path) -> dict[int, float]:
    """Return the newest loss of each step, in full precision."""
    return {row["step"]: row["loss"] for row in rows(folder) if "step" in row}


def metadata(folder: Path, step: int) -> dict[str, Any]:
    path = folder / "out" / "checkpoints" / f"step-{step}" / "metadata.json"
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def shards(folder: Path, step: int) -> dict[str, bytes]:
    checkpoint = folder / "out" / "checkpoints" / f"step-{step}"
    return {path.name: path.read_bytes() for path in sorted(checkpoint.glob("shard-*.npy"))}


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that went from scratch to its end, with its log in `log.txt`."""
    folder = tmp_path_factory.mktemp("uninterrupted")
    done = train(folder, "--display-name", "Demo", "--permanent-every", "40")
    assert done.returncode == 0, done.stderr
    (folder / "log.txt").write_text(done.stdout)
    return folder


def test_the_script_imports_only_numpy_and_the_standard_library() -> None:
    tree = ast.parse(SCRIPT.read_text())
    modules = {
        name.split(".")[0]
        for node in ast.walk(tree)
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert modules - sys.stdlib_module_names == {"numpy"}


def test_its_log_is_what_the_service_reads(uninterrupted: Path) -> None:
    lines = (uninterrupted / "log.txt").read_text().splitlines()
    proof = parse_startup(lines)
    assert (proof.run_id, proof.from_scratch, proof.resumed_step) == ("demo-1", True, None)
    assert proof.output_path == str(uninterrupted / "out")
    shown = [progress for line in lines if (progress := parse_progress(line))]
    assert (shown[-1].step, shown[-1].maximum) == (60, 60)
    assert any("Progress on:train -/60 rate:-" in line for line in lines)
    saved = uninterrupted / "out" / "checkpoints" / "step-20"
    assert any(f"Saving temporary checkpoint at step 20 to {saved}" in line for line in lines)
    assert any(f"Saved checkpoint to {saved} for step 20" in line for line in lines)


def test_metrics_begin_and_end_with_the_trackers_identity(uninterrupted: Path) -> None:
    found = rows(uninterrupted)
    identity = {"id": "demo-1", "display_name": "Demo"}
    assert found[0]["tracker"] == {**identity, "state": "running"}
    assert found[-1]["tracker"] == {**identity, "state": "finished"}
    assert [row["step"] for row in found[1:-1]] == [10, 20, 30, 40, 50, 60]
    assert all(row["tokens_per_second"] > 0 and row["time"].endswith("Z") for row in found[1:-1])


def test_permanent_checkpoints_are_the_chosen_ones_and_the_last(uninterrupted: Path) -> None:
    kinds = {step: metadata(uninterrupted, step)["is_temporary"] for step in (20, 40, 60)}
    assert kinds == {20: True, 40: False, 60: False}
    named = metadata(uninterrupted, 60)
    assert (named["step"], named["run_id"]) == (60, "demo-1")
    assert "+" not in named["timestamp"]
    assert "Z" not in named["timestamp"]


def test_metadata_is_written_after_every_shard(uninterrupted: Path) -> None:
    folder = uninterrupted / "out" / "checkpoints" / "step-60"
    written = (folder / "metadata.json").stat().st_mtime_ns
    parts = list(folder.glob("shard-*.npy"))
    assert len(parts) == 8
    assert all(part.stat().st_mtime_ns <= written for part in parts)


def test_the_model_learns(tmp_path: Path) -> None:
    done = train(tmp_path, "--num-train-steps", "300")
    assert done.returncode == 0, done.stderr
    found = losses(tmp_path)
    # 39 characters guessed blindly cost ln 39 = 3.66 nats each; knowing only how often each is
    # used costs 2.8, so less than that needs the context.
    assert found[10] > 3.0
    assert sum(found[step] for step in range(260, 301, 10)) / 5 < 2.3


def test_a_resumed_run_computes_what_the_uninterrupted_one_did(
    uninterrupted: Path, tmp_path: Path
) -> None:
    # Most of a second is left when its first shard is seen, on a busy machine, too.
    with training(tmp_path, "--shard-delay", "0.3") as process:
        wait_for(tmp_path / "out" / "checkpoints" / "step-40" / "shard-0.npy")
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (143, "")
    assert not (tmp_path / "out" / "checkpoints" / "step-40" / "metadata.json").exists()

    source = tmp_path / "out" / "checkpoints" / "step-20"
    done = train(tmp_path, "--initialize-from", f"file://{source}", "--permanent-every", "40")

    assert done.returncode == 0, done.stderr
    proof = parse_startup(done.stdout.splitlines())
    assert (proof.resumed_step, proof.from_scratch) == (20, False)
    assert proof.checkpoint == str(source)
    assert losses(tmp_path) == losses(uninterrupted)
    assert shards(tmp_path, 60) == shards(uninterrupted, 60)
    assert metadata(tmp_path, 40)["step"] == 40


def test_the_environment_names_the_checkpoint_when_the_command_does_not(
    uninterrupted: Path, tmp_path: Path
) -> None:
    source = uninterrupted / "out" / "checkpoints" / "step-40"
    done = train(tmp_path, env={"WATCHKEEPER_RESUME_FROM": str(source)})
    assert parse_startup(done.stdout.splitlines()).resumed_step == 40
    assert sorted(losses(tmp_path)) == [50, 60]


def test_a_start_beside_complete_checkpoints_is_never_guessed(uninterrupted: Path) -> None:
    before = losses(uninterrupted)
    done = train(uninterrupted)
    assert done.returncode == 1
    assert "name one with --initialize-from" in done.stderr
    assert "step-60" in done.stderr
    assert losses(uninterrupted) == before


def test_half_of_a_checkpoint_is_not_resumed_from(uninterrupted: Path, tmp_path: Path) -> None:
    half = tmp_path / "out" / "checkpoints" / "step-20"
    half.mkdir(parents=True)
    for name, content in shards(uninterrupted, 20).items():
        (half / name).write_bytes(content)
    done = train(tmp_path, "--initialize-from", str(half))
    assert done.returncode == 1
    assert "has no metadata.json" in done.stderr
    assert "Resuming" not in done.stdout


def test_half_of_a_checkpoint_is_written_anew(uninterrupted: Path, tmp_path: Path) -> None:
    half = tmp_path / "out" / "checkpoints" / "step-20"
    half.mkdir(parents=True)
    (half / "shard-0.npy").write_bytes(b"torn")
    (half / "shard-99.npy").write_bytes(b"of another layout")
    done = train(tmp_path)
    assert done.returncode == 0, done.stderr
    assert shards(tmp_path, 20) == shards(uninterrupted, 20)


def test_only_the_newest_temporary_checkpoints_are_kept(tmp_path: Path) -> None:
    done = train(
        tmp_path, "--checkpoint-every", "5", "--permanent-every", "30", "--keep-temporary", "2"
    )
    assert done.returncode == 0, done.stderr
    kept = {path.name for path in (tmp_path / "out" / "checkpoints").iterdir()}
    assert kept == {"step-30", "step-50", "step-55", "step-60"}


def test_half_of_a_row_is_cut_off_before_the_next(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text('{"step": 10, "loss": 3.1}\n{"step": 20, "lo')
    done = train(tmp_path)
    assert done.returncode == 0, done.stderr
    assert [row.get("step") for row in rows(tmp_path)][:3] == [10, None, 10]


def test_a_root_that_is_not_local_is_refused(tmp_path: Path) -> None:
    done = train(tmp_path, "--output-root", "gs://bucket/demo")
    assert done.returncode == 2
    assert "expected a path or a file:// URL" in done.stderr
