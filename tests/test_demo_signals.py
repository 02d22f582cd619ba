"""The demo through Pub/Sub, and what stands for a bucket in it."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.session import processes_of
from tests.test_demo import logbook_of, play, run_cli
from watchkeeper.adapters.cli import run
from watchkeeper.adapters.demo.bucket import changes, look, message
from watchkeeper.adapters.signals import parse_message
from watchkeeper.domain.values.observation.signals import Delivery, SignalKind
from watchkeeper.domain.values.secrets.scrubbing import Scrubber

NOW = datetime(2026, 11, 21, tzinfo=UTC)


@pytest.mark.git
@pytest.mark.ray
@pytest.mark.pubsub
@pytest.mark.timeout(400)
def test_the_story_is_heard_through_pubsub_and_decided_sooner_than_by_polling(
    tmp_path: Path,
    pubsub_server: str,
    pytestconfig: pytest.Config,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PUBSUB_EMULATOR_HOST", pubsub_server)
    home = tmp_path / "home"
    summary = play(home, "crash", "ray", pytestconfig, "--signals", "pubsub")
    assert summary["phase"] == "sealed"
    assert [d["rule"] for d in summary["decisions"]] == ["R1", "R15"]
    assert summary["verify"] == []
    heard = summary["by_signals"]
    assert heard["kill_to_decision_s"] < heard["next_poll_after_kill_s"]
    listed = json.loads(run_cli("signals", "list", "--home", str(home), "--json").stdout)
    kinds = {one["kind"] for one in listed["signals"]}
    assert {"checkpoint_written", "job_state"} <= kinds
    assert "signal:" not in logbook_of(summary).lower().partition("## event log")[0]
    assert not processes_of(home)


@pytest.mark.parametrize(
    ("address", "orchestrator", "says", "code"),
    [
        ("", "ray", "PUBSUB_EMULATOR_HOST=HOST:PORT", 4),
        ("127.0.0.1:1", "local", "leave --orchestrator local out", 4),
        ("127.0.0.1:1", "ray", "127.0.0.1:1: no server answers there", 2),
        ("nonsense", "ray", "nonsense: no server answers there", 2),
    ],
)
def test_what_the_demo_with_signals_needs_is_said_before_anything_starts(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    address: str,
    orchestrator: str,
    says: str,
    code: int,
) -> None:
    monkeypatch.setenv("PUBSUB_EMULATOR_HOST", address)
    assert run(["demo", "--signals", "pubsub", "--orchestrator", orchestrator]) == code
    told = capsys.readouterr().err
    assert says in told
    assert "Traceback" not in told


def test_the_stand_in_for_a_bucket_tells_what_our_parser_reads(tmp_path: Path) -> None:
    step = tmp_path / "step-100"
    step.mkdir()
    (step / "metadata.json").write_text("{}")
    (step / "shard-0").write_text("0")
    before = look(tmp_path, "demo/checkpoints")
    told = changes({}, before)
    assert [(event, one.name.rpartition("/")[2]) for event, one in told] == [
        ("OBJECT_FINALIZE", "shard-0"),
        ("OBJECT_FINALIZE", "metadata.json"),
    ]
    assert changes(before, look(tmp_path, "demo/checkpoints")) == []
    (step / "metadata.json").unlink()
    gone = changes(before, look(tmp_path, "demo/checkpoints"))
    assert [event for event, _ in gone] == ["OBJECT_DELETE"]
    for kind, (event, one) in (
        (SignalKind.CHECKPOINT_WRITTEN, told[1]),
        (SignalKind.CHECKPOINT_GONE, gone[0]),
    ):
        data, attributes = message("demo-bucket", event, one)
        parsed = parse_message(Delivery("s", "1", data, attributes, NOW, NOW), Scrubber(b"k"))
        assert isinstance(parsed, tuple)
        [signal] = parsed
        assert signal.kind is kind
        assert signal.subject == "gs://demo-bucket/demo/checkpoints/step-100"
