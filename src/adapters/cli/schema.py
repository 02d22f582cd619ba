"""`tools schema`: prints the JSON Schemas for programs that read events."""

import json

import click

from watchkeeper.adapters.cli.leaving import Leave, json_errors
from watchkeeper.adapters.cli.options import Group, say
from watchkeeper.adapters.load import load
from watchkeeper.adapters.near import near_names
from watchkeeper.domain.run.registry import type_of
from watchkeeper.projections.published.cloud_event import type_name
from watchkeeper.projections.published.schemas import event_schema


@click.group(cls=Group)
def schema() -> None:
    """Print the schemas of events and observations, for programs; no home is needed."""


@schema.command()
@click.option("--type", "name", metavar="TYPE", help="Print this type's JSON Schema.")
@click.option("--json", "as_json", is_flag=True, help="Print every type with its JSON Schema.")
@json_errors
def events(name: str | None, as_json: bool) -> None:
    """List the event types, or print the JSON Schema of one.

    A schema describes the data of a CloudEvent. A version only ever gains fields. Readers ignore
    fields that they do not know.
    """
    if name is not None:
        click.echo(json.dumps(event_schema(_topic(name)), indent=2, ensure_ascii=False))
        return
    schemas = {type_name(topic): event_schema(topic) for topic in sorted(type_of)}
    width = max(len(one) for one in schemas)
    lines = [f"{one:<{width}}  {found['description']}" for one, found in schemas.items()]
    say(as_json, {"types": schemas}, "\n".join(lines))


@schema.command()
def observation() -> None:
    """Print the JSON Schema of an observation, which a check reads and `tools judge` takes."""
    made = load("observation_schema", "observation_schema")()
    click.echo(json.dumps(made, indent=2, ensure_ascii=False))


def _topic(name: str) -> str:
    """Return the topic of a type, from its published, stored or unversioned name.

    Raises:
        Leave: There is no such type.
    """
    known: dict[str, str] = {}
    for topic in sorted(type_of):
        # The newest of several versions comes last.
        known |= {type_name(topic): topic, topic: topic, topic.rpartition(".")[0]: topic}
    if name in known:
        return known[name]
    near = near_names(name, known)
    hint = f"did you mean {', '.join(near)}?" if near else "see `watchkeeper tools schema events`"
    raise Leave(f"--type {name}: no such event type; {hint}", 4)
