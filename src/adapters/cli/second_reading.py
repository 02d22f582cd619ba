"""`--second-reader` of `watch` and `serve`: who reviews an end. Off by default."""

import os
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import click

from watchkeeper.adapters.cli.leaving import Leave
from watchkeeper.adapters.second_reader import (
    LIMIT_DEFAULT,
    ProgramReader,
    ReaderMistake,
    program_reader,
)

VARIABLE = "WATCHKEEPER_SECOND_READER"
LIMIT_VARIABLE = "WATCHKEEPER_SECOND_READER_LIMIT"

Parameters = ParamSpec("Parameters")
Returned = TypeVar("Returned")


def second_reader_options(
    command: Callable[Parameters, Returned],
) -> Callable[Parameters, Returned]:
    """Add `--second-reader` and its time limit."""
    program = click.option(
        "--second-reader",
        "second_reader",
        default="",
        envvar=VARIABLE,
        metavar="COMMAND",
        help="Program that suggests causes of each failure, such as a language model's "
        f"client; no rule reads them (or {VARIABLE}).",
    )
    limit = click.option(
        "--second-reader-limit",
        "second_reader_limit",
        default=LIMIT_DEFAULT,
        show_default=True,
        envvar=LIMIT_VARIABLE,
        metavar="DURATION",
        help=f"Time limit of the second reader, 1s to 25s (or {LIMIT_VARIABLE}).",
    )
    return program(limit(command))


def reader_of(command: str, limit: str) -> ProgramReader | None:
    """Return the second reader named by options or the environment, by default `None`.

    Raises:
        Leave: An option is not valid.
    """
    try:
        return program_reader(command, limit, os.environ)
    except ReaderMistake as error:
        raise Leave(str(error), 4) from error
