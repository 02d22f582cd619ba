"""`ledger stats` and `ledger weeks`: the ledger's size and weekly activity."""

import json
from collections.abc import Iterable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import click

from watchkeeper.adapters.cli.common import Session, open_session
from watchkeeper.adapters.cli.leaving import Leave, json_errors
from watchkeeper.adapters.cli.options import home_option, say
from watchkeeper.adapters.cli.progress import progress
from watchkeeper.adapters.cli.table import table
from watchkeeper.adapters.cli.viewing import views_to_read
from watchkeeper.domain.values.history_limits import HARD_EVENTS, SOFT_EVENTS
from watchkeeper.ports.views import BuildState, Views
from watchkeeper.projections.figures import count, human
from watchkeeper.projections.status.limits import beyond
from watchkeeper.projections.views.catalogue import PROJECTIONS
from watchkeeper.projections.views.sizes import SIZES, STREAM, TOPIC
from watchkeeper.projections.views.view import newest_of
from watchkeeper.projections.views.weeks import WEEKS
from watchkeeper.services.views.rebuild import catch_up

_SHOWN = 10


def level(session: Session, views: Views, as_json: bool) -> None:
    """Update every view to the end of the ledger, and show the progress."""
    store = session.ledger.store
    with progress("catching up", quiet=as_json) as show:
        while not catch_up(store, views, PROJECTIONS, limit=timedelta(milliseconds=200)):
            builds = views.builds()
            show(min(build.position for build in builds), store.newest())


def of_newer_release(titles: Iterable[str]) -> list[str]:
    """Return a sentence for each view of a newer release, which this release cannot update."""
    known = {name: one.version for name, one in newest_of(PROJECTIONS).items()}
    parts = [(title, *title.split("@")) for title in titles]
    return [
        f"{title}: built by a newer release, which this release cannot update: use that "
        f"release, or rebuild it with `watchkeeper ledger rebuild {name}`"
        for title, name, version in parts
        if name in known and int(version) > known[name]
    ]


def live(views: Views, name: str) -> dict[str, Any]:
    """Return the rows of a live view.

    Raises:
        Leave: The view is not updated any more, or a newer release made it.
    """
    why = f"the view {name} is not built: `watchkeeper ledger rebuild {name}`"
    for build in views.builds():
        if build.name != name:
            continue
        newer = of_newer_release([build.title]) if build.state is BuildState.LIVE else []
        why = build.error or (newer[0] if newer else why)
        if build.state is BuildState.LIVE and not build.error and not newer:
            return {key: json.loads(row) for key, row in views.rows(build).items()}
    raise Leave(why, 1)


@click.command()
@click.option(
    "--last",
    type=click.IntRange(min=1),
    default=_SHOWN,
    show_default=True,
    help="Show only this many of the largest runs.",
)
@home_option
@json_errors
def stats(last: int, home: Path, as_json: bool) -> None:
    """Show the size of the ledger: events and bytes by topic, and the largest runs."""
    with open_session(home, reading=True) as session, views_to_read(session) as views:
        level(session, views, as_json)
        rows = live(views, SIZES.name)
        kind = session.ledger.store.kind
        file = session.home.ledger
        size = file.stat().st_size if kind == "sqlite" else None
    streams = _largest(rows, STREAM)
    topics = _largest(rows, TOPIC)
    events = sum(row["events"] for _, row in topics)
    held = sum(row["bytes"] for _, row in topics)
    runs = [(name, row) for name, row in streams if name.startswith("run/")]
    document = {
        "store": kind,
        "events": events,
        "bytes": held,
        "bytes_per_event": round(held / events, 1) if events else None,
        "file_bytes": size,
        "streams": len(streams),
        "runs": len(runs),
        "topics": [{"topic": name, **row} for name, row in topics],
        "largest": [
            {"stream": name, **row, "limit": beyond(row["events"], row["bytes"])}
            for name, row in streams[:last]
        ],
    }
    each = f", {held / events:.0f} bytes each" if events else ""
    on_disk = f"; {human(size)}B on disk" if size is not None else ""
    lines = [f"{count(events, 'event')} of {count(len(runs), 'run')}{each}{on_disk} ({kind})"]
    lines += table(("topic", "events", "bytes", "each"), [_cells(*one) for one in topics])
    lines.append(f"largest of {count(len(streams), 'stream')}; limits are {SOFT_EVENTS:,} and "
                 f"{HARD_EVENTS:,} events")  # fmt: skip
    largest = [(*_cells(*one), beyond(one[1]["events"], one[1]["bytes"])) for one in streams[:last]]
    lines += table(("stream", "events", "bytes", "each", "limit"), largest)
    say(as_json, document, "\n".join(lines))


def _largest(rows: Mapping[str, Any], prefix: str) -> list[tuple[str, Any]]:
    some = [(key.removeprefix(prefix), row) for key, row in rows.items() if key.startswith(prefix)]
    return sorted(some, key=lambda one: (-one[1]["bytes"], one[0]))


def _cells(name: str, row: Mapping[str, int]) -> tuple[str, ...]:
    each = row["bytes"] / row["events"]
    return name, f"{row['events']:,}", human(row["bytes"]), f"{each:.0f}"


@click.command()
@click.option(
    "--last",
    type=click.IntRange(min=1),
    default=8,
    show_default=True,
    help="Show only this many of the newest weeks.",
)
@home_option
@json_errors
def weeks(last: int, home: Path, as_json: bool) -> None:
    """Show each week's figures: interruptions by cause, decisions, questions, findings."""
    with open_session(home, reading=True) as session, views_to_read(session) as views:
        level(session, views, as_json)
        rows = live(views, WEEKS.name)
    found: dict[str, list[dict[str, Any]]] = {}
    for key, row in sorted(rows.items()):
        week, what, name = key.split(" ", 2)
        found.setdefault(week, []).append({"what": what, "name": name, **row})
    shown = {week: found[week] for week in sorted(found)[-last:]}
    cells = [
        (week, row["what"], row["name"], str(row["count"]))
        for week, some in shown.items()
        for row in some
    ]
    lines = [count(len(shown), "week")]
    lines += table(("week", "what", "which", "times"), cells) if cells else []
    say(as_json, {"weeks": shown}, "\n".join(lines))
