"""The command line as a whole: every command by the same words, options and answers."""

import re
from collections.abc import Iterator

import click
import pytest

from tests.every_row import every_row
from watchkeeper.adapters.cli import behind, cli, run
from watchkeeper.domain.rules.shared.refusals import MISTAKES, Refusal

SHARED = {"--json": ("--json",), "--home": ("--home", "/nowhere"), "--as": ("--as", "ana")}
"""Options that may come before the command, as they are typed."""

SAME_HELP = ("--home", "--as", "--server", "--publish", "--signals")
"""Options that mean one thing in all commands but `demo`, which has its own home and signals."""


def _commands(
    group: click.Group, context: click.Context, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    for name in group.list_commands(context):
        made = group.get_command(context, name)
        assert made is not None
        yield (*path, name), made
        if isinstance(made, click.Group):
            yield from _commands(made, click.Context(made, parent=context), (*path, name))


TOP = click.Context(cli, info_name="watchkeeper", **cli.context_settings)
ALL = {" ".join(path): made for path, made in _commands(cli, TOP)}
LEAVES = {path: made for path, made in ALL.items() if not isinstance(made, click.Group)}


def _options(path: str) -> dict[str, click.Option]:
    made = LEAVES[path].params
    return {name: one for one in made if isinstance(one, click.Option) for name in one.opts}


@every_row("path", ALL)
def test_h_is_help_everywhere_and_no_line_of_it_is_cut(path: str) -> None:
    context = click.Context(cli, **cli.context_settings)
    made: click.Command = cli
    for word in path.split():
        assert isinstance(made, click.Group)
        found = made.get_command(context, word)
        assert found is not None
        made, context = found, click.Context(found, info_name=word, parent=context)
    text = made.get_help(context)
    assert "-h, --help" in text
    listed = text.partition("Commands:")[2]
    assert "..." not in listed


@every_row("path", LEAVES)
def test_shared_options_are_the_same_in_front_of_a_command_and_behind_it(path: str) -> None:
    words = path.split()
    for option in SHARED.keys() & _options(path).keys():
        given = SHARED[option]
        for at in range(len(words)):
            in_front = [*words[:at], *given, *words[at:], "x"]
            assert behind(in_front) == [*words, "x", *given]


@every_row("path", LEAVES)
def test_every_option_explains_itself_and_a_reason_is_called_reason(path: str) -> None:
    for name, option in _options(path).items():
        assert option.help, f"{name} has no help"
        assert name not in ("--note", "--why", "--message", "--comment")


def test_an_option_of_one_name_means_one_thing() -> None:
    for name in SAME_HELP:
        helps = {
            o[name].help for path in LEAVES if path != "demo" and name in (o := _options(path))
        }
        assert len(helps) == 1, name


NEEDING = [path for path, made in LEAVES.items() if any(one.required for one in made.params)]


@every_row("path", NEEDING)
def test_a_missing_argument_is_bad_input_and_names_the_help(
    path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(path.split()) == 4
    said = capsys.readouterr().err
    assert "Error: Missing " in said
    assert f"Try 'watchkeeper {path} --help' for help." in said


@every_row("refusal", [one for one in Refusal if one not in MISTAKES], ids=lambda one: one.name)
def test_every_refusal_names_a_command_that_exists_with_its_options(refusal: Refusal) -> None:
    commands = re.findall(r"`watchkeeper ([^`]+)`", refusal.value)
    assert commands
    for words in (command.split() for command in commands):
        path = next(p for n in (3, 2, 1) if (p := " ".join(words[:n])) in LEAVES)
        assert {word for word in words if word.startswith("--")} <= _options(path).keys()
    assert "--as" not in refusal.value
