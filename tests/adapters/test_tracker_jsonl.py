import json
import math
import socket
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import watchkeeper.adapters.demo
from watchkeeper.adapters.checkpoints.fsspec_files import Filesystems
from watchkeeper.adapters.trackers.jsonl import HEAD_BYTES, TAIL_BYTES, JsonlTracker
from watchkeeper.domain.values.basic import TrackerFacts
from watchkeeper.ports.sources import Unavailable

SCRIPT = Path(watchkeeper.adapters.demo.__file__).parent / "assets" / "train_lm.py"


@pytest.fixture(params=["path", "file", pytest.param("gs", marks=pytest.mark.gcs)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a metrics file that does not exist yet, on every kind of store."""
    if request.param == "gs":
        return f"{request.getfixturevalue('gcs_bucket')}/demo/metrics.jsonl"
    path = str(tmp_path / "metrics.jsonl")
    return path if request.param == "path" else f"file://{path}"


def put(url: str, *lines: str) -> None:
    filesystem = Filesystems(timedelta(seconds=10)).of(url)
    filesystem.pipe_file(url, "".join(lines).encode())


def tracker(state: str = "running", run: str = "demo-1", name: str = "Demo") -> str:
    return json.dumps({"tracker": {"id": run, "display_name": name, "state": state}}) + "\n"


def row(step: int, **metrics: object) -> str:
    time = f"2026-11-21T01:{step // 60 % 60:02d}:{step % 60:02d}.500Z"
    return json.dumps({"step": step, "time": time, **metrics}) + "\n"


def test_a_missing_file_is_no_run_yet(url: str) -> None:
    assert JsonlTracker(url, "demo-1").read() is None


@pytest.mark.parametrize("content", ["", '{"tracker": {"id": "de'])
def test_a_file_without_a_whole_line_is_no_run_yet(url: str, content: str) -> None:
    put(url, content)
    assert JsonlTracker(url, "demo-1").read() is None


def test_the_newest_values_are_read(url: str) -> None:
    put(url, tracker(), row(10, loss=3.5, rate=7), row(20, loss=3.25, note="x", ok=True))
    assert JsonlTracker(url, "demo-1").read() == TrackerFacts(
        tracker_id="demo-1",
        display_name="Demo",
        state="running",
        step=20,
        heartbeat_at=datetime(2026, 11, 21, 1, 0, 20, 500_000, tzinfo=UTC),
        metrics={"rate": 7.0, "loss": 3.25},
        url=url,
    )


def test_a_half_written_last_line_is_left_out(url: str) -> None:
    put(url, tracker(), row(10, loss=3.5), row(20, loss=3.25)[:-20])
    found = JsonlTracker(url, "demo-1").read()
    assert found is not None
    assert (found.step, found.metrics) == (10, {"loss": 3.5})


def test_after_a_restart_the_newest_start_and_row_count(url: str) -> None:
    put(url, tracker(name="First"), row(10), row(20), tracker(name="Second"), row(10, loss=3.0))
    found = JsonlTracker(url, "demo-1").read()
    assert found is not None
    assert (found.display_name, found.step) == ("Second", 10)


def test_a_finished_run_says_so(url: str) -> None:
    put(url, tracker(), row(1500, loss=0.5), tracker("finished"))
    found = JsonlTracker(url, "demo-1").read()
    assert found is not None
    assert (found.state, found.step) == ("finished", 1500)


def test_another_id_is_reported_as_it_stands(url: str) -> None:
    put(url, tracker(run="someone-else"), row(10))
    found = JsonlTracker(url, "demo-1").read()
    assert found is not None
    assert found.tracker_id == "someone-else"


@pytest.mark.parametrize("state", ['"melting"', "null", "[]", "1"])
def test_a_state_that_nobody_knows_is_unknown(tmp_path: Path, state: str) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"tracker": {"id": "demo-1", "state": ' + state + "}}\n")
    found = JsonlTracker(str(path), "demo-1").read()
    assert found is not None
    assert found.state == "unknown"


def test_a_start_without_rows_has_no_step(url: str) -> None:
    put(url, tracker())
    found = JsonlTracker(url, "demo-1").read()
    assert found is not None
    assert (found.step, found.heartbeat_at, found.metrics) == (None, None, {})


def test_numbers_that_json_does_not_have_are_floats(url: str) -> None:
    put(url, tracker(), '{"step": 10, "loss": NaN, "up": Infinity, "down": -Infinity}\n')
    found = JsonlTracker(url, "demo-1").read()
    assert found is not None
    assert math.isnan(found.metrics["loss"])
    assert (found.metrics["up"], found.metrics["down"]) == (math.inf, -math.inf)


def test_of_a_long_file_only_beginning_and_end_are_read(url: str) -> None:
    middle = "no JSON, and never read\n" * (TAIL_BYTES // 20)
    end = "".join(row(step, loss=1.0, note="x" * 900) for step in range(300))
    put(url, tracker(name="First"), "".join(row(1) for _ in range(HEAD_BYTES // 40)), middle, end)
    found = JsonlTracker(url, "demo-1").read()
    assert found is not None
    assert (found.display_name, found.step) == ("First", 299)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{broken}\n{broken}", r"line 3 is not JSON: '\{broken\}'"),
        ("\udcff\n\udcff", "line 3 is not JSON"),
        (f"{'[' * 100_000}\n{'[' * 100_000}", "line 3 is not JSON"),
        ("{broken\n" * 4 + row(20), "line 3 is not JSON"),
        ('{"tracker": {"display_name": "x"}}', "line 3 names no tracker id"),
        ('{"tracker": "demo-1"}', "line 3 names no tracker id"),
    ],
)
def test_a_line_that_no_tracker_writes_is_unavailable_and_named(
    tmp_path: Path, line: str, reason: str
) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_bytes((tracker() + row(10) + line + "\n").encode(errors="surrogateescape"))
    with pytest.raises(Unavailable, match=f"^tracker demo-1 in {path}: {reason}"):
        JsonlTracker(str(path), "demo-1").read()


@pytest.mark.parametrize(
    "line",
    [
        "[1, 2]",
        '{"step": "20"}',
        '{"step": -1}',
        '{"step": true}',
        '{"step": 20, "time": "noon"}',
        '{"step": 20, "time": "2026-11-21T01:00:00"}',
        '{"step": 20, "loss": 1' + "0" * 400 + "}",
    ],
)
def test_one_bad_row_is_left_out_alone(tmp_path: Path, line: str) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text(tracker() + row(10) + line + "\n" + row(30))
    found = JsonlTracker(str(path), "demo-1").read()
    assert found is not None
    assert found.step == 30
    history = JsonlTracker(str(path), "demo-1").history()
    assert history is not None
    assert list(history.steps) == [10, 30]


@pytest.mark.parametrize(
    "torn",
    ['{"step": 20, "lo', "{", '{"tracker": {"id": "demo-1"}', '{"note": "\udcc3', "\0\0\0"],
)
def test_a_start_in_the_half_line_of_a_killed_writer_counts(tmp_path: Path, torn: str) -> None:
    path = tmp_path / "metrics.jsonl"
    content = tracker(name="First") + row(10) + torn + tracker(name="Second") + row(15, loss=3.0)
    path.write_bytes(content.encode(errors="surrogateescape"))
    found = JsonlTracker(str(path), "demo-1").read()
    assert found is not None
    assert (found.display_name, found.step) == ("Second", 15)


def test_a_file_that_begins_with_a_half_line_and_a_start_is_read(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"trac{"tracker": {"id": ' + tracker())
    found = JsonlTracker(str(path), "demo-1").read()
    assert found is not None
    assert found.tracker_id == "demo-1"


@pytest.mark.parametrize("after", ["", row(10, loss=3.5)])
def test_a_half_line_on_its_own_is_skipped(tmp_path: Path, after: str) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text(tracker() + row(10, loss=3.5) + '{"step": 20, "lo\n' + after)
    found = JsonlTracker(str(path), "demo-1").read()
    assert found is not None
    assert (found.step, found.metrics) == (10, {"loss": 3.5})


@pytest.mark.parametrize("content", ["hello\n", "hello\nthere\n", "hello\nthere\n" + tracker()])
def test_a_file_that_is_mostly_nonsense_is_unavailable(tmp_path: Path, content: str) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text(content)
    with pytest.raises(Unavailable, match="line 1 is not JSON: 'hello'"):
        JsonlTracker(str(path), "demo-1").read()


def test_a_bad_line_far_into_a_long_file_is_named_by_its_place(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    before = tracker() + row(10) * (2 * TAIL_BYTES // len(row(10)))
    path.write_text(before + "{broken}\n{broken}\n")
    with pytest.raises(Unavailable, match=f"the line at byte {len(before)} is not JSON"):
        JsonlTracker(str(path), "demo-1").read()


def test_rows_that_no_start_came_before_are_unavailable(url: str) -> None:
    put(url, row(10), row(20))
    with pytest.raises(Unavailable, match=r'no line \{"tracker"'):
        JsonlTracker(url, "demo-1").read()


def test_at_most_64_metrics_are_kept_and_the_newest_stay(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    many = {f"m{number}": number for number in range(100)}
    path.write_text(tracker() + row(10, **many) + row(20, m0=-1.0))
    found = JsonlTracker(str(path), "demo-1").read()
    assert found is not None
    assert len(found.metrics) == 64
    assert found.metrics["m0"] == -1.0
    assert "m37" in found.metrics
    assert "m36" not in found.metrics


def test_a_folder_in_place_of_the_file_is_unavailable(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="IsADirectoryError"):
        JsonlTracker(str(tmp_path), "demo-1").read()


def test_a_silent_server_is_given_up_at_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", f"http://127.0.0.1:{silent.getsockname()[1]}")
        # The first use of gcsfs imports it, which is not what is measured here.
        Filesystems(timedelta(seconds=10)).of("gs://bucket")
        with pytest.raises(Unavailable, match=r"no answer within 0\.5 s"):
            JsonlTracker("gs://bucket/silent", "demo-1", timedelta(seconds=0.5)).read()


@pytest.mark.gcs
def test_a_stopped_server_is_unavailable(
    gcs_bucket_to_stop: tuple[str, Callable[[], None]],
) -> None:
    bucket, stop = gcs_bucket_to_stop
    reader = JsonlTracker(f"{bucket}/metrics.jsonl", "demo-1")
    assert reader.read() is None
    stop()
    with pytest.raises(Unavailable, match="not reached"):
        reader.read()


def test_what_the_real_training_writes_is_read(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    before = datetime.now(UTC) - timedelta(seconds=1)
    subprocess.run(
        [
            *(sys.executable, str(SCRIPT), "--run-id", "demo-1", "--display-name", "Demo"),
            *("--output-root", str(tmp_path / "out"), "--metrics", str(path)),
            *("--num-train-steps", "20", "--step-delay", "0", "--shard-delay", "0"),
        ],
        check=True,
        timeout=60,
        stdout=subprocess.DEVNULL,
    )
    found = JsonlTracker(str(path), "demo-1").read()
    assert found is not None
    assert (found.tracker_id, found.display_name) == ("demo-1", "Demo")
    assert (found.state, found.step) == ("finished", 20)
    assert found.heartbeat_at is not None
    assert before < found.heartbeat_at < datetime.now(UTC)
    assert set(found.metrics) == {"loss", "gradient_norm", "tokens_per_second"}
