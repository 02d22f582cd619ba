"""How a command ends: with a sentence and an exit code. Nothing heavy is imported for it."""

import functools
import json
from collections.abc import Callable
from typing import Any, NoReturn, ParamSpec, TypeVar

import click

from watchkeeper.adapters.bad_input import BadInput, problem_rows
from watchkeeper.adapters.load import load

Parameters = ParamSpec("Parameters")
Returned = TypeVar("Returned")


class Leave(Exception):
    """Ends a command with a sentence and an exit code; `more` is told to programs."""

    def __init__(self, message: str, code: int, more: dict[str, Any] | None = None) -> None:
        """Keep all of it."""
        super().__init__(message)
        self.code = code
        self.more = more or {}


def json_errors(command: Callable[Parameters, Returned]) -> Callable[Parameters, Returned]:
    """Tell of errors as one JSON object on standard output when `--json` was given."""

    @functools.wraps(command)
    def wrapped(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Returned:
        try:
            return command(*args, **kwargs)
        except Exception as error:
            # What a home or a ledger can raise is only known where one was opened, so whoever needs
            # neither does not pay for their imports.
            told = load("cli.common", "exit_of")(error) if kwargs.get("as_json") else None
            if told is None:
                raise
            message, code = told
            document: dict[str, Any] = {"error": message, "exit": code}
            if isinstance(error, Leave):
                document |= error.more
            if isinstance(error, BadInput):
                document["problems"] = problem_rows(error.problems)
            click.echo(json.dumps(document, ensure_ascii=False))
            leave_quietly(code)

    return wrapped


def leave_quietly(code: int) -> NoReturn:
    """End with an exit code; what was to be said is said."""
    raise click.exceptions.Exit(code)
