"""Metric history of offline W&B runs: what the real client leaves on disk, killed ones included."""

import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.adapters.test_tracker_wandb_offline import TRAINING, offline_folders, tracker
from tests.wandb_stub import train, train_offline
from watchkeeper import clock
from watchkeeper.domain.values.basic import BUFFERED
from watchkeeper.ports.sources import Unavailable

pytestmark = [pytest.mark.wandb, pytest.mark.xdist_group("wandb offline")]


def test_starts_are_one_history_and_unchanged_ones_are_not_read_again(tmp_path: Path) -> None:
    reader = tracker(tmp_path)
    assert reader.history() is None
    train_offline(tmp_path, TRAINING, "end", "0", "3")
    train(tmp_path, TRAINING, "raise", "2", "3")
    found = reader.history()
    assert found is not None
    # The client puts what is logged at one step into one row; the second start begins at step 2.
    assert found.steps == (0, 1, 2, 2, 3, 4)
    assert found.columns["loss"][:3] == (1.0, 0.5, 1 / 3)
    assert found.not_finite == {"inf": (2, 4), "nan": (2, 4)}
    assert math.isnan(found.columns["inf"][2])
    assert 0 < clock.now().timestamp() - found.times[-1] < 120
    for folder in offline_folders(tmp_path):
        # Other bytes under the same stamp: whoever reads them again fails.
        file = folder / "run-r1.wandb"
        seen = file.stat()
        file.write_bytes(b"x" * seen.st_size)
        os.utime(file, ns=(seen.st_atime_ns, seen.st_mtime_ns))
    assert reader.history() == found


def test_a_killed_start_shows_what_reached_the_disk(tmp_path: Path) -> None:
    train_offline(tmp_path, TRAINING, "kill", "0", "500")
    found = tracker(tmp_path).history()
    assert found is not None
    assert 50 < len(found.steps) < 500
    assert found.steps == tuple(range(len(found.steps)))


def test_a_start_of_which_nothing_is_on_disk_is_buffered_and_not_empty(tmp_path: Path) -> None:
    env_less = [sys.executable, "-c", TRAINING, "live", "0", "2"]
    with subprocess.Popen(
        env_less,
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "WANDB_MODE": "offline"}
        | {"WANDB_DIR": str(tmp_path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as training:
        assert training.stdout is not None
        while "live" not in training.stdout.readline():
            assert training.poll() is None
        with pytest.raises(Unavailable) as caught:
            tracker(tmp_path).history()
        training.communicate("")
    assert caught.value.reason.startswith(BUFFERED)
