"""Metric history of W&B runs, written and read by the real client."""

import math
from pathlib import Path

import pytest

from tests.wandb_stub import KEY, ask_stub, train
from watchkeeper import clock
from watchkeeper.adapters.trackers.wandb_online import WandbTracker
from watchkeeper.domain.values.contract.tracker import TrackerPart
from watchkeeper.ports.sources import Unavailable

pytestmark = pytest.mark.wandb

TRAINING = """
import sys, wandb
first, last = int(sys.argv[1]), int(sys.argv[2])
wandb.init(entity="ent", project="p", id="r1", name="Run 1", resume="allow",
           config={"trainer": {"num_train_steps": 4768}})
for step in range(first, last):
    values = {"train/loss": float("nan") if step == 5 else 3.0 - step / 100, "global_step": step}
    wandb.log({**values, "note": "x", "ok": True}, step=2 * step)
    if step % 10 == 0:
        wandb.log({"eval/bpb": 1.0}, step=2 * step + 1)
"""


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_API_KEY", KEY)
    monkeypatch.delenv("WANDB_BASE_URL", raising=False)


def tracker(url: str) -> WandbTracker:
    part = TrackerPart(kind="wandb", entity="ent", project="p", id="r1", base_url=url)
    return WandbTracker(part)


def test_a_history_is_read_in_bulk_then_read_on_and_after_a_rewind_read_from_its_start(
    wandb_server: str, tmp_path: Path
) -> None:
    reader = tracker(wandb_server)
    train(tmp_path, TRAINING, "0", "30", url=wandb_server)
    before = clock.now().timestamp() - 60
    found = reader.history()
    assert found is not None
    assert found.steps == tuple(sorted([*range(30), 0, 10, 20]))
    assert set(found.columns) == {"train/loss", "eval/bpb"}
    loss = [value for value in found.columns["train/loss"] if not math.isnan(value)]
    assert loss[:3] == [3.0, 2.99, 2.98]
    assert found.not_finite == {"train/loss": (5,)}
    assert before < found.times[0] <= found.times[-1] <= clock.now().timestamp()
    train(tmp_path, TRAINING, "30", "40", url=wandb_server)
    more = reader.history()
    assert more is not None
    assert more.steps == tuple(sorted([*range(40), 0, 10, 20, 30]))
    assert more.steps[: len(found.steps)] == found.steps
    facts = reader.read()
    assert facts is not None
    assert facts.final_step == 4768
    rows = ask_stub(wandb_server, "GET", "runs")["ent/p/r1"]["history"]
    kept = {number: row for number, row in rows.items() if row.get("global_step") in (0, 1)}
    ask_stub(wandb_server, "PATCH", "runs/ent/p/r1", {"history": kept})
    rewound = reader.history()
    assert rewound is not None
    assert set(rewound.steps) == {0, 1}


def test_a_run_that_its_project_does_not_have_has_no_history(wandb_server: str) -> None:
    ask_stub(wandb_server, "PATCH", "runs/ent/p/other", {})
    assert tracker(wandb_server).history() is None


def test_a_server_that_fails_gives_no_history_and_no_empty_one(wandb_server: str) -> None:
    ask_stub(wandb_server, "POST", "fail", {"n": 50, "status": 403})
    with pytest.raises(Unavailable, match="403"):
        tracker(wandb_server).history()
