"""`contract`: create and check a contract, and print its schema for editors."""

import json
from pathlib import Path
from typing import Any

import click

from watchkeeper.adapters.cli.leaving import Leave, json_errors
from watchkeeper.adapters.cli.options import Group, say
from watchkeeper.adapters.contracts.example import FILL_IN, example_contract
from watchkeeper.adapters.contracts.file import read_contract
from watchkeeper.adapters.contracts.schema import contract_schema
from watchkeeper.domain.values.contract.contract import Lane

_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
_LANES = click.Choice([lane.value for lane in Lane])


@click.group(cls=Group)
def contract() -> None:
    """Write a contract, or check one; no home is needed."""


@contract.command()
@click.option(
    "--lane",
    type=_LANES,
    default=Lane.ORDINARY.value,
    show_default=True,
    help="Lane of the example.",
)
@click.argument("file", type=click.Path(path_type=Path), required=False)
@_JSON
@json_errors
def new(lane: str, file: Path | None, as_json: bool) -> None:
    """Write a commented example to FILE, or print it. An existing file is never overwritten."""
    text = example_contract(Lane(lane))
    if file is None:
        say(as_json, {"lane": lane, "text": text}, text.rstrip("\n"))
        return
    if file.suffix.lower() not in (".yaml", ".yml"):
        raise Leave(f"{file}: expected a name that ends in .yaml or .yml", 4)
    try:
        with file.open("x", encoding="utf-8") as made:
            made.write(text)
    except FileExistsError as error:
        raise Leave(f"{file} already exists and is not overwritten: choose another name", 4) from (
            error
        )
    except OSError as error:
        raise Leave(f"{file} cannot be written: {error.strerror}", 4) from error
    says = f"wrote {file}: replace each {FILL_IN}, then: watchkeeper contract check {file}"
    say(as_json, {"lane": lane, "file": str(file), "says": says}, says)


@contract.command()
@click.argument("file", type=click.Path(path_type=Path))
@_JSON
@json_errors
def check(file: Path, as_json: bool) -> None:
    """Report every error in FILE with its line. Exit 4 when there is one."""
    found = read_contract(file)
    document: dict[str, Any] = {"file": str(file), "run": found.run, "lane": found.lane.value}
    text = f"{file}: a valid contract of {found.run} ({found.lane.value}). Next: "
    say(as_json, {**document, "ok": True}, f"{text}watchkeeper launch {file} --dry-run")


@contract.command()
@_JSON
@json_errors
def schema(as_json: bool) -> None:
    """Print the JSON Schema of contracts, for editors such as yaml-language-server."""
    made = contract_schema()
    text = json.dumps(made, indent=2, ensure_ascii=False)
    say(as_json, made, text)
