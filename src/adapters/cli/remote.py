"""`--server`: query a `watchkeeper serve`, not a home. Imports clients late."""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

import click
from click.core import ParameterSource

from watchkeeper.adapters.cli.leaving import Leave, filled_in

Parameters = ParamSpec("Parameters")
Returned = TypeVar("Returned")


TOKEN_VARIABLE = "WATCHKEEPER_TOKEN_FILE"
"""Variable that names the file with the server's token. The default is the home's `rpc-token`."""


class ServerSaid(Leave):
    """A server refused, or gave no usable answer.

    Args:
        message: The reason in a sentence.
        code: The exit code for it.
    """

    def __init__(self, message: str, code: int) -> None:
        """Store the message, the code and the name of a refusal."""
        refused = message.partition("refused (")[2].partition(")")[0]
        super().__init__(filled_in(message), code, {"refusal": refused} if refused else None)


def server_option(command: Callable[Parameters, Returned]) -> Callable[Parameters, Returned]:
    """Add `--server`."""
    return click.option(
        "--server",
        envvar="WATCHKEEPER_SERVER",
        default=None,
        metavar="URL",
        callback=_unless_a_home_is_named,
        help="Ask `watchkeeper serve` at this URL, not a home (or WATCHKEEPER_SERVER).",
    )(command)


def _unless_a_home_is_named(
    ctx: click.Context, parameter: click.Parameter, value: str | None
) -> str | None:
    """Ignore a server in the environment if the command line names a home."""
    assert parameter.name is not None, "every option has a name"
    source = ctx.get_parameter_source(parameter.name)
    named = ctx.get_parameter_source("home") is ParameterSource.COMMANDLINE
    if value and named and source is ParameterSource.COMMANDLINE:
        raise click.UsageError("--server and --home exclude each other: give one of them")
    return None if named else value or None
