"""`admin setup`: shows or creates what outside systems need to send signals."""

import re

import click

from watchkeeper.adapters.cli.leaving import Leave, json_errors, leave_quietly
from watchkeeper.adapters.cli.options import Group, say
from watchkeeper.adapters.gcp.commands import making, shell
from watchkeeper.adapters.gcp.plan import Settings, plan
from watchkeeper.adapters.gcp.rendering import as_commands, as_rows, as_text, subject
from watchkeeper.adapters.load import load
from watchkeeper.projections.figures import count

_PROJECT = re.compile(r"[a-z][a-z0-9-]{4,28}[a-z0-9]")
_NAME = re.compile(r"[a-z](?:[a-z0-9-]{0,60}[a-z0-9])?")
_BUCKET = re.compile(r"[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]")
_MEMBER = re.compile(r"(?:serviceAccount|user|group|principal|principalSet):\S+")


@click.group(cls=Group)
def setup() -> None:
    """Set up cloud services that send signals to watchkeeper; no home is needed."""


@setup.command()
@click.option("--project", required=True, help="Id of the Google Cloud project.")
@click.option(
    "--plan", "planning", is_flag=True, help="Show the required resources and their purpose."
)
@click.option(
    "--apply", "applying", is_flag=True, help="Create missing resources; change no existing one."
)
@click.option("--commands", is_flag=True, help="With --plan: print only shell commands.")
@click.option("--bucket", "buckets", multiple=True, help="Bucket with checkpoints; repeatable.")
@click.option(
    "--prefix", "prefixes", multiple=True, help="Prefix of objects in each bucket; repeatable."
)
@click.option(
    "--account", default="", help="Account that the watch runs as: serviceAccount:NAME@..."
)
@click.option(
    "--name", default="watchkeeper", show_default=True, help="Prefix of all resource names."
)
@click.option(
    "--location", default="us-central1", show_default=True, help="Location of the Scheduler job."
)
@click.option(
    "--schedule", default="*/15 * * * *", show_default=True, help="Schedule of the Scheduler job."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
@json_errors
def gcp(
    project: str,
    planning: bool,
    applying: bool,
    commands: bool,
    buckets: tuple[str, ...],
    prefixes: tuple[str, ...],
    account: str,
    name: str,
    location: str,
    schedule: str,
    as_json: bool,
) -> None:
    """Plan or create topics, subscriptions, sinks, notifications, channel, tick and rights.

    --apply creates topics and subscriptions itself. For the rest it shows and runs gcloud commands,
    or prints them if gcloud is not installed. Exit 1 when a resource failed or differs.
    """
    if planning is applying:
        raise Leave("give either --plan, which changes nothing, or --apply", 4)
    if commands and applying:
        raise Leave("--commands goes with --plan", 4)
    buckets = tuple(one.removeprefix("gs://").rstrip("/") for one in buckets)
    settings = Settings(
        project, name, buckets, tuple(prefixes), account, location=location, schedule=schedule
    )
    _check(settings)
    if applying:
        _apply(settings, as_json)
        return
    resources = plan(settings)
    document = {"project": project, "resources": as_rows(settings, resources)}
    text = (as_commands if commands else as_text)(settings, resources)
    say(as_json, document, text)


def _check(settings: Settings) -> None:
    rules = [
        ("--project", (settings.project,), _PROJECT, "a project's id, such as my-project-123"),
        ("--name", (settings.name,), _NAME, "small letters, digits and -, such as watchkeeper"),
        ("--bucket", settings.buckets, _BUCKET, ("a bucket's name; give a path inside it "
                                                 "with --prefix")),
        ("--account", (settings.account,) if settings.account else (), _MEMBER,
         "such as serviceAccount:NAME@PROJECT.iam.gserviceaccount.com"),
    ]  # fmt: skip
    for option, values, form, expected in rules:
        for value in values:
            if not form.fullmatch(value):
                raise Leave(f"{option} {value}: expected {expected}", 4)
    if settings.prefixes and not settings.buckets:
        raise Leave("--prefix needs a bucket: add --bucket", 4)
    for prefix in settings.prefixes:
        if prefix.startswith(("/", "gs://")) or '"' in prefix:
            raise Leave(
                f"--prefix {prefix}: expected a prefix without its bucket, such as checkpoints/",
                4,
            )


def _apply(settings: Settings, as_json: bool) -> None:
    def show(command: str) -> None:
        click.echo(f"$ {command}", err=as_json)

    resources = plan(settings)
    rows: list[dict[str, str]] = []
    to_run: list[str] = []
    for done in load("gcp.applying", "apply")(resources, settings.project, show):
        row = {"what": subject(done.resource), "state": done.state, "says": done.says}
        rows.append(row)
        if done.state == "not run":
            to_run.append(shell(making(done.resource, settings.project), settings.project))
        elif not as_json:
            says = f": {done.says}" if done.says else ""
            click.echo(f"  {done.state:<8} {row['what']}{says}")
    states = [row["state"] for row in rows]
    numbers = {state: states.count(state) for state in dict.fromkeys(states)}
    lines: list[str] = []
    if to_run:
        lines += [
            "",
            "NOT created: gcloud is missing, or Pub/Sub is an emulator. Run these commands:",
        ]
        lines += to_run
        lines.append("")
    lines.append(", ".join(f"{number} {state}" for state, number in numbers.items()))
    if "differs" in states:
        lines.append(
            "Resources that differ were not changed: change them, or choose another --name"
        )
    if "failed" in states:
        lines.append(
            f"{count(states.count('failed'), 'resource')} failed: fix the cause and apply again"
        )
    document = {"project": settings.project, "resources": rows, "to_run": to_run}
    say(as_json, document, "\n".join(lines))
    if {"failed", "differs"} & set(states):
        leave_quietly(1)
