"""Metric history of a JSON-lines tracker: newest points, read on where the file only grew."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from watchkeeper.adapters.trackers import jsonl_history
from watchkeeper.adapters.trackers.jsonl import JsonlTracker
from watchkeeper.adapters.trackers.jsonl_history import Kept, read_on
from watchkeeper.adapters.trackers.metric_points import COLUMNS_MAX, Point
from watchkeeper.domain.values.observation.sources import HISTORY_POINTS_MAX, MetricHistory
from watchkeeper.ports.sources import HistoryTracker, Unavailable

START = {"tracker": {"id": "r1", "display_name": "r1", "state": "running"}}


def row(step: int, **values: Any) -> dict[str, Any]:
    return {"step": step, "time": f"2026-11-21T01:{step // 60 % 60:02}:{step % 60:02}Z", **values}


def write(path: Path, *rows: dict[str, Any], mode: str = "a") -> None:
    with path.open(mode) as file:
        file.writelines(json.dumps(one) + "\n" for one in rows)


def had(tracker: HistoryTracker) -> MetricHistory:
    found = tracker.history()
    assert found is not None
    return found


def test_a_history_has_steps_times_and_columns(tmp_path: Path) -> None:
    file = tmp_path / "m.jsonl"
    write(file, START, row(1, loss=3.0), row(2, loss=2.5, grad_norm=1.0), row(2, loss=2.4))
    found = had(JsonlTracker(str(file), "r1"))
    assert found.steps == (1, 2, 2)
    assert found.times[1] - found.times[0] == 1
    assert found.columns["loss"] == (3.0, 2.5, 2.4)
    assert math.isnan(found.columns["grad_norm"][0])
    assert found.not_finite == {}


def test_what_was_logged_as_nan_or_infinite_is_told_by_its_step(tmp_path: Path) -> None:
    file = tmp_path / "m.jsonl"
    write(file, START, row(1, loss=3.0), row(2, loss=math.nan), row(3, loss=math.inf))
    found = had(JsonlTracker(str(file), "r1"))
    assert found.not_finite == {"loss": (2, 3)}
    assert [math.isnan(value) for value in found.columns["loss"]] == [False, True, True]


def test_only_the_newest_points_are_told(tmp_path: Path) -> None:
    file = tmp_path / "m.jsonl"
    write(file, START, *(row(step, loss=1.0) for step in range(HISTORY_POINTS_MAX + 50)))
    found = had(JsonlTracker(str(file), "r1"))
    assert len(found.steps) == HISTORY_POINTS_MAX
    assert found.steps[-1] == HISTORY_POINTS_MAX + 49


def test_a_run_with_thousands_of_metrics_keeps_those_that_rules_read(tmp_path: Path) -> None:
    file = tmp_path / "m.jsonl"
    layers = {f"grad_norm/layer/{n}": 1.0 for n in range(2_000)}
    write(file, START, row(1, **layers, **{"train/loss": 2.0, "optim/grad_norm": 1.0}))
    found = had(JsonlTracker(str(file), "r1"))
    assert len(found.columns) == COLUMNS_MAX
    assert list(found.columns)[:2] == ["train/loss", "optim/grad_norm"]


def test_a_missing_file_is_no_run_yet_and_a_broken_one_no_answer(tmp_path: Path) -> None:
    file = tmp_path / "m.jsonl"
    assert JsonlTracker(str(file), "r1").history() is None
    file.write_text("what\never\n")
    with pytest.raises(Unavailable):
        JsonlTracker(str(file), "r1").history()


def test_a_grown_file_is_read_on_and_nothing_counts_twice(tmp_path: Path) -> None:
    file = tmp_path / "m.jsonl"
    tracker = JsonlTracker(str(file), "r1")
    write(file, START, row(1, loss=3.0))
    assert had(tracker).steps == (1,)
    assert had(tracker).steps == (1,)
    write(file, row(2, loss=2.0))
    with file.open("a") as half:
        half.write('{"step": 3, "lo')
    assert had(tracker).steps == (1, 2)
    with file.open("a") as rest:
        rest.write('ss": 1.0}\n')
    assert had(tracker).steps == (1, 2, 3)


def test_a_file_written_anew_is_read_anew(tmp_path: Path) -> None:
    file = tmp_path / "m.jsonl"
    tracker = JsonlTracker(str(file), "r1")
    write(file, START, row(1, loss=3.0), row(2, loss=2.0))
    had(tracker)
    write(file, START, *(row(step, loss=9.0) for step in range(100, 110)), mode="w")
    assert had(tracker).steps == tuple(range(100, 110))
    write(file, START, row(7, loss=9.0), mode="w")
    assert had(tracker).steps == (7,)


def test_of_a_grown_file_only_the_new_part_is_read() -> None:
    asked: list[tuple[int, int]] = []
    lines = b"".join(b'{"step": %d}\n' % step for step in range(1000))

    def read(start: int, end: int) -> bytes:
        asked.append((start, end))
        return lines[start:end]

    def rows(content: bytes, start: int) -> list[tuple[str, dict[str, Any]]]:
        whole = content[: content.rfind(b"\n") + 1]
        cut = whole[whole.find(b"\n") + 1 :] if start else whole
        return [("", json.loads(line)) for line in cut.splitlines()]

    def point(place: str, row: dict[str, Any]) -> Point:
        del place
        return Point(row["step"], None, {})

    kept = Kept()
    for size in range(0, len(lines) + 1, 997):
        kept = read_on(kept, size, read, rows, point)
    kept = read_on(kept, len(lines), read, rows, point)
    assert [one.step for one in kept.points] == list(range(1000))
    assert max(end - start for start, end in asked) < 1200


def test_a_file_that_grew_by_more_than_is_read_at_once_begins_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jsonl_history, "FIRST_BYTES", 2_000)
    file = tmp_path / "m.jsonl"
    tracker = JsonlTracker(str(file), "r1")
    write(file, START, row(1, loss=3.0))
    had(tracker)
    write(file, *(row(step, loss=1.0) for step in range(2, 500)))
    steps = had(tracker).steps
    assert steps[-1] == 499
    assert steps[0] > 400


def test_the_last_step_by_the_configuration_is_told(tmp_path: Path) -> None:
    file = tmp_path / "m.jsonl"
    start = {"tracker": {**START["tracker"], "config": {"trainer": {"num_train_steps": 4768}}}}
    write(file, start, row(1, loss=3.0))
    facts = JsonlTracker(str(file), "r1").read()
    assert facts is not None
    assert facts.final_step == 4768
