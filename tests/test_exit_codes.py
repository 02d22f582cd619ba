"""One exit code for each kind of mistake, over all commands that a person can make it with."""

import re
from pathlib import Path

import click
import pytest

from tests.command_line import Cli, launch, written
from tests.stores import Place, tamper
from tests.test_commands import LEAVES
from tests.training import Site, tiny_contract
from watchkeeper.adapters.home import open_home, watch_lock

pytestmark = pytest.mark.git

WHY = ("--reason", "x")
BOT = ("--as", "some-bot")
PLAN = "a" * 12
PAUSE = ("run", "announce", "tiny", "--kind", "pause", "--for")

AGENTS = "an agent where only a human may"

KINDS: dict[str, tuple[int, list[tuple[str, ...]]]] = {
    "a run that is not on record": (
        3,
        [
            ("status", "nobody"), ("events", "nobody"), ("logbook", "nobody"), ("why", "nobody"),
            ("checkpoints", "nobody"), ("note", "nobody", "x"),
            ("run", "correct", "nobody", "1", "x"),
            ("ack", "nobody", "q-1", "--reason", "x"), ("stop", "nobody", *WHY),
            ("relaunch", "nobody", *WHY), ("run", "rollback", "nobody", "--to", "step-3", *WHY),
            ("run", "abandon", "nobody", *WHY), ("permit", "consent", "nobody", "p-1"),
            ("permit", "waive", "nobody", "L13", *WHY), ("permit", "revoke", "nobody", "a-1", *WHY),
            ("run", "seal", "nobody"), ("run", "handover", "nobody", "--to", "dri"),
            ("run", "decline", "nobody", *WHY),
            ("watch", "nobody"), ("approve", "nobody", "--plan", PLAN),
            ("ledger", "replay", "nobody"),
            ("ledger", "export", "-o", "-", "--run", "nobody"), ("signals", "bind", "x", "nobody"),
            ("tools", "subscribe", "--run", "nobody", "--no-follow"), ("logs", "nobody"),
            ("answer", "nobody", "q-1", "relaunch"),
            ("run", "announce", "nobody", "--kind", "pause", "--for", "2h", *WHY),
            ("run", "revise", "nobody", "1", "--cause", "preemption", *WHY),
            ("run", "fix", "nobody", "--sha", "a" * 40, *WHY),
            ("run", "supersede", "nobody", "tiny.yaml", *WHY),
            ("run", "whatif", "nobody", "--policy", "policy.yaml"),
            ("permit", "propose", "nobody", "stop", "i1", *WHY),
        ],
    ),
    "a name or an event that is not on record": (
        3,
        [
            ("why", "tiny", "999"), ("logbook", "tiny", "--at", "999"),
            ("run", "correct", "tiny", "999", "x"), ("ack", "tiny", "q-99", "--reason", "x"),
            ("permit", "consent", "tiny", "p-99"), ("permit", "revoke", "tiny", "a-99", *WHY),
            ("run", "announce", "tiny", "--end", "act-9"), ("signals", "bind", "x-1", "tiny"),
            ("signals", "replay", "quarantine-3"), ("run", "handover", "tiny", "--to", "nobody"),
            ("permit", "waive", "tiny", "L13", *WHY), ("approve", "tiny", "--plan", PLAN),
        ],
    ),
    "a text that is empty": (
        4,
        [
            ("note", "tiny", " "), ("run", "correct", "tiny", "1", " "),
            ("stop", "tiny", "--reason", " "), ("relaunch", "tiny", "--reason", " "),
            ("permit", "waive", "tiny", "L13", "--reason", " "),
            ("run", "decline", "tiny", "--reason", " "), (*PAUSE, "2h", "--reason", " "),
            ("permit", "propose", "tiny", "stop", "i1", "--reason", " "),
            ("run", "seal", "tiny", "--waive", "tracker state", "--reason", " "),
            ("run", "handover", "tiny", "--to", " "), ("watch", "--holder", " "),
        ],
    ),
    "a time, a window or a rule that nobody can mean": (
        4,
        [
            (*PAUSE, "soon", *WHY), (*PAUSE, "99d", *WHY),
            (*PAUSE, "2h", "--from", "2020-01-01T00:00Z", *WHY),
            (*PAUSE, "2h", "--expect", "H99", *WHY),
            ("permit", "waive", "tiny", "L13", "--until", "soon", *WHY),
            ("permit", "waive", "tiny", "L13", "--until", "2020-01-01T00:00Z", *WHY),
            ("run", "rollback", "tiny", "--to", "last", *WHY),
            ("run", "fix", "tiny", "--sha", "x", *WHY),
        ],
    ),
    "a file that is not there": (
        4,
        [
            ("launch", "missing"), ("contract", "check", "missing"), ("tools", "triage", "missing"),
            ("tools", "progress", "missing"), ("run", "whatif", "tiny", "--policy", "missing"),
            ("ledger", "import", "missing"), ("ledger", "restore", "missing"),
            ("ledger", "replay", "--all", "--file", "missing"),
        ],
    ),
    AGENTS: (
        3,
        [
            ("ack", "tiny", "q-1", "--reason", "x", *BOT), ("relaunch", "tiny", *WHY, *BOT),
            ("run", "abandon", "tiny", *WHY, *BOT), ("stop", "tiny", *WHY, *BOT),
            ("permit", "waive", "tiny", "L13", *WHY, *BOT), ("run", "decline", "tiny", *WHY, *BOT),
            (*PAUSE, "2h", *WHY, *BOT), ("watch", "tiny", "--force", *BOT),
            ("signals", "bind", "x-1", "tiny", *BOT), ("signals", "dismiss", "x-1", *WHY, *BOT),
            ("answer", "tiny", "q-1", "relaunch", *BOT), ("approve", "tiny", "--plan", PLAN, *BOT),
            ("run", "adopt", "tiny.yaml", "--submission-id", "x", *BOT),
            ("run", "supersede", "tiny", "tiny.yaml", *WHY, *BOT),
            ("run", "rollback", "tiny", "--to", "step-10", *WHY, *BOT),
            ("run", "revise", "tiny", "9", "--cause", "preemption", *WHY, *BOT),
            ("run", "seal", "tiny", "--waive", "tracker state", *WHY, *BOT),
            ("run", "handover", "tiny", "--to", "dri", "--force", *BOT),
            ("permit", "consent", "tiny", "p-1", *BOT), ("permit", "revoke", "tiny", "a-1", *BOT),
            ("permit", "propose", "tiny", "stop", "i1", *WHY, "--agree", *BOT),
        ],
    ),
}  # fmt: skip


def test_one_kind_of_mistake_has_one_exit_code(
    cli: Cli, site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "policy.yaml").write_text("retries: {budget: 9}\n")
    launch(cli, written(tmp_path, tiny_contract(site, "tiny", die="exit@10")), "tiny")
    assert cli("watch", "--until-idle").code == 0
    answers = {(kind, call): cli(*call) for kind, (_, calls) in KINDS.items() for call in calls}
    wrong = {of: said for of, said in answers.items() if said.code != KINDS[of[0]][0]}
    assert not wrong
    refused = {of: said.err for of, said in answers.items() if said.code == 3}
    silent = {of: said for of, said in refused.items() if "watchkeeper " not in said}
    assert not silent, "a refusal names no command"
    other = re.compile(r"--as\b|PRINCIPAL|principals\.toml")
    agents = {of: said.err for of, said in answers.items() if of[0] == AGENTS}
    assert {of: said for of, said in agents.items() if other.search(said)} == {}
    assert "`watchkeeper note tiny TEXT`" in agents[AGENTS, ("run", "decline", "tiny", *WHY, *BOT)]
    named = {of: said for of, said in refused.items() if "tiny" in of[1]}
    assert {of: said for of, said in named.items() if re.search(r"`watch[^`]* RUN\b", said)} == {}


def test_every_command_of_a_run_is_asked_for_a_run_that_is_not_on_record() -> None:
    asked = KINDS["a run that is not on record"][1]
    of_runs = {
        path
        for path, made in LEAVES.items()
        if {"run", "runs"} & {one.name for one in made.params if isinstance(one, click.Argument)}
    }
    covered = {path for path in of_runs for call in asked if " ".join(call).startswith(f"{path} ")}
    assert covered == of_runs


def test_what_another_process_holds_is_refused_with_one_code(cli: Cli, home: Path) -> None:
    assert cli("ledger", "backup", str(home / "copy")).code == 0
    with watch_lock(open_home(home), "watch"):
        assert cli("watch", "--until-idle").code == 3
        assert cli("ledger", "restore", str(home / "copy")).code == 3


def test_a_broken_ledger_has_the_code_of_a_broken_one_and_a_broken_file_that_of_bad_input(
    cli: Cli, home: Path, site: Site, tmp_path: Path
) -> None:
    copy, ledger = home / "copy", home / "ledger.db"
    cli("launch", written(tmp_path, tiny_contract(site, "tiny")))
    assert cli("ledger", "backup", str(copy)).code == 0
    for path in (copy, ledger):
        tamper(Place(str(path)), "UPDATE events SET state = X'7b7d' WHERE id = 1")
    assert cli("ledger", "restore", str(copy)).code == 4
    assert cli("verify", "--offline").code == 1
    assert cli("ledger", "backup", str(home / "other")).code == 1
