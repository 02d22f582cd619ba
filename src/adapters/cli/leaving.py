"""How a command ends: a sentence and an exit code. Imports nothing heavy."""

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
    """Ends a command with a sentence and an exit code. `more` is added to the JSON output."""

    def __init__(self, message: str, code: int, more: dict[str, Any] | None = None) -> None:
        """Store the message, the exit code and the extra fields."""
        super().__init__(message)
        self.code = code
        self.more = more or {}


def json_errors(command: Callable[Parameters, Returned]) -> Callable[Parameters, Returned]:
    """Report errors as one JSON object on standard output if `--json` was given."""

    @functools.wraps(command)
    def wrapped(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Returned:
        try:
            return command(*args, **kwargs)
        except Exception as error:
            # The errors of homes and ledgers are imported only here, so a command that opens
            # neither does not pay for the imports.
            known = load("cli.common", "exit_of")(error) if kwargs.get("as_json") else None
            if known is None:
                raise
            message, code = known
            document: dict[str, Any] = {"error": message, "exit": code}
            if isinstance(error, Leave):
                document |= error.more
            if isinstance(error, BadInput):
                document["problems"] = problem_rows(error.problems)
            click.echo(json.dumps(document, ensure_ascii=False))
            leave_quietly(code)

    return wrapped


def leave_quietly(code: int) -> NoReturn:
    """Exit with a code and no further message."""
    raise click.exceptions.Exit(code)
