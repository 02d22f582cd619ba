"""Every command, its exit codes and its JSON, in one process and on real parts."""

import contextlib
import json
import logging
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import click
import pytest

from tests.command_line import Cli, launch, written
from tests.every_row import every_row
from tests.stores import ON_FILE, store_at
from tests.test_tailer import damage_events
from tests.training import Site, git, tiny_contract
from watchkeeper import clock
from watchkeeper.adapters.cli import COMMANDS, GROUPS, reading, run
from watchkeeper.adapters.cli.common import open_session
from watchkeeper.adapters.cli.contents import BELOW, CONTENTS
from watchkeeper.adapters.cli.watching import log_to
from watchkeeper.adapters.home import open_home, watch_lock
from watchkeeper.adapters.load import load
from watchkeeper.adapters.store.lock import lock_path
from watchkeeper.domain.run.effects import EffectFailed
from watchkeeper.domain.run.envelope import Undecodable
from watchkeeper.ports.event_store import KeyReused, VersionConflict, Write
from watchkeeper.services.services import SERVICE

pytestmark = pytest.mark.git


@pytest.fixture
def contract(site: Site, tmp_path: Path) -> Path:
    return Path(written(tmp_path, tiny_contract(site, "tiny", steps=60, pace=0.05)))


@pytest.fixture
def launched(cli: Cli, contract: Path) -> str:
    launch(cli, str(contract), "tiny")
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
    with store_at(home) as store:
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


def test_a_changed_contract_of_a_launched_run_is_refused_and_says_how_to_go_on(
    cli: Cli, launched: str, contract: Path
) -> None:
    before = cli("events", launched, "--json").json["events"]
    assert "ALREADY_LAUNCHED" in cli("launch", str(contract)).err
    contract.write_text(contract.read_text().replace("goal: test", "goal: another"))
    refused = cli("launch", str(contract))
    assert refused.code == 3
    assert "CONTRACT_FIXED" in refused.err
    assert "watchkeeper run supersede" in refused.err
    assert cli("events", launched, "--json").json["events"] == before


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
    with store_at(home) as store:
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
    told = [json.loads(line) for line in cli("tools", "subscribe", "--no-follow").out.splitlines()]
    stored = [one for one in told if one["subject"].startswith("runs/tiny/")]
    assert [(row["event_id"], row["data"]) for row in rows] == [
        (one["id"], one["data"]["data"]) for one in stored
    ]
    assert rows[-3:] == cli("events", launched, "--last", "3", "--json").json["events"]
    assert rows[5:] == cli("events", launched, "--after", "5", "--json").json["events"]
    launches = [one for one in rows if one["topic"].startswith("run.launch_")]
    some = ("--type", "run.launch_*", "--since", "1h")
    assert launches == cli("events", launched, *some, "--json").json["events"]
    assert launches[-1:] == cli("events", launched, *some, "--last", "1", "--json").json["events"]
    assert cli("events", launched, "--until", "1h").out == "no events\n"
    assert cli("events", launched, "--errors").out == "no events\n"
    assert cli("events", launched, "--since", "noon").code == 4
    steps = cli("checkpoints", launched, "--json").json["checkpoints"]
    assert [row["step"] for row in steps] == sorted(row["step"] for row in steps)
    state = json.loads((Path(str(cli_home(cli))) / "runs/tiny/monitoring_state.json").read_text())
    assert state["restart_count"] == 0


def test_a_nan_among_the_final_numbers_blocks_no_tag(cli: Cli, site: Site, tmp_path: Path) -> None:
    contract = tiny_contract(site, "tiny").model_copy(update={"env": {"TINY_NAN": "1"}})
    launch(cli, written(tmp_path, contract), "tiny")
    assert cli("watch", "--until-idle", "--json").code == 0
    [verified] = cli("events", "tiny", "--type", "run.seal_verified", "--json").json["events"]
    assert verified["data"]["metrics"]["eval_acc"] != verified["data"]["metrics"]["loss"]
    assert cli("status", "tiny", "--json").json["phase"] == "sealed"


def test_checkpoints_shows_what_stands_against_each(
    cli: Cli, launched: str, site: Site, tmp_path: Path
) -> None:
    wrong = Path(cli("checkpoints", launched, "--json").json["root"]) / "step-5"
    wrong.mkdir(parents=True)
    (wrong / "metadata.json").write_text('{"step": 4, "is_temporary": false}')
    assert cli("watch", "--until-idle", "--json").code == 0
    text = cli("checkpoints", launched, "--no-sizes").out
    assert re.search(
        "step-5 +permanent +complete +REJECTED +own .* its metadata names step 4", text
    )
    restarts = re.findall(r"step-(\d+) +permanent +complete +validated .* next restart", text)
    assert restarts == [max(re.findall(r"step-(\d+) .* validated", text), key=int)]
    shutil.rmtree(wrong)
    listed = cli("checkpoints", launched, "--json").json
    newest = listed["checkpoints"][-1]
    folder = Path(newest["path"])
    assert newest["size_bytes"] == sum(p.stat().st_size for p in folder.rglob("*") if p.is_file())
    assert (newest["validated"], newest["lineage"], newest["size_cut"]) == (True, "own", "")
    assert newest["instance"]
    assert 0 <= newest["age_s"] < 300
    assert cli("checkpoints", launched, "--no-sizes", "--json").json["checkpoints"][-1][
        "size_bytes"
    ] is None  # fmt: skip
    half = Path(listed["root"]) / "step-70"
    half.mkdir()
    (half / "shard-0").write_bytes(b"x" * 1500)
    other = Path(listed["root"]) / "step-80"
    shutil.copytree(folder, other)
    os.utime(other / "metadata.json", (1_000_000_000, 1_000_000_000))
    shutil.rmtree(folder)
    rows = {row["step"]: row for row in cli("checkpoints", launched, "--json").json["checkpoints"]}
    assert rows[70]["reason"] == "no metadata.json"
    assert rows[70]["size_bytes"] == 1500
    assert rows[80]["lineage"] == "older"
    assert rows[80]["reason"] == f"its metadata names step {newest['step']}"
    assert not rows[80]["validated"]
    assert rows[newest["step"]]["reason"].endswith("now missing")
    text = cli("checkpoints", launched).out
    assert re.search(r"step-70 +unknown +INCOMPLETE +not validated +own +1\.5 kB", text)


def cli_home(cli: Cli) -> str:
    home: str = cli("init", "--json").json["home"]
    return home


def test_people_can_note_correct_stop_and_acknowledge(cli: Cli, launched: str) -> None:
    assert cli("note", launched, "looks slow").code == 0
    seq = cli("events", launched, "--json").json["events"][-1]["seq"]
    assert cli("run", "correct", launched, str(seq), "it was fast").code == 0
    assert cli("run", "correct", launched, "9999", "no").code == 3
    assert cli("ack", launched, "q-7").code == 3
    early = cli("run", "seal", launched)
    assert (early.code, "--milestone step-N" in early.err) == (3, True)
    stopped = cli("stop", launched, "--reason", "enough")
    assert stopped.code == 0
    assert re.match(rf"{launched}: its job is being stopped \(event \d+\); ", stopped.out)
    watched = cli("watch", "--until-idle")
    assert watched.code == 0
    # What was recorded meanwhile is told as it comes.
    assert re.search(rf"^\d\d:\d\d:\d\d UTC  {launched}  event \d+: .*stopped", watched.out, re.M)
    assert cli("status", launched, "--json").json["phase"] == "stopped"
    assert cli("run", "abandon", launched, "--reason", "x").code == 3
    assert cli("run", "seal", launched).code == 3


def test_a_run_can_be_abandoned_before_launch(cli: Cli, contract: Path) -> None:
    assert cli("launch", str(contract)).code == 3
    assert cli("run", "abandon", "tiny", "--reason", "wrong idea").code == 0
    assert cli("status", "tiny", "--json").json["phase"] == "abandoned"


def test_an_unknown_run_is_refused_with_the_next_step(cli: Cli) -> None:
    for command in (["status", "nobody"], ["events", "nobody"], ["logbook", "nobody"]):
        answer = cli(*command)
        assert answer.code == 3
        assert "watchkeeper status" in answer.err


def test_every_human_that_init_is_told_is_listed(cli: Cli) -> None:
    listed = cli("init", "--human", "ana", "--human", "ben", "--json").json["humans"]
    assert {"ana", "ben"} <= set(listed)


def test_a_missing_home_says_how_to_make_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["status", "--home", str(tmp_path / "none")]) == 4
    assert "watchkeeper init" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["nonsense"], ["approve"], ["status", "--wrong"], []])
def test_wrong_usage_is_bad_input(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(arguments) == 4
    assert capsys.readouterr().err


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["status", "\udcff"], "UTF-8"),
        (["status", "--server", "http://[::1"], "expected a URL"),
        (["init", "--home", "/proc/x"], "no home can be created at /proc/x"),
        (["contract", "check", "/dev/zero"], "found a device or pipe"),
    ],
)
def test_odd_input_is_one_sentence_and_no_bug(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 4
    said = capsys.readouterr().err
    assert says in said
    assert "internal error" not in said


@pytest.mark.parametrize("arguments", [["approve"], ["status", "--wrong"], ["nonsense"]])
def test_wrong_usage_is_told_to_programs_too(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*arguments, "--json"]) == 4
    told = json.loads(capsys.readouterr().out)
    assert told["exit"] == 4
    assert told["error"]


# What `completion` prints is a script for a shell, of the program and not of a home.
@every_row("command", [name for name in COMMANDS if name != "tools completion"])
def test_every_command_explains_itself_and_speaks_json(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*command.split(), "--help"]) == 0
    text = capsys.readouterr().out
    made = load(f"cli.{COMMANDS[command]}", command.rpartition(" ")[2])
    if isinstance(made, click.Group):
        # Some groups need no home; each of their commands speaks JSON.
        for words in _below(made, (*command.split(),)):
            assert run([*words, "--help"]) == 0
            said = capsys.readouterr().out
            assert "--json" in said or words == ("tools", "schema", "observation"), words
        return
    assert "--json" in text
    assert "--home" in text or command in HOMELESS


def test_the_help_lists_every_command_once_and_whole(capsys: pytest.CaptureFixture[str]) -> None:
    top = [name for lines in CONTENTS.values() for name in lines]
    below = [f"{group} {name}" for group, lines in BELOW.items() for name in lines]
    assert sorted([*top, *below]) == sorted({*COMMANDS, *GROUPS})
    assert len(top) <= TOP_MAX
    pages = {(): CONTENTS} | {(group,): {"Commands": lines} for group, lines in BELOW.items()}
    for words, contents in pages.items():
        assert run([*words, "--help"]) == 0
        shown(contents, capsys.readouterr().out)


def shown(contents: Mapping[str, Mapping[str, str]], text: str) -> None:
    for section, lines in contents.items():
        assert f"\n{section}:\n" in text
        for name, line in lines.items():
            assert re.search(rf"^  {name} +{re.escape(line)}$", text, re.MULTILINE), line


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("ls", "status"),
        ("list", "status"),
        ("log", "logs"),
        ("restart", "relaunch"),
        ("stat", "status"),
        ("adopt", "run adopt"),
        ("propose", "permit propose"),
        ("abandn", "run abandon"),
        ("run watch", "watch"),
        ("permit adopt", "run adopt"),
    ],
)
def test_an_unknown_command_names_the_one_that_was_meant(
    words: str, meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*words.split()]) == 4
    assert f"Did you mean '{meant}'" in capsys.readouterr().err


def test_options_of_every_command_may_come_in_front(cli: Cli, home: Path) -> None:
    behind = cli("doctor", "--json", "--home", str(home))
    for front in (("--json", "--home", str(home)), (f"--home={home}", "--json")):
        answer = cli(*front, "doctor")
        assert (answer.code, answer.json.keys()) == (behind.code, behind.json.keys())
    noted = cli("--as", "dri", "note", "tiny", "--", "--json is a word here")
    assert (noted.code, "RUN_UNKNOWN" in noted.err) == (3, True)


def test_h_is_help_everywhere(capsys: pytest.CaptureFixture[str]) -> None:
    for words in ([], ["status"], ["ledger"], ["ledger", "export"]):
        assert run([*words, "-h"]) == 0
        assert "-h, --help" in capsys.readouterr().out


def test_the_help_imports_no_client() -> None:
    program = (
        "import sys; from watchkeeper.adapters.cli import run; run(['--help'])\n"
        "print({m.split('.')[0] for m in sys.modules} & {'ray', 'google', 'wandb', 'pydantic'})"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.endswith("\nset()\n")


TOP_MAX = 27
"""Most names that `--help` may list."""

HOMELESS = frozenset({"tools triage", "tools judge", "tools progress"})
"""What reads texts from anywhere, and keeps nothing."""


def _below(group: click.Group, words: tuple[str, ...]) -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = []
    for name, made in group.commands.items():
        inner = _below(made, (*words, name)) if isinstance(made, click.Group) else [(*words, name)]
        found += inner
    return found


@ON_FILE
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


def start(cli: Cli, site: Site, tmp_path: Path, *, seals: bool = True, **tiny: Any) -> str:
    """Launch a tiny run by commands; it is watched by whoever watches next."""
    made = tiny_contract(site, "tiny", **tiny)
    made = made.model_copy(update={"seal": made.seal.model_copy(update={"auto": seals})})
    path = written(tmp_path, made)
    plan = cli("launch", path, "--json").json["plan"]
    assert cli("approve", "tiny", "--plan", plan, "--json").json["plan"] == plan
    assert cli("launch", path, "--json").code == 0
    return "tiny"


def test_an_answer_relaunches_after_a_crash_loop(cli: Cli, site: Site, tmp_path: Path) -> None:
    slug = start(cli, site, tmp_path, die="always@20")
    assert cli("watch", "--until-idle").code == 0
    assert cli("status", slug, "--json").json["phase"] == "interrupted"
    taken = cli("ack", slug, "q-1", "--reason", "looking", "--json")
    assert [row["topic"] for row in taken.json["recorded"]] == ["run.question_taken.1"]
    [asked] = cli("status", slug, "--json").json["questions"]
    assert asked["taken"][0] == "dri"
    shown = cli("status", slug).out
    assert "dri works on it since" in shown
    assert f"watchkeeper answer {slug} q-1 relaunch" in shown
    without = cli("answer", slug, "q-1", "leave")
    assert (without.code, "--reason: expected why" in without.err) == (4, True)
    answered = cli("answer", slug, "q-1", "relaunch", "--reason", "once more", "--json")
    assert answered.code == 0, answered.out
    assert answered.json["recorded"]
    topics = [row["topic"] for row in cli("events", slug, "--json").json["events"]]
    assert sum(topic.startswith("run.instance_launched") for topic in topics) == 3, topics


def test_a_run_that_does_not_seal_itself_is_sealed_by_command(
    cli: Cli, home: Path, site: Site, tmp_path: Path
) -> None:
    slug = start(cli, site, tmp_path, seals=False)
    assert cli("watch", "--until-idle").code == 0
    assert cli("status", slug, "--json").json["phase"] == "finished"
    with open_session(home) as session:
        # As a watch leaves it that saw no tracker; what was tried again by hand is through.
        later = clock.now() + timedelta(hours=1)
        failed = EffectFailed(effect="seal", attempt=1, reason="no answer", retry_at=later)
        session.ledger.record_effects(slug, [failed], SERVICE)
    sealed = cli("run", "seal", slug, "--json")
    assert sealed.code == 0, sealed.out
    assert sealed.json["phase"] == "sealed"
    assert "did not get through" not in sealed.json["says"]
    assert git(site.remote, "cat-file", "-t", "run/tiny/final").strip() == "tag"


def test_a_human_takes_a_watch_by_force(cli: Cli, launched: str) -> None:
    assert cli("watch", launched, "--force", "--as", "some-bot").code == 3
    assert cli("watch", launched, "--force", "--until-idle", "--json").json["watched"] == [launched]
    assert cli("status", launched, "--json").json["phase"] == "sealed"


def test_people_and_readers_speak_json(cli: Cli, launched: str, contract: Path) -> None:
    for command in (
        ["note", launched, "slow"],
        ["run", "correct", launched, "1", "another"],
        ["stop", launched, "--reason", "enough"],
    ):
        answer = cli(*command, "--json")
        assert answer.code == 0, answer.out
        assert answer.json["recorded"], command
    assert cli("logbook", launched, "--json").json["markdown"].startswith("# tiny")
    assert {row["check"] for row in cli("doctor", "--json").json["checks"]} >= {"ledger", "watch"}
    contract.write_text(contract.read_text().replace("run: tiny", "run: other"))
    assert cli("launch", str(contract)).code == 3
    assert cli("run", "abandon", "other", "--reason", "wrong", "--json").json["recorded"]


def test_a_watch_of_an_unknown_run_is_refused(cli: Cli) -> None:
    answer = cli("watch", "no-such-run", "--until-idle")
    assert answer.code == 3
    assert "RUN_UNKNOWN" in answer.err


@pytest.mark.parametrize(
    "words",
    [
        ("events", "tinny"), ("why", "tinny"), ("status", "tinny"), ("note", "tinny", "a word"),
        ("ledger", "export", "--run", "tinny"), ("ledger", "replay", "tinny"),
        ("watch", "tinny", "--until-idle"), ("run", "abandon", "tinny", "--reason", "wrong"),
    ],
)  # fmt: skip
def test_of_an_unknown_run_the_names_that_are_near_are_told(
    cli: Cli, contract: Path, words: tuple[str, ...]
) -> None:
    assert cli("launch", str(contract)).code == 3
    answer = cli(*words)
    assert answer.code in (3, 4)
    assert "Did you mean tiny?" in answer.err


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (("stauts",), "Did you mean 'status'?"),
        (("lauch", "runs/my-run.yaml"), "Did you mean 'launch' or 'relaunch'?"),
        (("ledger", "expotr"), "Did you mean 'export'?"),
        (("status", "--jsno"), "Did you mean '--json'?"),
        (("--stroe", "x", "status"), "Did you mean '--store'?"),
        (("xyzzy",), "No such command 'xyzzy'.\n"),
    ],
)
def test_a_mistyped_command_or_option_is_told_with_what_may_be_meant(
    cli_without_home: Cli, words: tuple[str, ...], meant: str
) -> None:
    answer = cli_without_home(*words)
    assert answer.code == 4
    assert meant in answer.err
    assert json.loads(cli_without_home(*words, "--json").out)["exit"] == 4


def test_a_watch_acts_for_every_run_of_the_home(cli: Cli, contract: Path) -> None:
    assert cli("launch", str(contract)).code == 3
    contract.write_text(contract.read_text().replace("run: tiny", "run: other"))
    assert cli("launch", str(contract)).code == 3
    assert "the watch over 2 runs has ended" in cli("watch", "tiny", "--until-idle").out


def test_a_command_waits_for_another_one_and_then_acts(
    cli: Cli, contract: Path, home: Path
) -> None:
    assert cli("launch", str(contract)).code == 3
    released = threading.Event()
    held = threading.Event()

    def hold() -> None:
        with watch_lock(open_home(home), "command"):
            held.set()
            released.wait(60)

    other = threading.Thread(target=hold)
    other.start()
    assert held.wait(60)
    assert "no watch runs" in cli("doctor").out
    threading.Timer(0.5, released.set).start()
    answer = cli("note", "tiny", "said")
    other.join()
    assert "carried out" in answer.out
    with watch_lock(open_home(home), "watch"):
        assert "carries it out" in cli("note", "tiny", "said").out
        assert "a watch runs" in cli("doctor").out
        refused = cli("watch", "--until-idle")
        assert refused.code == 3
        assert "(watch " in refused.err


def test_verify_cannot_tell_of_what_a_later_release_wrote(
    cli: Cli, contract: Path, home: Path
) -> None:
    assert cli("launch", str(contract)).code == 3
    with store_at(home) as store:
        version, _ = store.head("run/tiny")
        state = store.read("run/tiny")[-1].state
        store.append([Write("run/tiny", version, (("run.note_added.9", state),))])
    told = cli("verify", "--offline", "--json")
    assert told.code == 2
    assert told.json["problems"] == []
    assert "newer than this code" in told.json["unchecked"][0]


@ON_FILE
def test_verify_cannot_tell_of_a_copy_that_cannot_be_opened(cli: Cli, home: Path) -> None:
    # As in a folder that may not be written, where root, who may run this, could write all the
    # same: the store's lock file can't be made.
    lock = lock_path(home / "ledger.db")
    lock.unlink()
    lock.symlink_to(home / "missing" / "lock")
    told = cli("verify", "--json")
    assert told.code == 2
    assert told.json["problems"] == []
    assert told.json["unchecked"]


@ON_FILE
def test_doctor_finds_a_damaged_ledger(cli: Cli, contract: Path, home: Path) -> None:
    assert cli("launch", str(contract)).code == 3
    damage_events(home / "ledger.db")
    told = cli("doctor", "--json")
    assert told.code == 1
    [ledger] = [row for row in told.json["checks"] if row["check"] == "ledger"]
    assert ledger["ok"] is False
    assert "watchkeeper verify" in ledger["says"]


@ON_FILE
def test_doctor_on_a_full_disk_says_to_check_the_disk_and_advises_no_backup(
    cli: Cli, contract: Path, home: Path
) -> None:
    assert cli("launch", str(contract)).code == 3
    # The limit on file sizes fails as a full disk does, and needs no rights.
    program = Path(sys.executable).with_name("watchkeeper")
    limited = ["sh", "-c", f"ulimit -f 0; exec {program} doctor --json --home {home}"]
    told = subprocess.run(limited, capture_output=True, text=True, timeout=60, check=False)
    assert told.returncode == 1, told.stderr
    [ledger] = [row for row in json.loads(told.stdout)["checks"] if row["check"] == "ledger"]
    assert not ledger["ok"]
    assert "disk I/O error. Nothing was stored. Check the disk, its quota" in ledger["says"]
    assert "backup" not in ledger["says"]
    assert cli("doctor").code == 0


@ON_FILE
def test_doctor_finds_a_changed_byte_that_sqlite_reads_over(
    cli: Cli, contract: Path, home: Path
) -> None:
    assert cli("launch", str(contract)).code == 3
    path = home / "ledger.db"
    whole = path.read_bytes()
    assert whole.count(b'"tiny"') > 0
    path.write_bytes(whole.replace(b'"tiny"', b'"tinY"'))
    assert cli("verify", "--offline").code == 1
    told = cli("doctor", "--json")
    assert (told.code, told.json["well"]) == (1, False)
    checks = {row["check"]: row for row in told.json["checks"]}
    assert not checks["ledger"]["ok"]
    assert "another program changed a byte" in checks["ledger"]["says"]
    assert checks["humans"]["ok"]


@pytest.mark.parametrize(
    ("error", "code"), [(Undecodable("x"), 2), (VersionConflict("x"), 2), (KeyReused("x"), 3)]
)
def test_every_known_error_is_json_for_programs(
    cli: Cli, error: Exception, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Thrown by hand: none of them can be had from one command alone.
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(reading, "known_run", fail)
    told = cli("events", "tiny", "--json")
    assert (told.code, told.json["exit"]) == (code, code)


def test_a_bug_is_told_where_its_description_cannot_be_written(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(reading, "known_run", fail)
    monkeypatch.setattr(tempfile, "gettempdir", lambda: "/nonexistent")
    told = cli("events", "tiny")
    assert told.code == 2
    assert "internal error: RuntimeError: a bug" in told.err
    assert "could not be written" in told.err


def test_a_full_disk_below_the_watch_log_is_one_sentence(
    cli: Cli, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli("doctor").code == 0
    (home / "watch.log").symlink_to("/dev/full")
    root = logging.getLogger("watchkeeper")
    before = list(root.handlers)
    with open_session(home) as session:
        log_to(session)
        root.error("first")
        root.error("second")
    for handler in set(root.handlers) - set(before):
        root.removeHandler(handler)
        # What it could not write is tried once more when it closes.
        with contextlib.suppress(OSError):
            handler.close()
    said = capsys.readouterr().err
    assert "Traceback" not in said
    assert said.count("cannot be written") == 1


def test_no_secret_of_an_outside_answer_reaches_the_watch_log(cli: Cli, home: Path) -> None:
    assert cli("status").code == 0
    secret = "0123456789abcdef" * 2 + "01234567"
    root = logging.getLogger("watchkeeper")
    before = (root.level, root.propagate)
    with open_session(home) as session:
        log_to(session)
        try:
            logging.getLogger("watchkeeper.services.watch.actions").warning(
                "failed: WANDB_API_KEY=%s", secret
            )
        finally:
            root.handlers.pop().close()
            root.level, root.propagate = before
        text = session.home.watch_log.read_text()
    assert "failed: WANDB_API_KEY=" in text
    assert secret not in text


def test_a_launch_that_the_orchestrator_refuses_says_why_and_is_no_success(
    cli: Cli, site: Site, tmp_path: Path
) -> None:
    wrong = tiny_contract(site, "nowhere").model_copy(update={"command": ("/no/such/program",)})
    path = written(tmp_path, wrong)
    plan = cli("launch", path, "--json").json["plan"]
    assert cli("approve", "nowhere", "--plan", plan).code == 0
    refused = cli("launch", path)
    assert refused.code == 3
    assert "/no/such/program" in refused.out
    assert "NOT LAUNCHED" in refused.out


def test_an_approval_covers_every_word_of_the_contract(cli: Cli, contract: Path) -> None:
    plan = cli("launch", str(contract), "--json").json["plan"]
    text = contract.read_text()
    assert "dri: dri" in text
    contract.write_text(text.replace("dri: dri", "dri: eve"))
    assert cli("launch", str(contract), "--as", "some-bot", "--json").json["plan"] != plan
    assert cli("approve", "tiny", "--plan", plan).code == 3


@ON_FILE
def test_a_ledger_that_was_changed_at_rest_is_refused_before_a_write_hides_it(
    cli: Cli, launched: str, home: Path
) -> None:
    content = bytearray((home / "ledger.db").read_bytes())
    content[5000] ^= 1
    (home / "ledger.db").write_bytes(bytes(content))
    assert cli("note", launched, "hello").code == 2
    assert cli("verify").code == 1
