"""`status`: who needs someone. Fast: one row per run, no client imported."""

import json
import socket
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import click

from watchkeeper import clock
from watchkeeper.adapters.cli.deliveries import late_deliveries
from watchkeeper.adapters.cli.lagging import report_of_home
from watchkeeper.adapters.cli.locking import locked_of_home
from watchkeeper.adapters.cli.options import screen_width, show
from watchkeeper.adapters.cli.remote import ServerSaid, server_option
from watchkeeper.adapters.cli.storing import store_named
from watchkeeper.adapters.ledger_choice import postgres_part
from watchkeeper.adapters.ledger_gone import no_home, no_ledger
from watchkeeper.adapters.listening import read_reported, sentence
from watchkeeper.adapters.load import load
from watchkeeper.adapters.verified import Verified, read_verified, verified_words, written_result
from watchkeeper.adapters.watched import is_watched
from watchkeeper.ports.event_store import StatusRow, StoreFailure
from watchkeeper.projections.status.fleet import Need
from watchkeeper.projections.status.limits import long_histories
from watchkeeper.projections.status.rows import RunRow
from watchkeeper.projections.status.screen import (
    Fleet,
    document,
    fleet,
    render_fleet,
    render_run,
    run_document,
)

HOME_DEFAULT = "~/.watchkeeper"
_BUSY_S = 5.0


class Row(NamedTuple):
    """One stored row; `head` is the newest event of its run, if it was read with the row."""

    run: str
    part: str
    row: str
    head: int | None = None


@click.command()
@click.argument("run", required=False)
@click.option("--all", "everything", is_flag=True, help="Also show runs that need no attention.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
@click.option(
    "--home",
    envvar="WATCHKEEPER_HOME",
    default=HOME_DEFAULT,
    show_default=True,
    type=click.Path(path_type=Path, file_okay=False),
    is_eager=True,
    help="Folder of the ledger (or WATCHKEEPER_HOME).",
)
@server_option
def status(
    run: str | None, everything: bool, as_json: bool, home: Path, server: str | None
) -> None:
    """Show all runs, or one RUN in detail. Runs that need attention come first."""
    rows = _asked(server, run, as_json) if server else _read(home, run, as_json)
    now = clock.now().astimezone()
    seen = fleet(rows, now, _unwatched(home, server))
    width = screen_width()
    verified = None if server else read_verified(home.expanduser())
    wrong = _ledger_needs(seen, rows, verified)
    if run is None:
        # A server reports its targets in its /healthz. The files of a local home are not its own.
        late = [] if server else late_deliveries(home, now)
        sources = [] if server else _sources(home, now)
        views, behind = ([], []) if server else report_of_home(home, store_named(home))
        if as_json:
            signals = [row for _, _, row in sources]
            answer = {**document(seen), "publishing_late": late, "signals": signals}
            answer |= {"views": views, "views_wrong": behind}
            answer["ledger_wrong"] = _ledger_wrong(seen, home, server)
            answer["watch_wrong"] = _no_watch(seen)
            answer["verified"] = json.loads(written_result(verified)) if verified else None
            answer["rows_wrong"] = [need.says for need in wrong]
            answer["long_histories"] = [says for _, says in long_histories(seen.runs)]
            click.echo(json.dumps(answer, ensure_ascii=False))
            _end(wrong)
        words = "" if server else verified_words(verified, now)
        show(render_fleet(seen, now, width, everything=everything, home=wrong, verified=words))
        for says in _ledger_wrong(seen, home, server):
            click.echo(f"ledger: {says}")
        for says in late:
            click.echo(f"publishing to {says}")
        for _, says in long_histories(seen.runs):
            click.echo(f"long history {says}")
        for says in behind:
            click.echo(f"view {says}")
        for well, says, _ in sources:
            if everything or not well:
                click.echo(f"signals: {says}")
        _end(wrong)
    view = next((view for view in seen.runs if view.run == run), None)
    if view is None:
        _leave(as_json, _unknown(run, [] if server else _read(home, None, as_json)), 3)
    if as_json:
        click.echo(json.dumps(run_document(view), ensure_ascii=False))
        _end(wrong)
    show(render_run(view, now, width, home=wrong))
    _end(wrong)


def _end(wrong: tuple[Need, ...]) -> NoReturn:
    """End with 1 if the ledger is broken."""
    raise click.exceptions.Exit(1 if wrong else 0)


def _ledger_needs(seen: Fleet, rows: list[Row], verified: Verified | None) -> tuple[Need, ...]:
    """Return what is wrong with the ledger: a failed verification, or rows of another event."""
    needs: list[Need] = []
    if verified is not None and verified.is_broken:
        says = f"the ledger failed its verification: {verified.problem}"
        needs.append(Need("unreadable", verified.at, says, ("watchkeeper verify",)))
    heads = {row.run: row.head for row in rows if row.head is not None}
    behind = [
        f"{view.run} at event {view.row['version']} of {heads[view.run]}"
        for view in seen.runs
        if view.row is not None and heads.get(view.run, view.row["version"]) != view.row["version"]
    ]
    if behind:
        says = f"rows of status differ from the ledger: {', '.join(behind)}"
        needs.append(Need("unreadable", None, says, ("watchkeeper ledger rebuild status",)))
    return tuple(needs)


def _unknown(run: str, rows: list[Row]) -> str:
    # Imported late: a query for an existing run does not pay for it.
    near = load("near", "did_you_mean")(run, sorted({row.run for row in rows if row.run}))
    return f"{run}: the ledger has no such run: see `watchkeeper status --all`.{near}"


def _ledger_wrong(seen: Fleet, home: Path, server: str | None) -> list[str]:
    """Return why checks are late though a watch runs: another process keeps the ledger locked."""
    if server or not any(view.monitor_stale for view in seen.runs):
        return []
    says = locked_of_home(home.expanduser(), store_named(home))
    return [says] if says else []


def _unwatched(home: Path, server: str | None) -> Callable[[RunRow], bool]:
    """Return a test whether no process watches a run.

    On a server's ledger, healthy watches of other hosts may hold runs.
    """
    if server or is_watched(home.expanduser()):
        return lambda _: False
    if not store_named(home):
        return lambda _: True
    here = f"@{socket.gethostname()}"
    return lambda row: row["holder"].endswith(here)


def _no_watch(seen: Fleet) -> list[str]:
    """Return the runs that no process watches, for programs."""
    needs = [need for view in seen.runs for need in view.needs if need.kind == "monitor"]
    alone = any(need.says.startswith("nobody watches it") for need in needs)
    return ["no watch process runs on this host: watchkeeper watch"] if alone else []


def _sources(home: Path, now: datetime) -> list[tuple[bool, str, dict[str, Any]]]:
    """Return for each subscription whether it is healthy, a line, and all known facts."""
    listening = read_reported(home.expanduser())
    if listening is None:
        return []
    found: list[tuple[bool, str, dict[str, Any]]] = []
    for source in listening.sources:
        well, says = sentence(source, listening, now)
        found.append((well, says, {**asdict(source), "well": well}))
    return found


def _read(home: Path, run: str | None, as_json: bool) -> list[Row]:
    chosen = store_named(home)
    if chosen:
        return _read_server(chosen, run, as_json)
    ledger = home.expanduser() / "ledger.db"
    if not ledger.exists():
        gone = no_ledger(home.expanduser().absolute())
        _leave(as_json, f"the ledger: {gone}" if gone else no_home(home), 2 if gone else 4)
    try:
        return read_rows(ledger, run)
    except sqlite3.Error as error:
        # SQLite must write files next to a database even to read it.
        resting: list[StatusRow] | None = load("store.choosing", "rows_at_rest")(ledger)
        if resting is not None:
            click.echo(load("store.choosing", "read_at_rest")(ledger), err=True)
            rows = [Row(found.run, found.part, found.row) for found in resting]
            return [row for row in rows if run in (None, row.run) or not row.run]
        says = str(load("store.failures", "failure")(error, ledger, "read"))
        _leave(as_json, f"the ledger: {says}", 2)


def _read_server(url: str, run: str | None, as_json: bool) -> list[Row]:
    try:
        part = postgres_part("postgres_rows", "read_rows", url)
        return [Row(*row) for row in part(url, run)]
    except StoreFailure as error:
        _leave(as_json, f"the ledger: {error}", 2)


def _asked(server: str, run: str | None, as_json: bool) -> list[Row]:
    try:
        return [Row(*row) for row in load("rpc.client", "status_rows")(server, run)]
    except ServerSaid as error:
        _leave(as_json, str(error), error.code)


def _leave(as_json: bool, says: str, code: int) -> NoReturn:
    click.echo(json.dumps({"error": says, "exit": code}) if as_json else says, err=not as_json)
    raise click.exceptions.Exit(code)


def read_rows(ledger: Path, run: str | None = None) -> list[Row]:
    """Read the status rows of a ledger without opening it for writing.

    Args:
        ledger: The file.
        run: The run, or `None` for all runs.

    Raises:
        sqlite3.Error: The file stays locked past the time limit, or it is not a ledger.
    """
    uri = f"{ledger.absolute().as_uri()}?mode=ro"
    with closing(sqlite3.connect(uri, uri=True, timeout=_BUSY_S)) as connection:
        asked = (
            "SELECT run, part, row, (SELECT max(version) FROM events WHERE stream = "
            "(SELECT id FROM streams WHERE name = 'run/' || run)) FROM status"
        )
        if run is None:
            return [Row(*found) for found in connection.execute(asked)]
        return [Row(*found) for found in connection.execute(f"{asked} WHERE run = ?", (run,))]
