"""`tools bridge`: publishes the state of a Ray cluster to Pub/Sub."""

import json
import os
import re
import sys
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import NoReturn
from urllib.parse import urlsplit

import click

from watchkeeper import clock
from watchkeeper.adapters.cli.leaving import Leave, json_errors
from watchkeeper.adapters.cli.options import Group
from watchkeeper.adapters.cli.watching import stop_signals
from watchkeeper.adapters.ray.bridge import Bridge, Counts, run, run_once
from watchkeeper.adapters.ray.job_poll import Poller
from watchkeeper.adapters.ray.messages import Writer
from watchkeeper.adapters.ray.publishing import TopicPublisher
from watchkeeper.adapters.ray.spool import MESSAGES_MAX, SpoolProblem, open_spool, spool_key
from watchkeeper.adapters.rpc.server import is_loopback
from watchkeeper.domain.values.durations import parse_duration
from watchkeeper.domain.values.secrets.scrubbing import Scrubber, known_secrets
from watchkeeper.projections.figures import count

POLL_MIN = timedelta(seconds=1)
"""Shortest wait between polls. A shorter one would load a busy dashboard too much."""

_TOPIC = re.compile(r"projects/[^/\s]+/topics/[A-Za-z][\w.~+%-]{2,254}")
_CLUSTER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,99}")


@click.group(cls=Group)
def bridge() -> None:
    """Publish a cluster's events to Pub/Sub from a host of the cluster; no home is needed."""


@bridge.command()
@click.option(
    "--address", required=True, metavar="URL", help="The cluster's dashboard: http://HOST:8265."
)
@click.option("--topic", required=True, metavar="TOPIC", help="projects/PROJECT/topics/TOPIC.")
@click.option(
    "--spool",
    "folder",
    required=True,
    type=click.Path(path_type=Path, file_okay=False),
    help="Local folder where messages wait until Pub/Sub confirms them.",
)
@click.option(
    "--cluster",
    default=None,
    metavar="NAME",
    help="The cluster's name in contracts.  [default: the host]",
)
@click.option(
    "--session-dir",
    default=None,
    type=click.Path(path_type=Path, file_okay=False),
    help="Ray's session folder on the head node, such as /tmp/ray/session_latest.",
)
@click.option(
    "--events-port",
    default=None,
    type=click.IntRange(0, 65_535),
    help="Receive Ray's HTTP events on this port; 0 takes any free port.",
)
@click.option(
    "--events-host",
    default="127.0.0.1",
    show_default=True,
    metavar="ADDRESS",
    help="Address to receive events on. Other nodes must reach it. Ray does not authenticate.",
)
@click.option("--poll", "every", default="10s", show_default=True, help="Time between two polls.")
@click.option(
    "--spool-max",
    default=MESSAGES_MAX,
    show_default=True,
    type=click.IntRange(min=100),
    help="Most messages in the spool. Above it, the least valuable are dropped and counted.",
)
@click.option("--once", is_flag=True, help="Poll once, publish what is new, and exit.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
@json_errors
def ray(
    address: str,
    topic: str,
    folder: Path,
    cluster: str | None,
    session_dir: Path | None,
    events_port: int | None,
    events_host: str,
    every: str,
    spool_max: int,
    once: bool,
    as_json: bool,
) -> None:
    """Publish job and node states and events of a Ray cluster until Ctrl-C.

    The account needs roles/pubsub.publisher on the topic, and nothing else. Progress goes to
    standard error.
    """
    name = cluster or urlsplit(address).hostname or ""
    poll_every = _checked(address, topic, name, every)
    if once and events_port is not None:
        raise Leave("--once polls once and receives no events: leave --events-port out", 4)
    if events_port is not None and not is_loopback(events_host):
        click.echo(
            f"--events-host {events_host}: anyone who reaches the port can send events; "
            "admit only the cluster's nodes",
            err=True,
        )
    try:
        with open_spool(folder, messages_max=spool_max) as spool, stop_signals() as stop:
            writer = Writer(name, Scrubber(spool_key(spool), known_secrets(os.environ)))
            poller = Poller(address, spool, writer)
            built = Bridge(spool, writer, poller, TopicPublisher(topic), session_dir, poll_every)
            _report_begin(built, as_json, topic)
            if once:
                _end_once(run_once(built), as_json)
                return
            events = None if events_port is None else (events_host, events_port)
            counts = run(
                built,
                stop,
                lambda counts: _report(counts, as_json),
                events,
                lambda url: _say_listening(url, as_json),
            )
            _report(counts, as_json, "ended")
    except SpoolProblem as error:
        raise Leave(str(error), 2) from error
    except OSError as error:
        hint = "choose another --events-port, or 0 for any free port"
        raise Leave(
            f"{events_host}:{events_port} cannot be listened on ({error}): {hint}", 2
        ) from error


def _checked(address: str, topic: str, name: str, every: str) -> timedelta:
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        _wrong("--address", address, "the cluster's dashboard, such as http://127.0.0.1:8265")
    if parts.username or parts.password:
        raise Leave(
            "--address: expected a URL without user and password, because they would be published",
            4,
        )
    if not _TOPIC.fullmatch(topic):
        _wrong("--topic", topic, "projects/PROJECT/topics/TOPIC")
    if not _CLUSTER.fullmatch(name):
        _wrong("--cluster", name, "letters, digits, dots, colons and hyphens, 100 at most")
    try:
        found = parse_duration(every)
    except ValueError as error:
        raise Leave(f"--poll {every}: {error}", 4) from error
    if found < POLL_MIN:
        _wrong("--poll", every, "1s or more")
    return found


def _wrong(option: str, value: str, expected: str) -> NoReturn:
    raise Leave(f"{option} {value}: expected {expected}", 4)


def _report_begin(built: Bridge, as_json: bool, topic: str) -> None:
    counts = built.counts()
    waits = (
        f"; {count(counts.waiting, 'message')} from an earlier run still to publish"
        if counts.waiting
        else ""
    )
    _say(as_json, "begun", f"bridging {built.poller.address} to {topic}{waits}", asdict(counts))


def _say_listening(url: str, as_json: bool) -> None:
    _say(as_json, "listening", f"receiving Ray's events at {url}", {"url": url})


def _report(counts: Counts, as_json: bool, what: str = "status") -> None:
    text = f"{counts.kept} kept, {counts.published} published, {counts.waiting} waiting"
    if counts.silent:
        text += f"; NO ANSWER from the cluster for {' and '.join(counts.silent)}"
    if counts.unread:
        text += f"; CANNOT READ: {counts.unread}"
    if counts.unpublished:
        text += f"; NOT PUBLISHED: {counts.unpublished}"
    if counts.full:
        text += "; SPOOL FULL: the head node's files wait"
    if counts.lost:
        text += f"; SPOOL FULL: {count(counts.lost, 'message')} dropped"
    _say(as_json, what, text, asdict(counts))


def _end_once(counts: Counts, as_json: bool) -> None:
    _report(counts, as_json, "ended")
    if counts.silent or counts.waiting or counts.unread:
        raise click.exceptions.Exit(2)


def _say(as_json: bool, what: str, text: str, document: dict[str, object]) -> None:
    if as_json:
        line = {"at": clock.now().isoformat(), "bridge": what, **document}
        click.echo(json.dumps(line, ensure_ascii=False))
        sys.stdout.flush()
        return
    click.echo(f"{clock.now():%H:%M:%S} UTC  {text}", err=True)
