"""Renders a plan as text for an administrator, as shell commands and as JSON."""

from collections.abc import Sequence
from itertools import groupby

from pydantic import JsonValue

from watchkeeper.adapters.gcp.commands import making, shell, sink_of
from watchkeeper.adapters.gcp.plan import NUMBER, Resource, Settings

_TITLES = {
    "topic": "Topics",
    "subscription": "Subscriptions",
    "sink": "Logging sinks",
    "notification": "Bucket notifications",
    "channel": "Monitoring channel",
    "tick": "Scheduler job",
    "binding": "Rights, each on one resource",
}

_NOT_SHOWN = frozenset({"bucket", "prefix"})


def as_text(settings: Settings, resources: Sequence[Resource]) -> str:
    """Return the plan for people: the resources, their purpose and their permissions."""
    lines = [
        (f"What project {settings.project} needs to send signals about its runs to watchkeeper:")
    ]
    for kind, several in groupby(resources, key=lambda one: one.kind):
        lines += ["", f"{_TITLES[kind]}:"]
        for one in several:
            lines += _lines_of(one)
    lines += ["", *_notes(settings)]
    return "\n".join(lines)


def as_commands(settings: Settings, resources: Sequence[Resource]) -> str:
    """Return the plan as commands for a shell, one for each resource."""
    return "\n".join(shell(making(one, settings.project), settings.project) for one in resources)


def as_rows(settings: Settings, resources: Sequence[Resource]) -> list[dict[str, JsonValue]]:
    """Return the plan for programs."""
    return [
        {
            "kind": one.kind,
            "name": one.name,
            "why": one.why,
            "settings": dict(one.settings),
            "command": shell(making(one, settings.project), settings.project),
        }
        for one in resources
    ]


def subject(resource: Resource) -> str:
    """Name a resource in a line, such as `topic projects/p/topics/watchkeeper-dead`."""
    if resource.kind != "binding":
        return f"{resource.kind} {resource.name}"
    return f"{resource.settings['role']} on {resource.name} for {_who(resource)}"


def _lines_of(resource: Resource) -> list[str]:
    if resource.kind == "binding":
        line = f"  {resource.settings['role']} on {resource.name}"
        return [line, f"      for {_who(resource)}", f"      {resource.why}"]
    lines = [f"  {resource.name}", f"      {resource.why}"]
    for name, value in resource.settings.items():
        if name not in _NOT_SHOWN:
            lines.append(f"      {name.replace('_', ' ')}: {_value(value)}")
    return lines


def _who(resource: Resource) -> str:
    member = str(resource.settings["member"])
    sink = sink_of(member)
    return f"the account of sink {sink}" if sink else member.replace(NUMBER, "PROJECT_NUMBER")


def _value(value: JsonValue) -> str:
    match value:
        case bool():
            return "yes" if value else "no"
        case list():
            return ", ".join(map(str, value))
        case dict():
            return ", ".join(f"{name}={one}" for name, one in value.items())
        case _:
            return str(value)


def _notes(settings: Settings) -> list[str]:
    names = f"projects/{settings.project}/subscriptions/{settings.name}"
    read = ["dead", "signals"] + (["objects"] if settings.buckets else [])
    options = " ".join(f"--signals {names}-{one}" for one in sorted(read))
    lines = [f"Then: watchkeeper watch {options}"]
    if not settings.buckets:
        lines.append("No bucket is named: add --bucket B --prefix X for signals about checkpoints.")
    if not settings.account:
        lines.append(
            "No account is named: add --account serviceAccount:NAME@PROJECT.iam.gserviceaccount.com"
            " to give the watch its rights."
        )
    return lines
