"""`ledger`: the views that are built from it, and its parked streams."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from watchkeeper.adapters.cli import ledger_figures, ledger_files, ledger_replay
from watchkeeper.adapters.cli.common import Session, open_session
from watchkeeper.adapters.cli.lagging import lags_of, view_problems
from watchkeeper.adapters.cli.leaving import Leave, json_errors, leave_quietly
from watchkeeper.adapters.cli.options import home_option, say
from watchkeeper.adapters.cli.progress import progress
from watchkeeper.adapters.cli.table import table
from watchkeeper.adapters.cli.viewing import HOLDER, views_of, views_to_read
from watchkeeper.adapters.views_copy import readable
from watchkeeper.ports.views import Build, BuildState, Parked
from watchkeeper.projections.figures import count
from watchkeeper.projections.status.live_row import live_shape
from watchkeeper.projections.views.catalogue import PROJECTIONS
from watchkeeper.projections.views.lag import Lag, lag_document
from watchkeeper.projections.views.view import Projection, newest_of
from watchkeeper.services.views.catch_up import retry_all
from watchkeeper.services.views.rebuild import BuildHeld, by_title, rebuild
from watchkeeper.services.views.status_rebuild import NAME as STATUS
from watchkeeper.services.views.status_rebuild import rebuild_status


@click.group()
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
        shape = live_shape(session.ledger.store.status_rows())
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
    row = (f"{STATUS}@{shape}", "live", f"{newest:,}", "100%", "level", "written by appends")
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
        "status": f"{STATUS}@{shape}",
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
@click.option(
    "--from",
    "begin",
    type=click.IntRange(min=0),
    default=0,
    metavar="POSITION",
    help="Count only events after this position of the ledger.",
)
@home_option
@json_errors
def rebuild_command(name: str, everything: bool, begin: int, home: Path, as_json: bool) -> None:
    """Rebuild the view NAME, or --all, from the ledger while the current view stays readable.

    The new view replaces the current one in one step when it is complete. An interrupted rebuild
    continues where it stopped. A watch may run. Exit 1 when an event had to be parked.
    """
    newest = newest_of(PROJECTIONS)
    if everything == bool(name):
        raise Leave("name one view, or give --all: watchkeeper ledger rebuild --all", 4)
    if begin and everything:
        raise Leave("--from needs one view; --all builds from the first event", 4)
    if everything:
        done = [_rebuild_view(one, 0, home, as_json) for one in newest.values()]
        done.append(_rebuild_status(home, as_json))
        lines = "\n".join(text for _, text in done)
        say(as_json, {"built": [document for document, _ in done]}, lines)
        if any(document.get("parked") for document, _ in done):
            leave_quietly(1)
        return
    if name == STATUS:
        if begin:
            raise Leave("--from: status rows are built from whole histories", 4)
        say(as_json, *_rebuild_status(home, as_json))
        return
    if name not in newest:
        names = ", ".join(sorted([*newest, STATUS]))
        raise Leave(f"{name}: unknown view; expected one of {names}", 4)
    document, text = _rebuild_view(newest[name], begin, home, as_json)
    say(as_json, document, text)
    if document["parked"]:
        leave_quietly(1)


def _rebuild_view(
    projection: Projection, begin: int, home: Path, as_json: bool
) -> tuple[dict[str, Any], str]:
    """Rebuild a view, and return the result for programs and for people."""
    with open_session(home) as session, views_of(session) as views:
        store = session.ledger.store
        if begin > store.newest():
            raise Leave(f"--from {begin}: the ledger ends at {store.newest()}", 3)
        with progress(f"building {projection.title}", quiet=as_json) as show:

            def show_build(build: Build) -> None:
                show(build.position - begin, store.newest() - begin)

            try:
                built = rebuild(
                    store, views, projection, HOLDER,
                    begin=begin, reported=show_build, recorder=session.recorder,
                )  # fmt: skip
            except BuildHeld as error:
                raise Leave(str(error), 2) from error
        rows, waiting = len(views.rows(built)), len(views.parked(built))
    after = f" after event {begin:,}" if begin else ""
    events = count(built.position - begin, "event")
    lacks = f"; {count(waiting, 'stream')} parked: see `watchkeeper ledger parked list`"
    document = {"projection": built.title, "position": built.position, "from": begin, "rows": rows}
    return (
        {**document, "parked": waiting},
        f"{built.title} is built from {events}{after}: {count(rows, 'row')}, and in "
        f"use{lacks if waiting else ''}",
    )


def _rebuild_status(home: Path, as_json: bool) -> tuple[dict[str, Any], str]:
    """Rewrite the status row of every run. Appends continue to write rows meanwhile.

    Returns:
        The result, for programs and for people.
    """
    with (
        open_session(home) as session,
        views_of(session) as views,
        progress("building status", quiet=as_json) as show,
    ):
        try:
            done = rebuild_status(session.ledger.store, views, HOLDER, reported=show)
        except BuildHeld as error:
            raise Leave(str(error), 2) from error
    title = f"{STATUS}@{done.shape}"
    changed = f"{done.changed} had different rows, {done.dropped} were removed"
    document = {"projection": title, "runs": done.runs, "changed": done.changed}
    text = f"{title} is built for {count(done.runs, 'run')}: {changed}"
    return {**document, "dropped": done.dropped}, text


@ledger.group()
def parked() -> None:
    """Show and retry events that a view could not process. Later events of their run wait."""


@parked.command("list")
@home_option
@json_errors
def list_parked(home: Path, as_json: bool) -> None:
    """List parked events, oldest first. Exit 1 when there is one."""
    with open_session(home, reading=True) as session, views_to_read(session) as views:
        now = [build for build in views.builds() if build.state is not BuildState.OLD]
        titles = {build.id: build.title for build in now}
        rows = [_row(titles, one, session) for one in views.parked() if one.build in titles]
    lines = [f"{count(len(rows), 'stream')} parked"]
    if rows:
        heads = ("view", "stream", "event", "position", "waiting", "tries", "why")
        keys = ("projection", "stream", "version", "position", "waiting", "attempts", "error")
        lines += table(heads, [tuple(str(row[key]) for key in keys) for row in rows])
        lines.append("upgrade watchkeeper or fix the reported cause, then: ledger parked retry")
    say(as_json, {"parked": rows}, "\n".join(lines))
    if rows:
        leave_quietly(1)


def _row(titles: dict[int, str], one: Parked, session: Session) -> dict[str, Any]:
    version, _ = session.ledger.store.head(one.stream)
    return {
        "projection": titles[one.build],
        "stream": one.stream,
        "version": one.version,
        "position": one.position,
        "waiting": version - one.version,
        "attempts": one.attempts,
        "parked_at": one.parked_at.isoformat(),
        "error": one.error,
    }


@parked.command("retry")
@click.argument("runs", nargs=-1)
@home_option
@json_errors
def retry_parked(runs: tuple[str, ...], home: Path, as_json: bool) -> None:
    """Retry parked events of all runs or of RUNS, with the events that wait behind them.

    A watch retries them whenever it starts. Exit 1 when some are still parked.
    """
    with open_session(home) as session, views_of(session) as views:
        _refuse_not_parked(runs, sorted({one.stream for one in views.parked()}), session)
        chosen = _of_runs(runs)
        released, left = retry_all(session.ledger.store, views, by_title(PROJECTIONS), chosen)
    text = f"{count(released, 'stream')} processed, {left} still parked"
    say(as_json, {"released": released, "parked": left}, text)
    if left:
        leave_quietly(1)


def _refuse_not_parked(runs: tuple[str, ...], streams: list[str], session: Session) -> None:
    parked_names = {name for stream in streams for name in (stream, stream.partition("/")[2])}
    strange = [name for name in runs if name not in parked_names]
    if not strange:
        return
    names = ", ".join(strange)
    if streams:
        there = f"; parked: {', '.join(streams)}; name one of these, or no run to retry all"
    else:
        there = ", and no other run has parked events: there is nothing to retry"
    views = newest_of(PROJECTIONS)
    if any(name.partition("@")[0] in {*views, STATUS} for name in strange):
        there += "; this is a view, not a run: rebuild it with `watchkeeper ledger rebuild VIEW`"
    elif not any(_is_stream(name, session) for name in strange):
        there += "; this ledger has no such run, see `watchkeeper status`"
    raise Leave(f"{names}: no event of it is parked{there}", 3)


def _is_stream(name: str, session: Session) -> bool:
    store = session.ledger.store
    return any(store.head(stream)[0] for stream in (name, f"run/{name}"))


def _of_runs(runs: tuple[str, ...]) -> Callable[[Build, Parked], bool]:
    def chosen(build: Build, one: Parked) -> bool:
        del build
        return not runs or one.stream.partition("/")[2] in runs or one.stream in runs

    return chosen


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
