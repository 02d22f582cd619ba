"""`ledger`: the views that are built from it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from watchkeeper.adapters.cli import ledger_figures, ledger_files, ledger_replay
from watchkeeper.adapters.cli.common import open_session
from watchkeeper.adapters.cli.lagging import lags_of, view_problems
from watchkeeper.adapters.cli.leaving import Leave, json_errors, leave_quietly
from watchkeeper.adapters.cli.options import Group, home_option, say
from watchkeeper.adapters.cli.progress import progress
from watchkeeper.adapters.cli.table import table
from watchkeeper.adapters.cli.viewing import views_of
from watchkeeper.adapters.views_copy import readable
from watchkeeper.ports.views import Build
from watchkeeper.projections.figures import count
from watchkeeper.projections.status.rows import SHAPE
from watchkeeper.projections.views.catalogue import PROJECTIONS
from watchkeeper.projections.views.lag import Lag, lag_document
from watchkeeper.projections.views.view import Projection, newest_of
from watchkeeper.services.ledger.status_rows import rebuild_status
from watchkeeper.services.views.catch_up import ViewHalted
from watchkeeper.services.views.rebuild import rebuild

STATUS = SHAPE.partition("@")[0]


@click.group(cls=Group)
def ledger() -> None:
    """Manage the ledger: its views, its copies and its history."""


@ledger.command()
@home_option
@json_errors
def projections(home: Path, as_json: bool) -> None:
    """List all views of the ledger and how far each one is. Exit 1 when one needs attention.

    `watch` and `serve` keep the views current. `ledger catch-up` does it now.
    """
    with (
        open_session(home, reading=True) as session,
        readable(session.home.path, at_rest=session.at_rest) as folder,
    ):
        newest = session.ledger.store.newest()
        found = lags_of(session.ledger.store, folder)
        wrong = _wrong(folder, found)
    known = {one.title: one for one in PROJECTIONS}
    rows = [
        (
            one.title,
            one.state,
            f"{one.position:,}",
            f"{one.share:.0%}",
            one.says,
            known[one.title].shows if one.title in known else "of another release",
        )
        for one in found
    ]
    missing = _not_built(found)
    rows += [(one.title, "none", "-", "-", "not built yet", one.shows) for one in missing]
    row = (SHAPE, "live", f"{newest:,}", "100%", "level", "written by appends")
    rows.append(row)
    heads = ("view", "state", "position", "done", "is", "shows")
    lines = [f"{count(newest, 'event')} in the ledger"]
    lines += table(heads, rows)
    if missing:
        lines.append(
            "a watch builds missing views; to build them now: `watchkeeper ledger catch-up`"
        )
    lines += [f"  wrong  {text}" for text in wrong]
    document = {
        "newest": newest,
        "projections": [lag_document(one) for one in found],
        "not_built": [one.title for one in missing],
        "status": SHAPE,
        "wrong": wrong,
    }
    say(as_json, document, "\n".join(lines))
    if wrong:
        leave_quietly(1)


def _wrong(home: Path, found: list[Lag]) -> list[str]:
    """Return a sentence for each view that needs a person."""
    newer = ledger_figures.of_newer_release(one.title for one in found)
    return [*view_problems(home, found), *newer]


def _not_built(found: Sequence[Lag]) -> list[Projection]:
    """Return the views of this release whose build has not started."""
    begun = {one.title for one in found}
    return [one for one in newest_of(PROJECTIONS).values() if one.title not in begun]


@ledger.command("catch-up")
@home_option
@json_errors
def catch_up_command(home: Path, as_json: bool) -> None:
    """Bring every view up to the end of the ledger, as a watch does continuously."""
    with open_session(home) as session, views_of(session) as views:
        ledger_figures.level(session, views, as_json)
        newest = session.ledger.store.newest()
        wrong = _wrong(session.home.path, lags_of(session.ledger.store, session.home.path))
    lines = [f"every view is level at event {newest:,}", *(f"  wrong  {text}" for text in wrong)]
    say(as_json, {"newest": newest, "wrong": wrong}, "\n".join(lines[1:] if wrong else lines))
    if wrong:
        leave_quietly(1)


@ledger.command("rebuild")
@click.argument("name", metavar="[NAME]", default="")
@click.option(
    "--all", "everything", is_flag=True, help="Rebuild every view and the rows of `status`."
)
@home_option
@json_errors
def rebuild_command(name: str, everything: bool, home: Path, as_json: bool) -> None:
    """Rebuild the view NAME, or --all, from the ledger while the current view stays readable.

    The new view replaces the current one in one step when it is complete. An interrupted rebuild
    continues where it stopped. A watch may run.
    """
    newest = newest_of(PROJECTIONS)
    if everything == bool(name):
        raise Leave("name one view, or give --all: watchkeeper ledger rebuild --all", 4)
    if everything:
        done, halted = list[tuple[dict[str, Any], str]](), list[str]()
        for one in newest.values():
            try:
                done.append(_rebuild_view(one, home, as_json))
            except ViewHalted as error:
                halted.append(str(error))
        done.append(_rebuild_status(home, as_json))
        lines = "\n".join(text for _, text in done)
        say(as_json, {"built": [document for document, _ in done], "halted": halted}, lines)
        if halted:
            raise Leave("\n".join(halted), 2)
        return
    if name == STATUS:
        say(as_json, *_rebuild_status(home, as_json))
        return
    if name not in newest:
        names = ", ".join(sorted([*newest, STATUS]))
        raise Leave(f"{name}: unknown view; expected one of {names}", 4)
    document, text = _rebuild_view(newest[name], home, as_json)
    say(as_json, document, text)


def _rebuild_view(projection: Projection, home: Path, as_json: bool) -> tuple[dict[str, Any], str]:
    """Rebuild a view, and return the result for programs and for people."""
    with open_session(home) as session, views_of(session) as views:
        store = session.ledger.store
        with progress(f"building {projection.title}", quiet=as_json) as show:

            def show_build(build: Build) -> None:
                show(build.position, store.newest())

            built = rebuild(
                store, views, projection,
                reported=show_build, recorder=session.recorder,
            )  # fmt: skip
        rows = len(views.rows(built))
    events = count(built.position, "event")
    document = {"projection": built.title, "position": built.position, "rows": rows}
    text = f"{built.title} is built from {events}: {count(rows, 'row')}, and in use"
    return document, text


def _rebuild_status(home: Path, as_json: bool) -> tuple[dict[str, Any], str]:
    """Rewrite the status row of every run. Appends continue to write rows meanwhile.

    Returns:
        The result, for programs and for people.
    """
    with (
        open_session(home) as session,
        progress("building status", quiet=as_json) as show,
    ):
        done = rebuild_status(session.ledger.store, show)
    changed = f"{done.changed} had different rows, {done.dropped} were removed"
    document = {"projection": SHAPE, "runs": done.runs, "changed": done.changed}
    text = f"{SHAPE} is built for {count(done.runs, 'run')}: {changed}"
    return {**document, "dropped": done.dropped}, text


for _command in (
    ledger_figures.stats,
    ledger_figures.weeks,
    ledger_files.export_command,
    ledger_files.import_command,
    ledger_files.backup,
    ledger_files.restore_command,
    ledger_replay.replay_command,
):
    ledger.add_command(_command)
