"""Options that commands share, and output. Imports nothing heavy."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import click

HOME_DEFAULT = "~/.watchkeeper"

Parameters = ParamSpec("Parameters")
Returned = TypeVar("Returned")


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
    click.echo(json.dumps(document, ensure_ascii=False) if as_json else text)
