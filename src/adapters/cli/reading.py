"""`events` and `logbook`: what is known, for people and programs."""

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import click

from watchkeeper.adapters.cli.common import (
    Leave,
    home_option,
    json_errors,
    known_run,
    open_session,
    say,
)
from watchkeeper.adapters.cli.remote import server_option
from watchkeeper.adapters.load import load
from watchkeeper.domain.run.run import contract_of
from watchkeeper.projections.describe.event_lines import EventRow, event_row, render_events
from watchkeeper.projections.logbook.logbook import render_at
from watchkeeper.projections.published.event_data import whole_row


@click.command()
@click.argument("run")
@click.option("--after", type=click.IntRange(min=0), default=0, help="Leave out events up to this.")
@click.option("--last", type=click.IntRange(min=1), default=None, help="Only the newest so many.")
@home_option
@server_option
@json_errors
def events(
    run: str, after: int, last: int | None, home: Path, as_json: bool, server: str | None
) -> None:
    """List RUN's events, one line each, oldest first.

    With --json each has its data, too, as `schema events` describes it. A check has some 5 kB, so
    take a long history with --after and --last, or one event a line with `subscribe --run RUN`.
    """
    if server:
        asked = load("rpc.client", "event_rows")(server, run, after, last)
        _list(as_json, run, asked, asked)
        return
    with open_session(home, reading=True) as session:
        head = known_run(session.ledger, run).version
        history = session.ledger.history(run, after=max(after, head - last if last else 0))
        # The history may have grown after the head was read.
        shown = history[-last:] if last else history
        _list(as_json, run, map(event_row, shown), map(whole_row, shown))


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
@click.option("--at", "moment", default=None, metavar="SEQ|TIME", help="As it stood then.")
@home_option
@json_errors
def logbook(run: str, moment: str | None, home: Path, as_json: bool) -> None:
    """Print RUN's logbook, now or as it stood after event SEQ or at TIME (ISO 8601)."""
    with open_session(home, reading=True) as session:
        known = known_run(session.ledger, run)
        version, at = _moment(moment, contract_of(known).timezone, known.version)
        text = render_at(session.ledger.history(run), version=version, at=at).decode()
        say(as_json, {"run": run, "at": moment, "markdown": text}, text.rstrip("\n"))


def _moment(text: str | None, zone: str, newest: int) -> tuple[int | None, datetime | None]:
    if text is None:
        return None, None
    if text.isdigit():
        if not 1 <= int(text) <= newest:
            raise Leave(f"--at {text}: expected an event from 1 to {newest}", 3)
        return int(text), None
    try:
        at = datetime.fromisoformat(text)
    except ValueError as error:
        hint = "expected an event's number or a time such as 2026-11-21T04:00:00Z"
        raise Leave(f"--at {text}: {hint}", 4) from error
    # A time without a zone is in the contract's zone, as the logbook writes it.
    return None, (at if at.tzinfo else at.replace(tzinfo=ZoneInfo(zone))).astimezone(UTC)
