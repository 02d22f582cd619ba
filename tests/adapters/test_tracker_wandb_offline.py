"""The offline W&B tracker: what the real client leaves on disk, read by W&B's own tool."""

import json
import os
import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from pathlib import Path
from typing import Any, cast

import pytest

from tests.wandb_stub import train, train_offline
from watchkeeper.adapters.trackers import wandb_offline as tracker_wandb_offline
from watchkeeper.adapters.trackers.wandb_offline import VERSIONS, OfflineWandbTracker, inspect
from watchkeeper.domain.values.basic import TrackerFacts
from watchkeeper.domain.values.contract.tracker import TrackerPart
from watchkeeper.ports.sources import Unavailable

# One worker, since the tests share what a training left.
pytestmark = [pytest.mark.wandb, pytest.mark.xdist_group("wandb offline")]

GOLDEN = Path(__file__).parent / "golden"
LIMIT = timedelta(seconds=60)

TRAINING = """
import os, sys, time, wandb
end, first, rows = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
run = wandb.init(entity="ent", project="p", id="r1", name="Run 1", resume="allow")
for step in range(first, first + rows):
    run.log({"loss": 1.0 / (step + 1), "global_step": step, "text": "t" * 200}, step=step)
run.log({f"only_{first}": first, "nan": float("nan"), "inf": float("inf")}, step=step)
if end == "live":
    print("live", flush=True)
    sys.stdin.read()
if end == "raise":
    raise RuntimeError("bad batch")
if end == "kill":
    time.sleep(2)
    os.kill(os.getpid(), 9)
"""


def tracker(folder: Path, run_id: str = "r1") -> OfflineWandbTracker:
    part = TrackerPart(kind="wandb", mode="offline", dir=str(folder), id=run_id)
    return OfflineWandbTracker(part)


def read(folder: Path, run_id: str = "r1") -> TrackerFacts:
    facts = tracker(folder, run_id).read()
    assert facts is not None
    return facts


def why(reader: OfflineWandbTracker) -> str:
    with pytest.raises(Unavailable) as caught:
        reader.read()
    return caught.value.reason


def offline_folders(folder: Path) -> list[Path]:
    return sorted((folder / "wandb").glob("offline-run-*"))


# --- What a real training left -------------------------------------------------------------------


def test_a_run_that_ended_is_read(tmp_path: Path) -> None:
    before = datetime.now(UTC) - timedelta(seconds=2)
    train(tmp_path, TRAINING, "end", "0", "5")
    facts = read(tmp_path)
    assert (facts.tracker_id, facts.display_name, facts.state) == ("r1", "Run 1", "finished")
    assert facts.step == 4
    assert facts.metrics["loss"] == 0.2
    assert (str(facts.metrics["nan"]), facts.metrics["inf"]) == ("nan", float("inf"))
    assert facts.heartbeat_at is not None
    assert before <= facts.heartbeat_at <= datetime.now(UTC)
    assert Path(facts.url) in offline_folders(tmp_path)
    assert read(tmp_path / "wandb") == facts


def test_a_run_that_raised_failed(tmp_path: Path) -> None:
    train_offline(tmp_path, TRAINING, "raise", "0", "3")
    assert read(tmp_path).state == "failed"


@pytest.mark.parametrize("rows", ["3", "500"])
def test_a_start_that_was_killed_stays_buffered_and_is_never_called_dead(
    tmp_path: Path, rows: str
) -> None:
    train_offline(tmp_path, TRAINING, "kill", "0", rows)
    reason = why(tracker(tmp_path))
    assert reason.startswith("buffered: ")
    assert offline_folders(tmp_path)[0].name in reason


def test_a_run_is_buffered_while_it_lives_and_read_when_it_has_ended(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", TRAINING, "live", "0", "3"],
        env={**os.environ, "WANDB_DIR": str(tmp_path), "WANDB_MODE": "offline"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    assert any(line == "live\n" for line in process.stdout)
    reader = tracker(tmp_path)
    assert why(reader).startswith("buffered: ")
    process.communicate("", timeout=60)
    facts = reader.read()
    assert facts is not None
    assert (facts.state, facts.step) == ("finished", 2)


@pytest.mark.parametrize("rows", ["3", "500"])
def test_the_starts_of_one_run_are_merged(tmp_path: Path, rows: str) -> None:
    train_offline(tmp_path, TRAINING, "kill", "0", rows)
    train(tmp_path, TRAINING, "end", "2", "4")
    assert len(offline_folders(tmp_path)) == 2
    facts = read(tmp_path)
    assert (facts.state, facts.step) == ("finished", 5)
    assert facts.metrics["only_2"] == 2.0


def test_what_only_an_earlier_start_logged_is_kept(tmp_path: Path) -> None:
    train_offline(tmp_path, TRAINING, "end", "0", "5")
    train(tmp_path, TRAINING, "end", "5", "4")
    facts = read(tmp_path)
    assert (facts.metrics["only_0"], facts.metrics["only_5"], facts.step) == (0.0, 5.0, 8)


def test_a_new_start_makes_an_ended_run_buffered_again(tmp_path: Path) -> None:
    train_offline(tmp_path, TRAINING, "end", "0", "5")
    reader = tracker(tmp_path)
    assert reader.read() is not None
    shutil.copytree(
        offline_folders(tmp_path)[0], tmp_path / "wandb" / "offline-run-20991231_235959-r1"
    )
    (tmp_path / "wandb" / "offline-run-20991231_235959-r1" / "run-r1.wandb").write_bytes(b"")
    assert "offline-run-20991231_235959-r1 has no end yet" in why(reader)


def test_a_folder_is_read_again_only_when_it_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train_offline(tmp_path, TRAINING, "end", "0", "5")
    reader = tracker(tmp_path)
    facts = reader.read()

    def never(*_: object) -> dict[str, Any]:
        raise AssertionError("it was read again")

    monkeypatch.setattr(tracker_wandb_offline, "inspect", never)
    assert reader.read() == facts
    [folder] = offline_folders(tmp_path)
    os.utime(folder / "run-r1.wandb", (1, 1))
    with pytest.raises(AssertionError):
        reader.read()


@pytest.mark.parametrize("name", ["", "nothing/here"])
def test_before_the_first_start_there_is_no_run(tmp_path: Path, name: str) -> None:
    assert tracker(tmp_path / name).read() is None


def test_folders_of_other_runs_say_nothing(tmp_path: Path) -> None:
    train_offline(tmp_path, TRAINING, "end", "0", "5")
    assert tracker(tmp_path, "r11").read() is None
    assert tracker(tmp_path, "other").read() is None


# --- What cannot be read -------------------------------------------------------------------------


def test_a_damaged_log_is_unavailable_with_the_reason(tmp_path: Path) -> None:
    train_offline(tmp_path, TRAINING, "end", "0", "5")
    [folder] = offline_folders(tmp_path)
    (folder / "run-r1.wandb").write_bytes(b"nonsense" * 100)
    assert "bad header" in why(tracker(tmp_path))


def test_a_damaged_older_start_does_not_hide_the_newest(tmp_path: Path) -> None:
    train_offline(tmp_path, TRAINING, "end", "0", "5")
    old = tmp_path / "wandb" / "offline-run-20200101_000000-r1"
    old.mkdir()
    (old / "run-r1.wandb").write_bytes(b"nonsense" * 100)
    assert read(tmp_path).step == 4


def test_a_log_that_was_cut_off_is_not_called_ended(tmp_path: Path) -> None:
    train_offline(tmp_path, TRAINING, "end", "0", "5")
    [folder] = offline_folders(tmp_path)
    file = folder / "run-r1.wandb"
    os.truncate(file, file.stat().st_size // 2)
    assert why(tracker(tmp_path)).startswith("buffered: ")


def test_a_folder_without_a_log_has_not_begun(tmp_path: Path) -> None:
    (tmp_path / "offline-run-20260101_000000-r1").mkdir()
    assert why(tracker(tmp_path)).startswith("buffered: ")


def test_a_file_in_the_place_of_the_folder_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "wandb").write_text("")
    assert "Not a directory" in why(tracker(tmp_path))


def test_another_version_of_wandb_is_not_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train_offline(tmp_path, TRAINING, "end", "0", "5")
    monkeypatch.setattr(tracker_wandb_offline, "VERSIONS", ("0.30.0",))
    assert f"wandb {version('wandb')} was never tested: install wandb==0.30.0" in why(
        tracker(tmp_path)
    )


# --- The form of what W&B's tool prints ----------------------------------------------------------


NOTABLE = ("state", "exit_code", "run_id", "name", "step", "entity", "project")
"""Fields whose values are the same each time, and are read."""


def form(value: Any) -> Any:
    """Replace what differs from run to run by what kind it is."""
    if isinstance(value, dict):
        whole = cast("dict[str, Any]", value)
        return {n: inner if n in NOTABLE else form(inner) for n, inner in whole.items()}
    return "number" if isinstance(value, int | float) else type(value).__name__


@pytest.mark.parametrize("end", ["end", "raise", "kill"])
def test_leet_prints_what_its_golden_file_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    """WATCHKEEPER_GOLDEN=update writes the file anew; look at what changed before committing."""
    train_offline(tmp_path, TRAINING, end, "0", "3")
    [folder] = offline_folders(tmp_path)
    said: list[Any] = []

    def kept(found: Any, file: Path) -> dict[str, Any]:
        said.append(found)
        return {}

    monkeypatch.setattr(tracker_wandb_offline, "_checked", kept)
    inspect("test", folder / "run-r1.wandb", LIMIT)
    printed = json.dumps(form(said[0]), indent=2, sort_keys=True) + "\n"
    path = GOLDEN / f"leet_{version('wandb')}_{end}.json"
    if os.environ.get("WATCHKEEPER_GOLDEN") == "update":
        path.write_text(printed)
    assert printed == path.read_text()


def test_each_trusted_version_has_golden_files() -> None:
    for trusted in VERSIONS:
        assert len(list(GOLDEN.glob(f"leet_{trusted}_*.json"))) == 3
    assert version("wandb") in VERSIONS
