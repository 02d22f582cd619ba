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
from tests.missing import had
from tests.server_process import start_server
from tests.wandb_stub import KEY, SERVER, ask_stub, copy_run, train
from watchkeeper import clock
from watchkeeper.adapters.compose import Adapters
from watchkeeper.adapters.home import create_home
from watchkeeper.adapters.trackers.wandb_online import WandbTracker
from watchkeeper.domain.values.contract.tracker import TrackerPart
from watchkeeper.ports.sources import Unavailable

# One worker, since the tests share what a training wrote.
pytestmark = [pytest.mark.wandb, pytest.mark.xdist_group("wandb")]

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


@pytest.fixture(scope="module")
def trained(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, str]]:
    """The URL of a stub with the run `r1`, which ended well, and what its training printed."""
    folder = tmp_path_factory.mktemp("trained")
    with had(request.config, "wandb"):
        server = start_server(SERVER, "--port", "0", log=folder / "stub.log")
    try:
        yield server.address, train(folder, TRAINING, url=server.address)
    finally:
        server.stop()


def tracker(url: str, run_id: str = "r1", project: str = "p", **changes: Any) -> WandbTracker:
    part = TrackerPart(kind="wandb", entity="ent", project=project, id=run_id, base_url=url)
    return WandbTracker(part, **changes)


def why(reader: WandbTracker) -> str:
    with pytest.raises(Unavailable) as caught:
        reader.read()
    assert KEY not in str(caught.value)
    return caught.value.reason


# --- What a real training wrote ------------------------------------------------------------------


def test_an_online_run_is_read_back(trained: tuple[str, str]) -> None:
    url, said = trained
    facts = tracker(url).read()
    assert facts is not None, said
    assert (facts.tracker_id, facts.display_name, facts.state) == ("r1", "Run 1", "finished")
    assert (facts.step, facts.metrics) == (2, {"global_step": 2.0, "loss": 1.0})
    assert facts.url == f"{url}/ent/p/runs/r1"
    assert facts.heartbeat_at is not None
    # The training ended in this test, or in one of this module before.
    assert timedelta(0) <= datetime.now(UTC) - facts.heartbeat_at < timedelta(minutes=10)
    assert facts.url in said


def test_each_reading_is_fresh(trained: tuple[str, str]) -> None:
    url, _ = trained
    copy_run(url, "ent/p/r1", "ent/p/changing")
    reader = tracker(url, "changing")
    first = reader.read()
    assert first is not None
    assert (first.state, first.display_name, first.step) == ("finished", "Run 1", 2)
    changed = {"state": "running", "displayName": "Other", "summary": {"global_step": 7}}
    ask_stub(url, "PATCH", "runs/ent/p/changing", changed)
    facts = reader.read()
    assert facts is not None
    assert (facts.state, facts.display_name, facts.step) == ("running", "Other", 7)


@pytest.mark.parametrize(("end", "state"), [("raise", "failed"), ("kill", "running")])
def test_a_bad_end_is_reported_as_the_server_knows_it(
    wandb_server: str, tmp_path: Path, end: str, state: str
) -> None:
    train(tmp_path, TRAINING, end, url=wandb_server)
    facts = tracker(wandb_server).read()
    assert facts is not None
    assert facts.state == state


def test_what_the_server_calls_crashed_is_no_end(trained: tuple[str, str]) -> None:
    url, _ = trained
    copy_run(url, "ent/p/r1", "ent/p/gone", state="crashed")
    facts = tracker(url, "gone").read()
    assert facts is not None
    assert facts.state == "crashed"


def test_a_run_that_its_project_does_not_have_is_missing(wandb_server: str) -> None:
    ask_stub(wandb_server, "PATCH", "runs/ent/p/other", {})
    assert tracker(wandb_server).read() is None


def test_another_live_run_under_the_same_name_is_reported(trained: tuple[str, str]) -> None:
    url, _ = trained
    copy_run(url, "ent/p/r1", "ent/q/r1")
    now = datetime.now(UTC).timestamp()
    others: dict[str, dict[str, Any]] = {
        "twin": {},
        "named-otherwise": {"displayName": "Run 2"},
        "ended": {"state": "finished"},
        "silent": {"heartbeat": now - 1000, "state": "running"},
    }
    for run, changes in others.items():
        fields = {"displayName": "Run 1", "heartbeat": now, **changes}
        ask_stub(url, "PATCH", f"runs/ent/q/{run}", fields)
    facts = tracker(url, project="q").read()
    assert facts is not None
    assert facts.twins == ("twin",)


# --- Servers that answer badly -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "says"),
    [
        ("401", "refuses WANDB_API_KEY (401)"),
        pytest.param("403", "may not read this run (403)", marks=pytest.mark.servers),
        pytest.param("404", "does not know this address (404)", marks=pytest.mark.servers),
        pytest.param("503", "the server answers 503: ", marks=pytest.mark.servers),
        ("nonsense", "invalid character '<'"),
        pytest.param("cut off", "unexpected EOF", marks=pytest.mark.servers),
        pytest.param("refusal", "permission denied", marks=pytest.mark.servers),
        ("no project", "Could not find project"),
        ("sign-in", "refuses WANDB_API_KEY (401)"),
    ],
)
def test_a_server_that_answers_badly_is_unavailable_with_the_reason(
    hostile: Hostile, mode: str, says: str
) -> None:
    hostile.mode = mode
    assert says in why(tracker(hostile.url))


@pytest.mark.servers
def test_a_server_that_is_slow_costs_no_more_than_the_limit_and_nothing_is_left_behind(
    hostile: Hostile, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The reader's processes have it in their environment, and nothing else on this machine has.
    key = uuid.uuid4().hex + KEY[32:]
    monkeypatch.setenv("WANDB_API_KEY", key)
    hostile.mode = "slow"
    timer = clock.Timer()
    reader = tracker(hostile.url, limit=timedelta(seconds=6))
    # On a busy machine the client that is to give up is killed, 3 s later.
    assert why(reader) in ("no answer within 6 s", "no answer within 9 s")
    assert timer.elapsed() < timedelta(seconds=20)
    backoff = clock.ExponentialBackoff(maximum=timedelta(milliseconds=500))
    assert backoff.wait_until(lambda: not names_with(key), timedelta(seconds=20)), names_with(key)


@pytest.mark.servers
def test_a_request_that_is_slow_is_given_up_before_the_whole_reading(hostile: Hostile) -> None:
    hostile.mode = "slow"
    reader = tracker(hostile.url, request_limit=timedelta(seconds=2))
    assert why(reader) == "no answer within 2 s"


def names_with(key: str) -> list[str]:
    found: list[str] = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            if process.environ().get("WANDB_API_KEY") == key:
                found.append(process.name())
    return found


@pytest.mark.servers
def test_after_a_rate_limit_the_server_is_left_alone_for_a_while(hostile: Hostile) -> None:
    hostile.mode = "429"
    # The client waits for as long as the server wants; its log has the reason.
    reader = tracker(hostile.url, limit=timedelta(seconds=8))
    assert "rate limited (429)" in why(reader)
    asked = len(hostile.asked)
    assert "not asked again yet" in why(reader)
    assert len(hostile.asked) == asked


@pytest.mark.servers
def test_a_run_that_is_listed_and_not_shown_is_not_missing(hostile: Hostile) -> None:
    hostile.mode = "no run"
    assert tracker(hostile.url).read() is None
    hostile.others = [dict(RUN)]
    assert why(tracker(hostile.url)) == "the server lists the run but does not show it"


@pytest.mark.servers
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


def test_half_an_answer_is_no_answer(hostile: Hostile) -> None:
    for name in ("displayName", "heartbeatAt", "summaryMetrics"):
        del hostile.run[name]
    assert "only partly, without name, heartbeat, summary" in why(tracker(hostile.url))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"heartbeatAt": "yesterday"}, "expected a time"),
        ({"summaryMetrics": "[1]"}, ""),
    ],
)
@pytest.mark.servers
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


@pytest.mark.servers
def test_a_key_that_the_client_refuses_is_not_shown(
    hostile: Hostile, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = "s3cr3t"
    monkeypatch.setenv("WANDB_API_KEY", short)
    assert short not in why(tracker(hostile.url))


@pytest.mark.servers
def test_a_folder_called_wandb_where_the_watch_runs_does_not_matter(
    hostile: Hostile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "wandb").mkdir()
    (tmp_path / "wandb" / "__init__.py").write_text("raise SystemExit('the wrong wandb')")
    monkeypatch.chdir(tmp_path)
    assert tracker(hostile.url).read() is not None


def test_a_summary_without_numbers_is_made_up_for_by_the_history(trained: tuple[str, str]) -> None:
    url, _ = trained
    copy_run(url, "ent/p/r1", "ent/p/numberless", summary={"_step": 2})
    facts = tracker(url, "numberless").read()
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
