"""`events` and `logbook`: what is known, for people and programs."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

import click

from watchkeeper import clock
from watchkeeper.adapters.cli.leaving import Leave, json_errors
from watchkeeper.adapters.cli.options import home_option, say
from watchkeeper.adapters.cli.reader import known_run, open_reader
from watchkeeper.adapters.cli.remote import server_option
from watchkeeper.adapters.load import load
from watchkeeper.domain.run.run import Run, contract_of
from watchkeeper.domain.values.durations import parse_duration
from watchkeeper.projections.describe.event_lines import (
    ERROR_TYPES,
    EventRow,
    event_row,
    render_events,
    type_of,
)
from watchkeeper.projections.logbook.logbook import render_at
from watchkeeper.projections.published.event_data import whole_row

_Item = TypeVar("_Item")

_POLL = timedelta(seconds=1)
"""Time between two reads of a followed history."""


@dataclass(frozen=True, slots=True)
class _Wanted:
    """Which events are listed."""

    types: tuple[str, ...]
    since: datetime | None
    until: datetime | None

    @property
    def filters(self) -> bool:
        """Whether it leaves any event out."""
        return bool(self.types or self.since or self.until)

    def __call__(self, row: EventRow) -> bool:
        at = datetime.fromisoformat(row["at"])
        return (
            (not self.types or any(fnmatchcase(type_of(row), one) for one in self.types))
            and (self.since is None or at >= self.since)
            and (self.until is None or at <= self.until)
        )


@click.command()
@click.argument("run")
@click.option(
    "--after", type=click.IntRange(min=0), default=0, help="Skip events up to this number."
)
@click.option(
    "--last",
    type=click.IntRange(min=1),
    default=None,
    help="Show only this many of the newest events.",
)
@click.option(
    "--type",
    "types",
    multiple=True,
    metavar="GLOB",
    help="Print only these event types, such as 'run.finding_*'; repeatable; see"
    " `tools schema events`.",
)
@click.option(
    "--since",
    default=None,
    metavar="TIME|AGE",
    help="Show events from this time or age on, such as 2026-11-21T04:00 or 2h.",
)
@click.option(
    "--until",
    default=None,
    metavar="TIME|AGE",
    help="Show events up to this time or age, as --since.",
)
@click.option(
    "--errors", is_flag=True, help="Show only failures, findings, questions and refusals."
)
@click.option("--follow", is_flag=True, help="Print new events until Ctrl-C.")
@home_option
@server_option
@json_errors
def events(
    run: str,
    after: int,
    last: int | None,
    types: tuple[str, ...],
    since: str | None,
    until: str | None,
    errors: bool,
    follow: bool,
    home: Path,
    as_json: bool,
    server: str | None,
) -> None:
    """List RUN's events, one line each, oldest first. Several checkpoints in a row are one line.

    With --json each event includes its data, as `tools schema events` describes it. A check has
    about 5 kB. For a long history use --after and --last, or `tools subscribe --run RUN` for one
    event per line.
    """
    if follow and (server or as_json):
        instead = f"watchkeeper tools subscribe --run {run}"
        raise Leave(f"--follow prints text of a home; for programs: {instead}", 4)
    wanted = _Wanted(
        (*types, *(ERROR_TYPES if errors else ())), _when("since", since), _when("until", until)
    )
    if server:
        asked = load("rpc.client", "event_rows")(
            server, run, after, None if wanted.filters else last
        )
        rows = _last([row for row in asked if wanted(row)], last)
        _list(as_json, run, rows, rows)
        return
    with open_reader(home) as session:
        head = known_run(session.ledger, run).version
        begin = max(after, head - last) if last and not wanted.filters else after
        history = session.ledger.history(run, after=begin)
        shown = _last([event for event in history if wanted(event_row(event))], last)
        _list(as_json, run, map(event_row, shown), map(whole_row, shown))
        head = history[-1].version if history else after
        while follow:
            clock.sleep(_POLL)
            new = session.ledger.history(run, after=head)
            head = new[-1].version if new else head
            if rows := [row for row in map(event_row, new) if wanted(row)]:
                click.echo(render_events(rows, whole=True))


def _last(rows: list[_Item], number: int | None) -> list[_Item]:
    return rows[-number:] if number else rows


def _when(option: str, text: str | None) -> datetime | None:
    """Read a time in UTC, or the time that was so long ago."""
    if text is None:
        return None
    try:
        return clock.now() - parse_duration(text)
    except ValueError:
        pass  # Not an age, so it must be a time.
    try:
        at = datetime.fromisoformat(text)
    except ValueError as error:
        hint = "expected a time such as 2026-11-21T04:00 (UTC), or an age such as 2h"
        raise Leave(f"--{option} {text}: {hint}", 4) from error
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def _list(
    as_json: bool,
    run: str,
    rows: Iterable[EventRow],
    whole: Iterable[Mapping[str, Any]],
) -> None:
    """Print short rows for people or full rows for programs, one by one to save memory."""
    if not as_json:
        click.echo(render_events(rows))
        return
    click.echo(f'{{"run": {json.dumps(run, ensure_ascii=False)}, "events": [', nl=False)
    for number, row in enumerate(whole):
        before = ", " if number else ""
        click.echo(before + json.dumps(row, ensure_ascii=False), nl=False)
    click.echo("]}")


@click.command()
@click.argument("run")
@click.option(
    "--at",
    "moment",
    default=None,
    metavar="SEQ|TIME",
    help="Print the logbook at this event or time.",
)
@home_option
@json_errors
def logbook(run: str, moment: str | None, home: Path, as_json: bool) -> None:
    """Print RUN's logbook, now or as it stood after event SEQ or at TIME (ISO 8601)."""
    with open_reader(home) as session:
        known = known_run(session.ledger, run)
        version, at = _moment(moment, known)
        text = render_at(session.ledger.history(run), version=version, at=at).decode()
        say(as_json, {"run": run, "at": moment, "markdown": text}, text.rstrip("\n"))


def _moment(text: str | None, run: Run) -> tuple[int | None, datetime | None]:
    if text is None:
        return None, None
    if text.isdigit():
        if not 1 <= int(text) <= run.version:
            lists = f"`watchkeeper events {run.slug}` lists them"
            raise Leave(f"--at {text}: expected an event from 1 to {run.version}; {lists}", 3)
        return int(text), None
    try:
        at = datetime.fromisoformat(text)
    except ValueError as error:
        hint = "expected an event's number or a time such as 2026-11-21T04:00:00Z"
        raise Leave(f"--at {text}: {hint}", 4) from error
    zone = contract_of(run).timezone
    # A time without a zone is in the contract's zone, as the logbook writes it.
    return None, (at if at.tzinfo else at.replace(tzinfo=ZoneInfo(zone))).astimezone(UTC)
