"""How a command ends: a sentence and an exit code. Imports nothing heavy."""

import functools
import json
import re
from collections.abc import Callable
from shlex import quote
from typing import Any, NoReturn, ParamSpec, TypeVar

import click

from watchkeeper.adapters.load import load

Parameters = ParamSpec("Parameters")
Returned = TypeVar("Returned")

_NEXT = re.compile(r"(?<=`)watchkeeper [^`]+")
"""The next command in a refusal."""

_KNOWN = {
    "RUN": "run",
    "CONTRACT": "contract",
    "QUESTION": "question",
    "ACTION": "action",
    "TARGET": "target",
    "SHA": "sha",
    "ID": "job",
}
"""Placeholders of next commands, and the arguments that hold their values."""


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
            problems: Any = getattr(error, "problems", None)
            if problems is not None:
                document["problems"] = load("bad_input", "problem_rows")(problems)
            click.echo(json.dumps(document, ensure_ascii=False))
            leave_quietly(code)

    return wrapped


def leave_quietly(code: int) -> NoReturn:
    """Exit with a code and no further message."""
    raise click.exceptions.Exit(code)


def filled_in(sentence: str, slug: str = "") -> str:
    """Return a sentence in whose commands placeholders such as RUN are what was typed.

    Args:
        sentence: The reason of a refusal.
        slug: The run, where the command line does not name it.
    """
    context = click.get_current_context(silent=True)
    known = {**(context.params if context else {}), **({"run": slug} if slug else {})}

    def named(word: str) -> str:
        value = known.get(_KNOWN.get(word, ""))
        return word if value is None else quote(str(value))

    return _NEXT.sub(lambda found: " ".join(map(named, found[0].split(" "))), sentence)
