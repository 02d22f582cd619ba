"""Completion, by the shells themselves: those that are installed."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

from bench.commands import fill
from tests.every_row import every_row
from tests.missing import cannot_have
from watchkeeper.adapters.cli import COMMANDS, cli, run
from watchkeeper.adapters.cli.completion import NAMES_MAX, NO_RUN, run_names
from watchkeeper.adapters.load import load

# What each shell does for a key, without a terminal: it calls what the script has registered.
ASK = {
    "bash": """
eval "$(watchkeeper tools completion bash)"
complete -p watchkeeper >&2
COMP_WORDS=({words}); COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 )); COMPREPLY=()
_watchkeeper_completion watchkeeper
printf '%s\\n' "${{COMPREPLY[@]}}"
""",
    # Outside of its line editor zsh has no `compadd`; all that it is given is printed.
    "zsh": """
compdef() {{ }}
compadd() {{ print -rl -- ${{(P)argv[-1]}} }}
_describe() {{ print -rl -- ${{${{(P)argv[3]}}%%:*}} }}
eval "$(watchkeeper tools completion zsh)"
words=({words}); CURRENT=$#words
_watchkeeper_completion
""",
    "fish": """
watchkeeper tools completion fish | source
complete -C "{line}"
""",
}

RUNS = 12


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("completion") / "home"
    fill(path, RUNS)
    return path


@pytest.fixture(
    params=["bash", *(pytest.param(shell, marks=pytest.mark.servers) for shell in ("zsh", "fish"))]
)
def shell(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    if shutil.which(name) is None:
        cannot_have(request.config, name, f"{name} is not installed")
    return name


def offered(shell: str, home: Path, *words: str) -> list[str]:
    """What a shell offers for the last of some words."""
    quoted = " ".join(f"'{word}'" for word in words)
    script = ASK[shell].format(words=quoted, line=" ".join(words))
    bare = {"bash": ("--norc", "--noprofile"), "zsh": ("-f",), "fish": ("--no-config",)}[shell]
    done = subprocess.run(
        [shell, *bare, "-c", script],
        env={
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "WATCHKEEPER_HOME": str(home),
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "rror" not in done.stderr, done.stderr
    # Fish adds a description behind a tab.
    return [line.partition("\t")[0] for line in done.stdout.splitlines() if line]


def test_a_shell_completes_a_command(shell: str, home: Path) -> None:
    assert offered(shell, home, "watchkeeper", "st") == ["status", "stop"]
    assert set(offered(shell, home, "watchkeeper", "")) == {
        name.partition(" ")[0] for name in COMMANDS
    }
    assert sorted(offered(shell, home, "watchkeeper", "run", "s")) == ["seal", "supersede"]


def test_a_shell_completes_the_name_of_a_run(shell: str, home: Path) -> None:
    assert offered(shell, home, "watchkeeper", "ack", "run-0001") == ["run-00010", "run-00011"]
    assert len(offered(shell, home, "watchkeeper", "status", "")) == RUNS
    assert offered(shell, home, "watchkeeper", "status", "other") == []
    assert offered(shell, home, "watchkeeper", "run", "seal", "run-0001") == [
        "run-00010",
        "run-00011",
    ]
    after = ("watchkeeper", "watch", "--force", "run-00000", "run-0001")
    assert offered(shell, home, *after) == ["run-00010", "run-00011"]


def test_a_shell_completes_an_option_and_its_values(shell: str, home: Path) -> None:
    assert offered(shell, home, "watchkeeper", "logbook", "--a") == ["--at"]
    told = offered(shell, home, "watchkeeper", "answer", "run-00000", "q-1", "")
    assert sorted(told) == ["leave", "needless", "relaunch"]


def test_the_home_on_the_line_is_the_one_whose_runs_are_offered(
    shell: str, home: Path, tmp_path: Path
) -> None:
    line = ("watchkeeper", "events", "--home", str(home), "run-0000")
    assert len(offered(shell, tmp_path, *line)) == 10


def test_without_a_ledger_nothing_is_offered_and_nothing_is_said(
    shell: str, tmp_path: Path
) -> None:
    assert offered(shell, tmp_path, "watchkeeper", "status", "") == []
    (tmp_path / "ledger.db").write_bytes(b"this is no database" * 1000)
    assert offered(shell, tmp_path, "watchkeeper", "status", "") == []


def test_the_name_of_a_run_is_completed_without_the_models_of_events(home: Path) -> None:
    program = (
        "import sys; from watchkeeper.adapters.cli import run\n"
        "try: run([])\n"
        "finally: print([m for m in sys.modules if m.split('.')[0] in ('pydantic', 'ray')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={
            **os.environ,
            "WATCHKEEPER_HOME": str(home),
            "_WATCHKEEPER_COMPLETE": "bash_complete",
            "COMP_WORDS": "watchkeeper ack run-0001",
            "COMP_CWORD": "2",
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout.splitlines() == ["plain,run-00010", "plain,run-00011", "[]"]


@every_row("name", [name for name in COMMANDS if name not in NO_RUN])
def test_a_command_that_is_completed_with_runs_takes_a_run_first(name: str) -> None:
    command = load(f"cli.{COMMANDS[name]}", name.rpartition(" ")[2])
    first = next(found for found in command.params if isinstance(found, click.Argument))
    assert first.name in ("run", "runs")


def test_at_most_so_many_names_are_offered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path / "home", NAMES_MAX + 1)
    monkeypatch.setenv("WATCHKEEPER_HOME", str(tmp_path / "home"))
    argument = click.Argument(["run"])
    found = run_names(click.Context(cli), argument, "run")
    assert len(found) == NAMES_MAX


def test_an_unknown_shell_is_bad_input(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["tools", "completion", "tcsh"]) == 4
    assert re.search(r"'bash'.*'zsh'.*'fish'", capsys.readouterr().err)
