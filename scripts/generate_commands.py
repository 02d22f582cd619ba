"""Writes docs/reference/commands.md from the command line's own help.

    uv run python scripts/generate_commands.py [--check]

`--check` writes nothing, and fails when the page is out of date.
"""

import argparse
import sys
from pathlib import Path

import click

from watchkeeper.adapters.cli import cli

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "commands.md"
WIDTH = 100

INTRODUCTION = """\
# Commands

Generated from the code by `scripts/generate_commands.py`; do not edit.

| group | commands |
|---|---|
| set up | [init](#init), [doctor](#doctor), [demo](#demo) |
| launch and watch | [launch](#launch), [approve](#approve), [watch](#watch) |
| read | [status](#status), [events](#events), [logbook](#logbook), [checkpoints](#checkpoints) |
| say | [note](#note), [correct](#correct) |
| decide | [ack](#ack), [stop](#stop), [abandon](#abandon) |
| close and prove | [seal](#seal), [verify](#verify) |

Exit codes: 0 done or intact, 1 broken, 2 cannot tell, 3 refused by a rule, 4 bad input, 130
interrupted. With `--json`, a command prints one JSON object on standard output.
"""


def page() -> str:
    """Return the page as it should be."""
    parent = click.Context(cli, info_name="watchkeeper", terminal_width=WIDTH)
    parts = [INTRODUCTION]
    for name in cli.list_commands(parent):
        command = cli.get_command(parent, name)
        assert command is not None, f"{name} is listed and cannot be had"
        context = click.Context(command, parent=parent, info_name=name, terminal_width=WIDTH)
        parts.append(f"## {name}\n\n```text\n{command.get_help(context)}\n```\n")
    return "\n".join(parts)


def main() -> int:
    """Write the page, or say whether it is current."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--check", action="store_true", help="fail when the page is out of date")
    options = parser.parse_args()
    wanted = page()
    if not options.check:
        PAGE.parent.mkdir(parents=True, exist_ok=True)
        PAGE.write_text(wanted, encoding="utf-8")
        return 0
    if PAGE.exists() and PAGE.read_text(encoding="utf-8") == wanted:
        return 0
    print(f"{PAGE} is out of date: run `uv run python scripts/generate_commands.py`")
    return 1


if __name__ == "__main__":
    sys.exit(main())
