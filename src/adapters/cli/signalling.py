"""`signals`: list, bind, replay and feed in signals from outside."""

import json
import sys
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click

from watchkeeper import clock
from watchkeeper.adapters.bad_input import visible
from watchkeeper.adapters.cli.common import Session, open_session, refusal, who
from watchkeeper.adapters.cli.dismissing import dismiss, human
from watchkeeper.adapters.cli.leaving import Leave, json_errors
from watchkeeper.adapters.cli.listening import inbox_of
from watchkeeper.adapters.cli.options import Group, actor_option, home_option, say
from watchkeeper.adapters.cli.reader import known_run
from watchkeeper.adapters.cli.table import table
from watchkeeper.adapters.load import load
from watchkeeper.adapters.messages_file import read_messages
from watchkeeper.adapters.pubsub.names import BadName, subscription_name
from watchkeeper.domain.rules.shared.refusals import Refused
from watchkeeper.domain.run.envelope import Event, decode
from watchkeeper.domain.run.outbox.effects import effects_stream
from watchkeeper.domain.run.registry import type_of
from watchkeeper.domain.run.run import Run
from watchkeeper.domain.run.signals import MessageQuarantined
from watchkeeper.domain.values.durations import parse_duration
from watchkeeper.domain.values.observation.signals import RECORDED_A_MINUTE, Delivery
from watchkeeper.domain.values.people import Actor
from watchkeeper.ports.event_store import StoreFailure, VersionConflict
from watchkeeper.projections.figures import count, elapsed
from watchkeeper.projections.status.signal_rows import (
    SIGNAL_TOPICS,
    Row,
    kept_rows,
    meant,
    newest,
    quarantine_rows,
    signal_rows,
)
from watchkeeper.services.ledger.ledger_reader import run_stream
from watchkeeper.services.signals.inbound import Outcome

FILE_BYTES_MAX = 100_000_000
"""Most bytes of a file that `take` reads at once: ten of the largest Pub/Sub messages."""

_CELL = 60
_STORED = (Outcome.RECORDED, Outcome.LATE, Outcome.KEPT, Outcome.QUARANTINED)


@click.group(cls=Group)
def signals() -> None:
    """Show the signals of outside services; bind, replay or take signals by hand."""


signals.add_command(dismiss)


@signals.command("list")
@click.option("--run", default=None, metavar="RUN", help="Only signals of this run.")
@click.option(
    "--last",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    help="Show only this many of the newest.",
)
@home_option
@json_errors
def list_signals(run: str | None, last: int, home: Path, as_json: bool) -> None:
    """List the newest signals bound to runs, oldest first."""
    with open_session(home) as session:
        if run is not None:
            known_run(session.ledger, run)
        slugs = session.ledger.slugs() if run is None else [run]
        rows = newest([row for slug in slugs for row in _rows(session, slug)], last)
    lines = [count(len(rows), "signal")]
    if rows:
        heads = ("happened", "late by", "kind", "run", "source", "says")
        lines += table(heads, [_cells(row) for row in rows])
    say(as_json, {"run": run, "signals": rows}, "\n".join(lines))


def _rows(session: Session, slug: str) -> list[Row]:
    if not isinstance(session.ledger.run(slug), Run):
        return []  # `status` lists unreadable runs.
    store = session.ledger.store
    events: list[Event] = [
        decode(one.stream, one.version, one.topic, one.state)
        for stream in (run_stream(slug), effects_stream(slug))
        for page in store.pages(stream)
        for one in page
        if one.topic in SIGNAL_TOPICS or one.topic not in type_of
    ]
    return signal_rows(slug, events)


def _cells(row: Row) -> tuple[str, ...]:
    subject = f"{row['subject']}: " if row["subject"] else ""
    after = "  (after the run was over)" if row["late"] else ""
    return (
        _stamp(row["occurred_at"]),
        elapsed(timedelta(seconds=float(str(row["late_s"])))),
        str(row["kind"]),
        str(row["run"]) + (f" {row['instance']}" if row["instance"] else ""),
        str(row["source"]),
        visible(f"{subject}{row['summary']}") + after,
    )


@signals.command()
@click.option(
    "--last",
    type=click.IntRange(min=1),
    default=50,
    show_default=True,
    help="Show only this many of the newest.",
)
@home_option
@json_errors
def unbound(last: int, home: Path, as_json: bool) -> None:
    """List signals that match no run, or several. They are retried automatically."""
    with open_session(home) as session:
        every = kept_rows(session.ledger.box())
    rows = every[-last:]
    lines = [f"{count(len(every), 'signal')} without a run"]
    if rows:
        heads = ("name", "happened", "why", "source", "says")
        lines += table(heads, [_kept_cells(row) for row in rows])
        if len(rows) < len(every):
            lines.append(f"  and {len(every) - len(rows)} older: --last {len(every)}")
        lines.append("bind one: watchkeeper signals bind NAME RUN")
    say(as_json, {"unbound": rows, "kept": len(every)}, "\n".join(lines))


def _kept_cells(row: Row) -> tuple[str, ...]:
    between = f": {row['candidates']}" if row["candidates"] else ""
    says = f"{row['kind']}: {row['summary']}"
    return (
        str(row["id"]),
        _stamp(row["occurred_at"]),
        f"{row['why']}{between}",
        visible(str(row["source"])),
        visible(says),
    )


@signals.command()
@click.argument("name")
@click.argument("run")
@home_option
@actor_option
@json_errors
def bind(name: str, run: str, home: Path, as_json: bool, principal: str | None) -> None:
    """Bind the kept signal NAME, listed by `signals unbound`, to RUN. Only a human can."""
    with open_session(home) as session:
        known_run(session.ledger, run)
        actor = human(session, principal)
        found = meant(session.ledger.box(), name)
        if len(found) != 1:
            says = "several kept signals match" if found else "no kept signal has this name"
            hint = "list kept signals with `watchkeeper signals unbound`; --json shows full names"
            raise Leave(f"{visible(name)}: {says}; {hint}", 3)
        [name] = found
        outcome = inbox_of(session).bind_by_hand(name, run, actor)
        if isinstance(outcome, Refused):
            raise refusal(outcome)
        says = {
            Outcome.RECORDED: f"{visible(name)} is now in the history of {run}",
            Outcome.LATE: f"{run} is over: {visible(name)} is kept outside its history",
        }.get(outcome, f"{run} already has this signal, or a newer one about the same subject")
        say(as_json, {"signal": name, "run": run, "outcome": outcome.value}, says)


@signals.command()
@home_option
@json_errors
def quarantine(home: Path, as_json: bool) -> None:
    """List the messages that could not be read. Their bytes are kept."""
    with open_session(home) as session:
        rows = quarantine_rows(session.ledger.box())
    lines = [f"{count(len(rows), 'message')} in quarantine"]
    if rows:
        heads = ("name", "bytes", "came by", "reason")
        cells = [
            (
                str(row["quarantine"]),
                str(row["size_bytes"]),
                visible(str(row["transport"]))[:_CELL],
                visible(str(row["reason"])),
            )
            for row in rows
        ]
        lines += table(heads, cells)
        lines.append("after a fix: watchkeeper signals replay NAME, or --all")
    say(as_json, {"quarantine": rows}, "\n".join(lines))


@signals.command()
@click.argument("name", required=False)
@click.option("--all", "everything", is_flag=True, help="Replay every message in quarantine.")
@home_option
@actor_option
@json_errors
def replay(
    name: str | None, everything: bool, home: Path, as_json: bool, principal: str | None
) -> None:
    """Read the quarantined message NAME again after a fix. Exit 1 if it still cannot be read."""
    if (name is None) is not everything:
        raise Leave("name a message, such as quarantine-3, or give --all", 4)
    with open_session(home) as session:
        actor = who(session.home, principal)
        quarantined = session.ledger.box().quarantined
        if name is not None and name not in quarantined:
            hint = "list messages with `watchkeeper signals quarantine`"
            raise Leave(f"{visible(name)}: no such message is in quarantine; {hint}", 3)
        chosen = [one for one in quarantined.values() if name in (None, one.quarantine)]
        rows = _replayed(session, chosen, actor)
    lines = [f"{row['quarantine']}: {row['says']}" for row in rows]
    say(as_json, {"replayed": rows}, "\n".join(lines) or "nothing is in quarantine")
    if any(row["outcome"] in (Outcome.QUARANTINED.value, "gone") for row in rows):
        raise click.exceptions.Exit(1)


def _replayed(session: Session, chosen: list[MessageQuarantined], actor: Actor) -> list[Row]:
    inbox = inbox_of(session)
    rows: list[Row] = []
    for one in chosen:
        message = _as_kept(session, one)
        if message is None:
            says = "its bytes are missing from evidence/, so it cannot be read again"
            rows.append({"quarantine": one.quarantine, "outcome": "gone", "says": says})
            continue
        outcome = inbox.replay(one.quarantine, message, actor)
        says = outcome.value
        if outcome is Outcome.QUARANTINED:
            says = "still cannot be read; it stays in quarantine"
        rows.append({"quarantine": one.quarantine, "outcome": outcome.value, "says": says})
    return rows


def _as_kept(session: Session, one: MessageQuarantined) -> Delivery | None:
    path = session.home.evidence / one.digest[:2] / f"{one.digest}.json"
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return Delivery(
        transport=one.transport,
        message_id=one.message_id,
        data=str(kept["data"]).encode(),
        attributes={str(k): str(v) for k, v in kept["attributes"].items()},
        published_at=None,
        received_at=clock.now(),
    )


@signals.command()
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True, dir_okay=False))
@home_option
@json_errors
def take(file: Path, home: Path, as_json: bool) -> None:
    """Take in the messages of FILE (- for standard input): JSON in Pub/Sub's REST form.

    FILE has one message, a list, or one message per line: {"message": {"data": "<base64>",
    "attributes": {...}, "messageId": "...", "publishTime": "..."}}. Known messages change nothing.
    """
    messages = read_messages(_text_of(file), str(file), clock.now())
    with open_session(home) as session:
        inbox = inbox_of(session)
        rows: list[dict[str, str]] = []
        try:
            for message in messages:
                outcome = inbox.take(message).value
                rows.append({"message": message.message_id, "outcome": outcome})
            more = inbox.flush()
        except (StoreFailure, VersionConflict) as error:
            says = f"{_stored(rows)} of {count(len(messages), 'message')} stored, then: {error}"
            raise Leave(f"{says}; take the file again: known messages change nothing", 2) from error
    numbers = Counter(row["outcome"] for row in rows)
    stored = _stored(rows) + more
    outcomes = ", ".join(f"{number} {outcome}" for outcome, number in numbers.items())
    lines = [f"{count(len(rows), 'message')}, {stored} stored: {outcomes}"]
    if Outcome.COALESCED.value in numbers:
        lines.append(f"a source may record at most {RECORDED_A_MINUTE} signals per minute and run")
    if Outcome.QUARANTINED.value in numbers:
        lines.append("see why: watchkeeper signals quarantine")
    if Outcome.KEPT.value in numbers:
        lines.append("some match no run yet: watchkeeper signals unbound")
    document = {"messages": rows, "outcomes": numbers, "stored": stored}
    say(as_json, document, "\n".join(lines))


def _stored(rows: list[dict[str, str]]) -> int:
    return sum(row["outcome"] in _STORED for row in rows)


def _text_of(file: Path) -> str:
    try:
        if str(file) == "-":
            content = sys.stdin.buffer.read(FILE_BYTES_MAX + 1)
        else:
            with file.open("rb") as opened:
                content = opened.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise Leave(f"{file} cannot be read: {error.strerror}", 4) from error
    if len(content) > FILE_BYTES_MAX:
        raise Leave(f"{file}: expected at most {FILE_BYTES_MAX:,} bytes; split it by lines", 4)
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise Leave(f"{file}: expected JSON as UTF-8 text ({error.reason})", 4) from error


@signals.command()
@click.argument("subscription")
@click.option(
    "--to", "moment", default="", help="A time such as 2026-11-21T18:00Z, or 2h for 2 hours ago."
)
@click.option("--snapshot", default="", metavar="NAME", help="Name given to `signals snapshot`.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
@json_errors
def seek(subscription: str, moment: str, snapshot: str, as_json: bool) -> None:
    """Make SUBSCRIPTION redeliver the messages it keeps since a time or a snapshot.

    Known messages change nothing. Messages published before that time count as read, even unread
    ones. Pub/Sub keeps acknowledged messages only if the subscription is set up for it.
    """
    if bool(moment) is bool(snapshot):
        raise Leave("give either --to TIME or --snapshot NAME", 4)
    at = _moment(moment) if moment else None
    _asked("seek", subscription, to=at, snapshot=snapshot)
    since = f"snapshot {snapshot}" if at is None else at.isoformat()
    says = (
        f"{subscription} redelivers the messages it keeps since {since}; known messages "
        "change nothing"
    )
    if at is not None:
        says += "\nmessages published before that count as read"
    say(as_json, {"subscription": subscription, "since": since}, says)


@signals.command()
@click.argument("subscription")
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
@json_errors
def snapshot(subscription: str, name: str, as_json: bool) -> None:
    """Keep the position of SUBSCRIPTION as NAME for 7 days, for example before a deploy."""
    whole = _asked("take_snapshot", subscription, name)
    says = (
        f"kept as {whole}; to return to it: watchkeeper signals seek {subscription} "
        f"--snapshot {name}"
    )
    say(as_json, {"subscription": subscription, "snapshot": whole}, says)


def _asked(what: str, subscription: str, *args: object, **more: object) -> Any:
    try:
        name = subscription_name(subscription)
        return load("pubsub.admin", what)(name, *args, **more)
    except BadName as error:
        raise Leave(str(error), 4) from error


def _moment(text: str) -> datetime:
    hint = f"--to {text}: expected a time such as 2026-11-21T18:00Z, or an age such as 2h"
    try:
        return clock.now() - parse_duration(text)
    except ValueError:
        pass
    try:
        at = datetime.fromisoformat(text)
    except ValueError as error:
        raise Leave(hint, 4) from error
    if at.tzinfo is None:
        raise Leave(f"{hint}; add the zone, such as Z", 4)
    if at > clock.now():
        # A future time would acknowledge all unread messages, and nobody expects that of `seek`.
        raise Leave(f"--to {text} is in the future: seeking there would drop unread messages", 4)
    return at.astimezone(UTC)


def _stamp(text: object) -> str:
    return datetime.fromisoformat(str(text)).astimezone(UTC).strftime("%m-%d %H:%M:%S")
