"""The command line: parses, calls, prints. No rule lives here."""

import json
import logging
import os
import sys
from collections.abc import Mapping, Sequence

import click
from click.shell_completion import CompletionItem

from watchkeeper.adapters.cli.leaving import Leave
from watchkeeper.adapters.cli.storing import store_option
from watchkeeper.adapters.load import load

EXIT_DONE = 0
EXIT_BROKEN = 1
EXIT_UNKNOWN = 2
EXIT_REFUSED = 3
EXIT_BAD_INPUT = 4
EXIT_INTERRUPTED = 130
REFUSALS_PAGE = "docs/reference/refusals.md"

COMMANDS = {
    "launch": "launching",
    "approve": "launching",
    "watch": "watching",
    "status": "status",
    "why": "explaining",
    "logs": "logs",
    "answer": "people",
    "ack": "people",
    "events": "reading",
    "logbook": "reading",
    "checkpoints": "checkpoints",
    "note": "people",
    "stop": "people",
    "relaunch": "manoeuvring",
    "init": "setup",
    "doctor": "setup",
    "demo": "demo",
    "serve": "serving",
    "verify": "sealing",
    "run adopt": "manoeuvring",
    "run announce": "handover",
    "run decline": "handover",
    "run handover": "handover",
    "run supersede": "manoeuvring",
    "run abandon": "people",
    "run seal": "sealing",
    "run correct": "people",
    "run revise": "judging",
    "run fix": "judging",
    "run rollback": "manoeuvring",
    "run whatif": "whatif",
    "permit propose": "permitting",
    "permit consent": "permitting",
    "permit waive": "permitting",
    "permit revoke": "permitting",
    "contract": "contract",
    "signals": "signalling",
    "ledger": "ledger",
    "tools bridge": "bridging",
    "tools completion": "completion",
    "tools subscribe": "subscribing",
    "tools schema": "schema",
    "tools triage": "triaging",
    "tools judge": "judging_lines",
    "tools progress": "progressing",
    "admin setup": "provisioning",
}
"""Module of each command, imported when the command is called. `contents.py` has help lines."""

GROUPS = frozenset(name.partition(" ")[0] for name in COMMANDS if " " in name)
"""Groups whose commands are imported one by one. Other groups are one module each."""

COMPLETING = "_WATCHKEEPER_COMPLETE"
"""Environment variable that the shell scripts set when somebody presses tab."""


_MEANT = {
    "ls": "status",
    "list": "status",
    "ps": "status",
    "show": "status",
    "log": "logs",
    "history": "events",
    "resume": "relaunch",
    "restart": "relaunch",
    "kill": "stop",
}
"""Commands of other tools, and ours that does the same."""

_IN_FRONT = {"--json": 1, "--home": 2, "--as": 2}
"""Options that may come before the command, and how many words each has."""

_GROUP_NAMES = GROUPS | {"contract", "signals", "ledger", "bridge", "schema", "setup"}
"""Words after which the name of a command is still to come."""


class _Commands(click.Group):
    """A group of commands. It imports a command's module only when the command is requested."""

    above = ""
    """The group's name and a space, as in the keys of `COMMANDS`; empty at the top."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of the help."""
        del ctx
        inside = [name.removeprefix(self.above) for name in COMMANDS if name.startswith(self.above)]
        return list(dict.fromkeys(name.partition(" ")[0] for name in inside))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of this name, or `None` if there is no such command."""
        del ctx
        name = self.above + cmd_name
        if name in GROUPS:
            about: str = load("cli.contents", "CONTENTS")["Groups"][name]
            group = _Commands(name, help=about)
            group.above = f"{name} "
            return group
        if name not in COMMANDS:
            return None
        if COMPLETING in os.environ:
            stand_in: click.Command | None = load("cli.completion", "light")(name)
            if stand_in is not None:
                return stand_in
        command: click.Command = load(f"cli.{COMMANDS[name]}", cmd_name)
        if COMPLETING in os.environ:
            load("cli.completion", "complete_runs")(command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command, or fail with a suggestion of similar names.

        Click searches only commands that are already loaded, and these are loaded late.
        """
        try:
            return super().resolve_command(ctx, args)
        except click.exceptions.NoSuchCommand as error:
            name = error.command_name
            places = {path.rpartition(" ")[2]: path for path in COMMANDS} | _MEANT
            near = [name] if name in places else load("near", "near_names")(name, places)
            named = dict.fromkeys(repr(places[word]) for word in near)
            meant = f" Did you mean {' or '.join(named)}?" if near else ""
            raise click.UsageError(f"No such command '{name}'.{meant}", ctx) from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands in their sections."""
        del ctx
        contents: Mapping[str, Mapping[str, str]] = load("cli.contents", "CONTENTS")
        if self.above:
            contents = {"Commands": load("cli.contents", "BELOW")[self.above.strip()]}
        for section, lines in contents.items():
            with formatter.section(section):
                formatter.write_dl(list(lines.items()))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return names without help lines, because help lines would import every command."""
        found = [name for name in self.list_commands(ctx) if name.startswith(incomplete)]
        return [*map(CompletionItem, found), *click.Command.shell_complete(self, ctx, incomplete)]


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="watchkeeper", prog_name="watchkeeper")
@store_option
def cli(store: str | None) -> None:
    """Watch training runs: launch, watch, recover and seal them, and keep the record.

    Exit codes: 0 done or intact, 1 broken, 2 cannot tell, 3 refused by a rule, 4 bad input.
    """
    del store  # The code that opens a ledger calls `storing.given_store`.


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and leave with its exit code; no traceback reaches a user."""
    sys.exit(run(arguments))


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    Args:
        arguments: Without the program's name. `None` means the process's own arguments.
    """
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    given = sys.argv[1:] if arguments is None else arguments
    try:
        _expect_text(given)
        answer = cli.main(args=behind(given), prog_name="watchkeeper", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return EXIT_BAD_INPUT
    except click.ClickException as error:
        error.show()
        if "--json" in given:
            # The sentence above is for people. A program reads one JSON object for any error.
            failure = {"error": error.format_message(), "exit": EXIT_BAD_INPUT}
            click.echo(json.dumps(failure, ensure_ascii=False))
        return EXIT_BAD_INPUT
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted; what was recorded stays recorded", err=True)
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader closed our output, as `head` does, so nobody would read a message.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_DONE
    except Exception as error:  # noqa: BLE001 - The last resort: the traceback goes to a file.
        return _fault(error)
    return answer if isinstance(answer, int) else EXIT_DONE


def behind(words: Sequence[str]) -> list[str]:
    """Move the options of `_IN_FRONT` behind the command, whose parser knows them."""
    at, groups, front = 0, list[str](), list[str]()
    while at < len(words):
        name = words[at].partition("=")[0]
        size = 1 if name != words[at] else _IN_FRONT.get(name, 0)
        if name in _GROUP_NAMES:
            groups += words[at : at + 1]
        elif name in _IN_FRONT:
            front += words[at : at + size]
        else:
            break
        at += max(size, 1)
    rest = [*groups, *words[at:]]
    # Words after `--` are no options.
    end = rest.index("--") if "--" in rest else len(rest)
    return [*rest[:end], *front, *rest[end:]]


def _expect_text(arguments: Sequence[str]) -> None:
    """Refuse an argument that is not valid UTF-8, because the ledger keeps only text."""
    for place, word in enumerate(arguments, 1):
        if any("\ud800" <= letter <= "\udfff" for letter in word):
            raise click.UsageError(f"argument {place}, {word!a}: expected UTF-8 text")


def _fault(error: Exception) -> int:
    """Report a failure: a sentence for our own errors, a report file for a bug."""
    known = load("cli.common", "exit_of")(error)
    if known is not None:
        message, code = known
        click.echo(message, err=True)
        if isinstance(error, Leave) and "refusal" in error.more:
            click.echo(f"explained in {REFUSALS_PAGE}#{error.more['refusal'].lower()}", err=True)
        return int(code)
    # Imported late: traceback and tempfile would add a tenth to the run time of `status`.
    click.echo(load("cli.fault", "reported")(error), err=True)
    return EXIT_UNKNOWN
