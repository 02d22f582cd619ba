"""Options that commands share, and output. Imports nothing heavy."""

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import click

from watchkeeper.adapters.load import load

HOME_DEFAULT = "~/.watchkeeper"

_WHOLE = 1000
"""More characters than a first sentence has."""

Parameters = ParamSpec("Parameters")
Returned = TypeVar("Returned")


class Group(click.Group):
    """A group whose help shows the first sentence of each command, however long it is."""

    group_class = type

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the names of the commands and what they do."""
        del ctx
        rows = [(name, made.get_short_help_str(_WHOLE)) for name, made in self.commands.items()]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


def home_option(command: Callable[Parameters, Returned]) -> Callable[Parameters, Returned]:
    """Add `--home` and `--json`."""
    command = click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")(
        command
    )
    return click.option(
        "--home",
        envvar="WATCHKEEPER_HOME",
        default=HOME_DEFAULT,
        show_default=True,
        type=click.Path(path_type=Path, file_okay=False),
        is_eager=True,  # `--server` checks whether `--home` was given.
        help="Folder of the ledger (or WATCHKEEPER_HOME).",
    )(command)


def actor_option(command: Callable[Parameters, Returned]) -> Callable[Parameters, Returned]:
    """Add `--as`."""
    return click.option(
        "--as",
        "principal",
        default=None,
        metavar="PRINCIPAL",
        help="Acting principal, as in principals.toml (or WATCHKEEPER_PRINCIPAL, or the OS user).",
    )(command)


def say(as_json: bool, document: dict[str, Any], text: str) -> None:
    """Print a result for a program or for a person."""
    if as_json:
        click.echo(json.dumps(document, ensure_ascii=False))
        return
    show(text)


def show(text: str) -> None:
    """Print a screen: styled at a terminal, plain in a pipe."""
    if sys.stdout.isatty():
        load("cli.terminal", "show_styled")(text)
        return
    click.echo(text)


def screen_width() -> int:
    """Return the columns of the terminal, or of `COLUMNS`; 100 in a pipe."""
    return shutil.get_terminal_size((100, 24)).columns
