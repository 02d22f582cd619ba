"""The live W&B tracker: what the real client wrote is read by the real client, faults are said."""

import contextlib
import json
import sys
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.adapters.hostile_wandb import RUN, Hostile, hostile_server
from tests.domain.samples import contract
from tests.wandb_stub import KEY, ask_stub, train
from watchkeeper import clock
from watchkeeper.adapters.compose import Adapters
from watchkeeper.adapters.home import create_home
from watchkeeper.adapters.trackers.wandb_online import WandbTracker
from watchkeeper.domain.values.contract.tracker import TrackerPart
from watchkeeper.ports.sources import Unavailable

pytestmark = pytest.mark.wandb

TRAINING = """
import os, sys, wandb
wandb.init(entity="ent", project="p", id="r1", name="Run 1", resume="allow")
for step in range(3):
    wandb.log({"loss": 3.0 - step, "global_step": step, "note": "x"}, step=step)
if "raise" in sys.argv:
    raise RuntimeError("bad batch")
if "kill" in sys.argv:
    os.kill(os.getpid(), 9)
"""


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_API_KEY", KEY)
    monkeypatch.delenv("WANDB_BASE_URL", raising=False)


@pytest.fixture
def hostile() -> Iterator[Hostile]:
    with hostile_server() as server:
        yield server


def tracker(url: str, run_id: str = "r1", **changes: Any) -> WandbTracker:
    part = TrackerPart(kind="wandb", entity="ent", project="p", id=run_id, base_url=url)
    return WandbTracker(part, **changes)


def why(reader: WandbTracker) -> str:
    with pytest.raises(Unavailable) as caught:
        reader.read()
    assert KEY not in str(caught.value)
    return caught.value.reason


# --- What a real training wrote ------------------------------------------------------------------


def test_an_online_run_is_read_back(wandb_server: str, tmp_path: Path) -> None:
    before = datetime.now(UTC) - timedelta(seconds=2)
    said = train(tmp_path, TRAINING, url=wandb_server)
    facts = tracker(wandb_server).read()
    assert facts is not None, said
    assert (facts.tracker_id, facts.display_name, facts.state) == ("r1", "Run 1", "finished")
    assert (facts.step, facts.metrics) == (2, {"global_step": 2.0, "loss": 1.0})
    assert facts.url == f"{wandb_server}/ent/p/runs/r1"
    assert facts.heartbeat_at is not None
    assert before <= facts.heartbeat_at <= datetime.now(UTC)
    assert facts.url in said


def test_each_reading_is_fresh(wandb_server: str, tmp_path: Path) -> None:
    train(tmp_path, TRAINING, url=wandb_server)
    reader = tracker(wandb_server)
    reader.read()
    changed = {"state": "running", "displayName": "Other", "summary": {"global_step": 7}}
    ask_stub(wandb_server, "PATCH", "runs/ent/p/r1", changed)
    facts = reader.read()
    assert facts is not None
    assert (facts.state, facts.display_name, facts.step) == ("running", "Other", 7)


@pytest.mark.parametrize(("end", "state"), [("raise", "failed"), ("kill", "running")])
def test_a_bad_end_is_told_as_the_server_knows_it(
    wandb_server: str, tmp_path: Path, end: str, state: str
) -> None:
    train(tmp_path, TRAINING, end, url=wandb_server)
    facts = tracker(wandb_server).read()
    assert facts is not None
    assert facts.state == state


def test_what_the_server_calls_crashed_is_no_end(wandb_server: str, tmp_path: Path) -> None:
    train(tmp_path, TRAINING, "kill", url=wandb_server)
    ask_stub(wandb_server, "PATCH", "runs/ent/p/r1", {"state": "crashed"})
    facts = tracker(wandb_server).read()
    assert facts is not None
    assert facts.state == "crashed"


def test_a_run_that_its_project_does_not_have_is_missing(wandb_server: str) -> None:
    ask_stub(wandb_server, "PATCH", "runs/ent/p/other", {})
    assert tracker(wandb_server).read() is None


def test_another_live_run_under_the_same_name_is_told(wandb_server: str, tmp_path: Path) -> None:
    train(tmp_path, TRAINING, url=wandb_server)
    now = datetime.now(UTC).timestamp()
    others: dict[str, dict[str, Any]] = {
        "twin": {},
        "named-otherwise": {"displayName": "Run 2"},
        "ended": {"state": "finished"},
        "silent": {"heartbeat": now - 1000, "state": "running"},
    }
    for run, changes in others.items():
        fields = {"displayName": "Run 1", "heartbeat": now, **changes}
        ask_stub(wandb_server, "PATCH", f"runs/ent/p/{run}", fields)
    facts = tracker(wandb_server).read()
    assert facts is not None
    assert facts.twins == ("twin",)


# --- Servers that answer badly -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "says"),
    [
        ("401", "refuses WANDB_API_KEY (401)"),
        ("403", "may not read this run (403)"),
        ("404", "does not know this address (404)"),
        ("429", "rate limited (429)"),
        ("500", "the server answers 500: "),
        ("503", "the server answers 503: "),
        ("nonsense", "invalid character '<'"),
        ("cut off", "unexpected EOF"),
        ("refusal", "permission denied"),
        ("no project", "Could not find project"),
        ("sign-in", "refuses WANDB_API_KEY (401)"),
    ],
)
def test_a_server_that_answers_badly_is_unavailable_with_the_reason(
    hostile: Hostile, mode: str, says: str
) -> None:
    hostile.mode = mode
    assert says in why(tracker(hostile.url))


def test_a_server_that_is_slow_costs_no_more_than_the_limit(hostile: Hostile) -> None:
    hostile.mode = "slow"
    timer = clock.Timer()
    reader = tracker(hostile.url, limit=timedelta(seconds=6))
    # On a busy machine the client that is to give up is killed, 3 s later.
    assert why(reader) in ("no answer within 6 s", "no answer within 9 s")
    assert timer.elapsed() < timedelta(seconds=20)


def test_a_request_that_is_slow_is_given_up_before_the_whole_reading(hostile: Hostile) -> None:
    hostile.mode = "slow"
    reader = tracker(hostile.url, request_limit=timedelta(seconds=2))
    assert why(reader) == "no answer within 2 s"


def test_nothing_is_left_behind_by_a_reading_that_was_given_up(
    hostile: Hostile, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What the reading starts has it in its environment, and nothing else on this machine has.
    key = uuid.uuid4().hex + KEY[32:]
    monkeypatch.setenv("WANDB_API_KEY", key)
    hostile.mode = "slow"
    why(tracker(hostile.url, limit=timedelta(seconds=6)))
    backoff = clock.ExponentialBackoff(maximum=timedelta(milliseconds=500))
    assert backoff.wait_until(lambda: not names_with(key), timedelta(seconds=20)), names_with(key)


def names_with(key: str) -> list[str]:
    found: list[str] = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            if process.environ().get("WANDB_API_KEY") == key:
                found.append(process.name())
    return found


def test_after_a_rate_limit_the_server_is_left_alone_for_a_while(hostile: Hostile) -> None:
    hostile.mode = "429"
    reader = tracker(hostile.url)
    why(reader)
    asked = len(hostile.asked)
    assert "not asked again yet" in why(reader)
    assert len(hostile.asked) == asked


def test_a_run_that_is_listed_and_not_shown_is_not_missing(hostile: Hostile) -> None:
    hostile.mode = "no run"
    assert tracker(hostile.url).read() is None
    hostile.others = [dict(RUN)]
    assert why(tracker(hostile.url)) == "the server lists the run but does not show it"


def test_a_server_that_works_again_is_read_again(hostile: Hostile) -> None:
    reader = tracker(hostile.url)
    hostile.run["summaryMetrics"] = "{nonsense"
    why(reader)
    hostile.run = dict(RUN)
    facts = reader.read()
    assert facts is not None
    assert (facts.step, facts.metrics["loss"]) == (5, 1.5)
    assert str(facts.metrics["z"]) == "nan"
    assert facts.heartbeat_at == datetime(2026, 11, 21, 4, tzinfo=UTC)


@pytest.mark.parametrize(
    ("lacks", "says"),
    [
        ("displayName", "only partly, without name"),
        ("heartbeatAt", "only partly, without heartbeat"),
        ("summaryMetrics", "only partly, without summary"),
    ],
)
def test_half_an_answer_is_no_answer(hostile: Hostile, lacks: str, says: str) -> None:
    del hostile.run[lacks]
    assert says in why(tracker(hostile.url))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"heartbeatAt": "yesterday"}, "expected a time"),
        ({"summaryMetrics": "[1]"}, ""),
    ],
)
def test_nonsense_within_the_answer_is_never_a_crash(
    hostile: Hostile, changes: dict[str, Any], says: str
) -> None:
    hostile.run.update(changes)
    assert says in why(tracker(hostile.url))


def test_a_state_that_nobody_knows_is_unknown(hostile: Hostile) -> None:
    hostile.run["state"] = "levitating"
    facts = tracker(hostile.url).read()
    assert facts is not None
    assert facts.state == "unknown"


def test_a_server_that_is_down_is_unavailable() -> None:
    assert "connect" in why(tracker("http://127.0.0.1:9"))


def test_without_a_key_nothing_is_asked(hostile: Hostile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WANDB_API_KEY")
    assert why(tracker(hostile.url)) == "WANDB_API_KEY is not set where watchkeeper runs: set it"
    assert hostile.asked == []


def test_a_key_that_the_client_refuses_is_not_told(
    hostile: Hostile, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = "s3cr3t"
    monkeypatch.setenv("WANDB_API_KEY", short)
    assert short not in why(tracker(hostile.url))


def test_a_folder_called_wandb_where_the_watch_runs_does_not_matter(
    hostile: Hostile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "wandb").mkdir()
    (tmp_path / "wandb" / "__init__.py").write_text("raise SystemExit('the wrong wandb')")
    monkeypatch.chdir(tmp_path)
    assert tracker(hostile.url).read() is not None


def test_a_summary_without_numbers_is_made_up_for_by_the_history(
    wandb_server: str, tmp_path: Path
) -> None:
    train(tmp_path, TRAINING, url=wandb_server)
    ask_stub(wandb_server, "PATCH", "runs/ent/p/r1", {"summary": {"_step": 2}})
    facts = tracker(wandb_server).read()
    assert facts is not None
    assert (facts.step, facts.metrics["loss"]) == (2, 1.0)


@pytest.mark.parametrize(
    ("changes", "made"),
    [
        ({"kind": "jsonl", "url": "/m.jsonl"}, "JsonlTracker"),
        ({"kind": "wandb", "url": "", "entity": "e", "project": "p"}, "WandbTracker"),
        (
            {"kind": "wandb", "url": "", "mode": "offline", "dir": "/w"},
            "OfflineWandbTracker",
        ),
    ],
)
def test_the_contract_chooses_who_reads(tmp_path: Path, changes: dict[str, Any], made: str) -> None:
    adapters = Adapters(create_home(tmp_path))
    promised = contract(tracker=changes)
    reader = adapters.tracker(promised)
    assert type(reader).__name__ == made
    assert adapters.tracker(promised) is reader


def test_status_imports_no_client_of_wandb() -> None:
    code = "import sys, watchkeeper.adapters.cli, watchkeeper.adapters.trackers.wandb_online; "
    code += "import watchkeeper.adapters.trackers.wandb_offline, json; "
    code += "print(json.dumps('wandb' in sys.modules))"
    done = psutil.Popen([sys.executable, "-c", code], stdout=-1)
    out, _ = done.communicate(timeout=60)
    assert json.loads(out) is False
