"""`tools completion`: tab completion of commands, options and run names."""

import os
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import click
from click.shell_completion import CompletionItem, get_completion_class

from watchkeeper.adapters.cli.status import HOME_DEFAULT
from watchkeeper.adapters.cli.storing import store_named
from watchkeeper.adapters.ledger_choice import postgres_part
from watchkeeper.ports.event_store import StoreFailure

NO_RUN = frozenset(
    {
        "init",
        "tools triage",
        "tools judge",
        "tools progress",
        "ledger",
        "doctor",
        "demo",
        "contract",
        "launch",
        "run adopt",
        "serve",
        "tools bridge",
        "admin setup",
        "signals",
        "verify",
        "tools completion",
        "tools subscribe",
        "tools schema",
    }
)
"""Commands whose first argument is not a run."""

NAMES_MAX = 200
"""Most names offered at once: more than a person reads, but few enough to keep the shell fast."""

_BUSY_S = 0.5


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the script that lets SHELL complete commands, options and run names.

    For bash put `eval "$(watchkeeper tools completion bash)"` into ~/.bashrc, for zsh the same with
    zsh into ~/.zshrc. For fish save it as ~/.config/fish/completions/watchkeeper.fish.
    """
    found = get_completion_class(shell)
    assert found is not None, "the three that may be named are click's own"
    complete = found(ctx.find_root().command, {}, "watchkeeper", "_WATCHKEEPER_COMPLETE")
    # Not `source`, because Click would then run bash to check its version.
    click.echo((complete.source_template % complete.source_vars()).strip())


def light(name: str) -> click.Command | None:
    """Return a placeholder for a command whose run is being typed, or `None`.

    Importing the command itself takes half a second, which is too slow for a key press.
    """
    words = os.environ.get("COMP_WORDS", "").split()
    typed = 3 + name.count(" ")
    if name in NO_RUN or len(words) > typed or any(word.startswith("-") for word in words):
        return None
    argument = click.Argument(["run"], shell_complete=run_names)
    return click.Command(name.rpartition(" ")[2], params=[argument])


def complete_runs(command: click.Command) -> None:
    """Add completion to the arguments of a command that name runs."""
    for parameter in command.params:
        if isinstance(parameter, click.Argument) and parameter.name in ("run", "runs"):
            parameter.type = _RunName()


def run_names(
    ctx: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return the home's runs whose names begin with `incomplete`; empty without a home."""
    del parameter
    home = ctx.params.get("home") or os.environ.get("WATCHKEEPER_HOME") or HOME_DEFAULT
    return [CompletionItem(name) for name in _names(Path(str(home)), incomplete)]


class _RunName(click.types.StringParamType):
    """The name of a run. Any text is accepted, because the command reports unknown runs better."""

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        return run_names(ctx, param, incomplete)


def _names(home: Path, beginning: str) -> Sequence[str]:
    chosen = store_named(home)
    if chosen:
        return _names_there(chosen, beginning)
    ledger = home.expanduser() / "ledger.db"
    if not ledger.exists():
        return ()
    uri = f"{ledger.absolute().as_uri()}?mode=ro"
    asked = (
        "SELECT DISTINCT run FROM status WHERE (part = 'run' OR part LIKE 'run@%')"
        " AND run >= ? AND run < ? ORDER BY run LIMIT ?"
    )
    # Slugs are plain ASCII, so the highest code point sorts after all of them.
    values = (beginning, beginning + "\U0010ffff", NAMES_MAX)
    try:
        with closing(sqlite3.connect(uri, uri=True, timeout=_BUSY_S)) as connection:
            return [name for (name,) in connection.execute(asked, values)]
    except sqlite3.Error:
        # Completion shows no errors. `status` reports what is wrong with the ledger.
        return ()


def _names_there(url: str, beginning: str) -> Sequence[str]:
    try:
        part = postgres_part("postgres_rows", "run_names", url)
        found: list[str] = part(url, beginning, NAMES_MAX)
    except StoreFailure:
        # As for the file: `status` reports what is wrong.
        return ()
    return found
