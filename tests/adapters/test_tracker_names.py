"""Whose a display name is: what a W&B server answers to the real client, and when it does not."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.adapters.hostile_wandb import RUN, Hostile, hostile_server
from tests.wandb_stub import KEY, ask_stub, train
from watchkeeper.adapters.trackers.wandb_online import WandbTracker
from watchkeeper.adapters.trackers.wandb_reader import NAMESAKES_MAX
from watchkeeper.domain.values.contract.tracker import TrackerPart
from watchkeeper.domain.values.observation.gate_facts import TrackerNames
from watchkeeper.ports.sources import NamesTracker, Unavailable

pytestmark = pytest.mark.wandb

TRAINING = """
import sys, wandb
wandb.init(entity="ent", project="p", id=sys.argv[1], name=sys.argv[2]).finish()
"""


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_API_KEY", KEY)
    monkeypatch.delenv("WANDB_BASE_URL", raising=False)


@pytest.fixture
def hostile() -> Iterator[Hostile]:
    with hostile_server() as server:
        yield server


def tracker(url: str, **changes: Any) -> WandbTracker:
    part = TrackerPart(kind="wandb", entity="ent", project="p", id="r1", base_url=url)
    return WandbTracker(part, **changes)


def test_a_new_name_is_nobody_s(wandb_server: str) -> None:
    ask_stub(wandb_server, "PATCH", "runs/ent/p/other", {"displayName": "Run 2"})
    asked = tracker(wandb_server)
    assert isinstance(asked, NamesTracker)
    assert asked.names("Run 1") == TrackerNames()


def test_another_run_s_name_is_reported_by_its_id_whatever_became_of_it(
    wandb_server: str, tmp_path: Path
) -> None:
    train(tmp_path, TRAINING, "r0", "Run 1", url=wandb_server)
    ask_stub(wandb_server, "PATCH", "runs/ent/elsewhere/r9", {"displayName": "Run 1"})
    assert tracker(wandb_server).names("Run 1") == TrackerNames(others=("r0",))


def test_an_id_that_is_there_already_is_reported_with_its_name_and_is_not_its_own_namesake(
    wandb_server: str, tmp_path: Path
) -> None:
    train(tmp_path, TRAINING, "r1", "Run 1", url=wandb_server)
    assert tracker(wandb_server).names("Run 1") == TrackerNames(shown_name="Run 1")
    assert tracker(wandb_server).names("Run 7") == TrackerNames(shown_name="Run 1")


def test_of_many_namesakes_a_bounded_number_is_reported(hostile: Hostile) -> None:
    hostile.others = [{**RUN, "name": f"n{number}"} for number in range(3 * NAMESAKES_MAX)]
    assert len(tracker(hostile.url).names("Run 1").others) == NAMESAKES_MAX


# The other bad answers are read as by `read`: test_tracker_wandb.py has a row for each.
@pytest.mark.parametrize(
    ("mode", "says"),
    [
        ("401", "refuses WANDB_API_KEY"),
        ("no project", "Could not find project"),
    ],
)
def test_a_server_that_answers_badly_says_nothing_of_names(
    hostile: Hostile, mode: str, says: str
) -> None:
    hostile.mode = mode
    with pytest.raises(Unavailable, match=says):
        tracker(hostile.url).names("Run 1")


def test_a_run_that_is_shown_without_its_name_is_no_answer(hostile: Hostile) -> None:
    hostile.run = {**RUN, "displayName": None}
    with pytest.raises(Unavailable, match="without its name"):
        tracker(hostile.url).names("Run 1")


def test_without_a_key_no_name_is_asked_for(
    hostile: Hostile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WANDB_API_KEY")
    with pytest.raises(Unavailable, match="WANDB_API_KEY is not set"):
        tracker(hostile.url).names("Run 1")
    assert hostile.asked == []
