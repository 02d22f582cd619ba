"""Every command, its exit codes and its JSON, in one process and on real parts."""

import json
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.office import end_processes
from tests.training import Site, git, make_site, tiny_contract
from watchkeeper.adapters.cli import COMMANDS, run
from watchkeeper.adapters.contract_file import contract_to_yaml
from watchkeeper.adapters.store.sqlite import open_store

pytestmark = pytest.mark.git

Cli = Callable[..., "Answer"]


class Answer:
    """What one command said."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code = code
        self.out = out
        self.err = err

    @property
    def json(self) -> Any:
        return json.loads(self.out.splitlines()[-1])


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "home"
    end_processes(tmp_path)


@pytest.fixture
def cli(home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Cli:
    monkeypatch.setenv("WATCHKEEPER_HOME", str(home))
    monkeypatch.setenv("WATCHKEEPER_PRINCIPAL", "dri")

    def call(*arguments: str) -> Answer:
        capsys.readouterr()
        code = run(list(arguments))
        said = capsys.readouterr()
        assert "Traceback" not in said.err + said.out
        return Answer(code, said.out, said.err)

    assert call("init", "--human", "dri").code == 0
    return call


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return make_site(tmp_path)


@pytest.fixture
def contract(site: Site, tmp_path: Path) -> Path:
    path = tmp_path / "tiny.yaml"
    path.write_text(contract_to_yaml(tiny_contract(site, "tiny", steps=60, pace=0.05)))
    return path


@pytest.fixture
def launched(cli: Cli, contract: Path) -> str:
    held = cli("launch", str(contract), "--json")
    assert held.code == 3
    assert cli("approve", "tiny", "--plan", held.json["plan"]).code == 0
    assert cli("launch", str(contract)).code == 0
    return "tiny"


def test_a_launch_without_approval_is_held_back_and_says_how_to_go_on(
    cli: Cli, contract: Path
) -> None:
    held = cli("launch", str(contract))
    assert held.code == 3
    assert "L11" in held.out
    assert "watchkeeper approve tiny --plan" in held.out


def test_a_dry_run_records_nothing(cli: Cli, contract: Path, home: Path) -> None:
    assert cli("launch", str(contract), "--dry-run").code == 3
    with open_store(home / "ledger.db") as store:
        assert store.streams("run/") == []


def test_an_agent_cannot_approve(cli: Cli, contract: Path) -> None:
    plan = cli("launch", str(contract), "--json").json["plan"]
    refused = cli("approve", "tiny", "--plan", plan, "--as", "some-bot")
    assert refused.code == 3
    assert "NOT_A_HUMAN" in refused.err


def test_a_changed_contract_needs_a_new_approval(cli: Cli, contract: Path) -> None:
    plan = cli("launch", str(contract), "--json").json["plan"]
    assert cli("approve", "tiny", "--plan", plan).code == 0
    contract.write_text(contract.read_text().replace("'60'", "'61'").replace("60\n", "61\n"))
    again = cli("launch", str(contract), "--json")
    assert again.code == 3
    assert again.json["plan"] != plan


def test_a_bad_contract_lists_every_problem_and_records_nothing(
    cli: Cli, contract: Path, home: Path
) -> None:
    text = contract.read_text().replace("lane: ordinary", "lane: heroic\nretenion: 3")
    contract.write_text(text)
    bad = cli("launch", str(contract))
    assert bad.code == 4
    assert "lane" in bad.err
    assert "retenion" in bad.err
    assert "nothing was recorded" in bad.err
    with open_store(home / "ledger.db") as store:
        assert store.streams("run/") == []
    as_json = cli("launch", str(contract), "--json")
    assert as_json.code == 4
    assert len(as_json.json["problems"]) >= 2


def test_the_whole_life_by_commands(cli: Cli, launched: str, site: Site) -> None:
    assert cli("watch", "--until-idle", "--json").code == 0
    status = cli("status", launched, "--json")
    assert status.code == 0
    assert status.json["phase"] == "sealed"
    assert git(site.remote, "cat-file", "-t", "run/tiny/final").strip() == "tag"
    assert cli("verify").code == 0
    assert cli("verify", "--offline", "--json").json["intact"] is True
    assert "1 sealed" in cli("status").out
    assert "tiny" in cli("status", "--all").out
    assert cli("doctor").code == 0
    book = cli("logbook", launched)
    assert book.out.startswith("# tiny: Run Logbook")
    assert book.out.strip() == git(site.remote, "show", "main:.agents/logbooks/tiny.md").strip()
    early = cli("logbook", launched, "--at", "3")
    assert len(early.out) < len(book.out)
    rows = cli("events", launched, "--json").json["events"]
    assert [row["seq"] for row in rows] == list(range(1, len(rows) + 1))
    steps = cli("checkpoints", launched, "--json").json["checkpoints"]
    assert [row["step"] for row in steps] == sorted(row["step"] for row in steps)
    state = json.loads((Path(str(cli_home(cli))) / "runs/tiny/monitoring_state.json").read_text())
    assert state["restart_count"] == 0


def cli_home(cli: Cli) -> str:
    home: str = cli("init", "--json").json["home"]
    return home


def test_people_can_note_correct_stop_and_acknowledge(cli: Cli, launched: str) -> None:
    assert cli("note", launched, "looks slow").code == 0
    seq = cli("events", launched, "--json").json["events"][-1]["seq"]
    assert cli("correct", launched, str(seq), "it was fast").code == 0
    assert cli("correct", launched, "9999", "no").code == 3
    assert cli("ack", launched, "q-7").code == 3
    assert cli("stop", launched, "--reason", "enough").code == 0
    assert cli("watch", "--until-idle").code == 0
    assert cli("status", launched, "--json").json["phase"] == "stopped"
    assert cli("abandon", launched, "--reason", "x").code == 3
    assert cli("seal", launched).code == 3


def test_a_run_can_be_abandoned_before_launch(cli: Cli, contract: Path) -> None:
    assert cli("launch", str(contract)).code == 3
    assert cli("abandon", "tiny", "--reason", "wrong idea").code == 0
    assert cli("status", "tiny", "--json").json["phase"] == "abandoned"


def test_an_unknown_run_is_refused_with_the_next_step(cli: Cli) -> None:
    for command in (["status", "nobody"], ["events", "nobody"], ["logbook", "nobody"]):
        answer = cli(*command)
        assert answer.code == 3
        assert "watchkeeper status" in answer.err


def test_a_missing_home_says_how_to_make_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["status", "--home", str(tmp_path / "none")]) == 4
    assert "watchkeeper init" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["nonsense"], ["approve"], ["status", "--wrong"], []])
def test_wrong_usage_is_bad_input(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(arguments) == 4
    assert capsys.readouterr().err


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself_and_speaks_json(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([command, "--help"]) == 0
    text = capsys.readouterr().out
    assert "--json" in text
    assert "--home" in text


def test_status_imports_no_client() -> None:
    program = (
        "import sys; from watchkeeper.adapters.cli import run; run(['status', '--help']); "
        "heavy = {'ray', 'gcsfs', 'fsspec', 'wandb', 'numpy', 'google'} & set(sys.modules); "
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("damage", ["garbage", "newer"])
def test_a_ledger_that_cannot_be_used_is_a_sentence(cli: Cli, home: Path, damage: str) -> None:
    ledger = home / "ledger.db"
    if damage == "garbage":
        ledger.write_bytes(b"this is no database" * 1000)
    else:
        _pretend_newer(ledger)
    answer = cli("events", "tiny")
    assert answer.code == 2
    assert answer.err.strip()
    assert cli("verify").code == 1


def _pretend_newer(path: Path) -> None:
    """Write the schema number of a later release, which the store's own triggers forbid."""
    with closing(sqlite3.connect(path)) as connection:
        triggers = connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")
        for (name,) in triggers.fetchall():
            connection.execute(f"DROP TRIGGER {name}")
        connection.execute("UPDATE meta SET value = '999' WHERE name = 'schema'")
        connection.commit()
