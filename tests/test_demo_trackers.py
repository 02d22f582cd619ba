"""The demo with each tracker: W&B offline, W&B online to a real server's stub, JSON lines."""

import json
from pathlib import Path

import pytest

from tests.session import processes_of
from tests.test_demo import logbook_of, play, run_cli
from tests.wandb_stub import ask_stub
from watchkeeper.adapters.cli import run

pytestmark = [pytest.mark.git, pytest.mark.timeout(400)]


@pytest.mark.wandb
@pytest.mark.parametrize(
    ("orchestrator", "chosen_store"),
    [
        # Where the ledger is and where the tracker is have nothing to do with each other, so the
        # offline run has the file in every run of the tests, and the online run the server.
        pytest.param("local", "postgresql", id="local", marks=pytest.mark.postgres),
        pytest.param("local", "sqlite", id="local-file", marks=pytest.mark.long),
        pytest.param("ray", "sqlite", id="ray", marks=[pytest.mark.ray, pytest.mark.long]),
    ],
    indirect=["chosen_store"],
)
def test_an_online_run_is_written_by_the_training_and_read_back_by_the_watch(
    tmp_path: Path,
    orchestrator: str,
    chosen_store: str,
    wandb_server: str,
    pytestconfig: pytest.Config,
) -> None:
    home = tmp_path / "home"
    more = ("--tracker", "wandb-stub", "--wandb-url", wandb_server)
    summary = play(home, "crash", orchestrator, pytestconfig, *more)
    assert summary["phase"] == "sealed"
    assert [d["rule"] for d in summary["decisions"]] == ["R1", "R15"]
    link = f"{wandb_server}/watchkeeper/demo/runs/demo-lm"
    book = logbook_of(summary)
    assert book.count("i1 logs to tracker run demo-lm") == 1
    assert "i2 logs to tracker run" not in book
    assert link in book
    assert "tracker `demo-lm` finished, step 1500" in book
    held = ask_stub(wandb_server, "GET", "runs")["watchkeeper/demo/demo-lm"]
    assert (held["displayName"], held["state"]) == ("Demo LM", "finished")
    # The client posts every 15 s or so: what a killed start logged last never gets there.
    assert {"1010", "1500"} <= set(held["history"])
    status = json.loads(run_cli("status", "demo-lm", "--home", str(home), "--json").stdout)
    assert link in json.dumps(status)
    assert (home / "ledger.db").exists() is (chosen_store == "sqlite")
    assert run_cli("verify", "--home", str(home)).returncode == 0
    assert not processes_of(home)


@pytest.mark.long
@pytest.mark.wandb
def test_an_offline_run_is_buffered_while_it_lives_and_merged_when_it_has_ended(
    tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    home = tmp_path / "home"
    more = ("--tracker", "wandb-offline")
    summary = play(home, "crash", "local", pytestconfig, *more)
    assert summary["phase"] == "sealed"
    folders = sorted((home / "demo" / "output" / "wandb").glob("offline-run-*-demo-lm"))
    assert len(folders) == 2
    book = logbook_of(summary)
    assert "tracker unavailable (`buffered: W&B's client writes in blocks" in book
    assert "unaccounted" not in book
    assert book.count(" logs to tracker run demo-lm") == 1
    assert "tracker `demo-lm` finished, step 1500" in book


@pytest.mark.long
def test_with_json_lines_nothing_is_logged_to_wandb(
    tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    home = tmp_path / "home"
    summary = play(home, "none", "local", pytestconfig, "--tracker", "jsonl")
    assert summary["phase"] == "sealed"
    assert not (home / "demo" / "output" / "wandb").exists()
    assert "the tracker shows the contract's id `demo-lm`" in logbook_of(summary)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--tracker", "wandb-stub"], "needs a W&B test server on this machine"),
        (
            ["--tracker", "wandb-stub", "--wandb-url", "https://api.wandb.ai"],
            "needs a W&B test server on this machine",
        ),
        (["--wandb-url", "http://127.0.0.1:8877"], "needs --tracker wandb-stub"),
    ],
)
def test_no_other_server_than_one_on_this_machine_is_written_to(
    tmp_path: Path, options: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    home = tmp_path / "home"
    assert run(["demo", "--home", str(home), *options]) == 4
    assert says in capsys.readouterr().err
    assert not home.exists()
