"""Rebuilds status rows in each shape, next to the live shape."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import reduce

from watchkeeper import clock
from watchkeeper.domain.run.envelope import Undecodable, decode
from watchkeeper.domain.run.outbox.effects import Effects, effects_stream, evolve_effects
from watchkeeper.domain.run.run import Run, Unreadable
from watchkeeper.ports.event_store import Append, Appended, EventStore, StatusRow, Write
from watchkeeper.ports.views import Build, Move, Views
from watchkeeper.projections.status.live_row import (
    MARKER_PART,
    MARKER_RUN,
    live_shape,
    part_of,
)
from watchkeeper.projections.status.shapes import SHAPES, Shape
from watchkeeper.services.ledger.fast_fold import fold_history
from watchkeeper.services.ledger.status_rows import rows_of_effects, rows_of_run
from watchkeeper.services.views.catch_up import LEASE
from watchkeeper.services.views.rebuild import BuildHeld, claim

NAME = "status"
BATCH = 50
"""The number of runs whose rows are written in one transaction."""

TRIES_MAX = 20
"""How often a run is folded again if its events arrive faster than the fold."""

_LAST = "last"


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """The result of a rebuild.

    Attributes:
        shape: The shape that is live now.
        runs: The number of written runs.
        changed: How many of them had different rows before, or no rows.
        dropped: The number of removed rows, of other shapes or of runs without a history.
    """

    shape: int
    runs: int
    changed: int
    dropped: int


def needs_building(store: EventStore, shapes: Sequence[Shape] = SHAPES) -> bool:
    """Say whether the newest shape is not live yet and no newer release made its shape live."""
    return live_shape(store.status_rows()) < shapes[-1].version


def rebuild_status(
    store: EventStore,
    views: Views,
    holder: str,
    shapes: Sequence[Shape] = SHAPES,
    reported: Callable[[int, int], None] = lambda _done, _whole: None,
) -> Rebuilt:
    """Write the newest shape's rows of every run from its history, then make that shape live.

    Rows are written only while the history is at the version that was folded, so an append that
    comes first is never overwritten. Appends of this release also write the new shape. An
    interrupted rebuild is continued.

    Raises:
        BuildHeld: Another process runs the same rebuild, or one run changes too fast.
        StoreFailure: The store failed.
        ViewsFailure: The progress could not be kept.
    """
    newest = shapes[-1].version
    slugs = [name.removeprefix("run/") for name in store.streams("run/")]
    build = views.begin(NAME, newest, begin=0, digest=b"", target=len(slugs))
    claim(views, build, holder)
    last = views.rows(build, [_LAST]).get(_LAST, "")
    todo = [slug for slug in slugs if slug > last]
    runs = len(slugs) - len(todo)
    changed = 0
    stored = {(row.run, row.part): row.row for row in store.status_rows()}
    for first in range(0, len(todo), BATCH):
        if not views.take(build, holder, clock.now() + LEASE, clock.now()):
            raise BuildHeld("another process builds the status rows: wait for it")
        some = todo[first : first + BATCH]
        written = _write(store, some, shapes[-1])
        changed += sum(
            any(stored.get((row.run, row.part)) != row.row for row in rows) for rows in written
        )
        runs += len(some)
        # After a crash between the two, the same rows are written once more.
        moved = views.move(build, Move(runs, b"", {_LAST: some[-1]}))
        if moved is None:
            raise BuildHeld("another process builds the status rows: wait for it")
        build = moved
        reported(runs, len(slugs))
    dropped = _switch(store, newest, set(slugs))
    views.drop(build)
    return Rebuilt(newest, runs, changed, dropped)


def _write(store: EventStore, slugs: Sequence[str], shape: Shape) -> list[list[StatusRow]]:
    """Write the rows of some runs; return them."""
    written: list[list[StatusRow]] = []
    left = list(slugs)
    for _ in range(TRIES_MAX):
        appends = [_folded(store, slug, shape) for slug in left]
        outcomes = store.append_batch(appends)
        done = [isinstance(outcome, Appended) for outcome in outcomes]
        written += [list(a.status) for a, well in zip(appends, done, strict=True) if well]
        left = [slug for slug, well in zip(left, done, strict=True) if not well]
        if not left:
            return written
        clock.sleep(timedelta(milliseconds=10))
    raise BuildHeld(f"{left[0]}: its history grows faster than it is folded: try again")


def _folded(store: EventStore, slug: str, shape: Shape) -> Append:
    """Return an append that writes a run's rows only if its history is unchanged."""
    run, version = fold_history(store, Run(slug))
    stored = store.read(effects_stream(slug))
    writes = [Write(f"run/{slug}", version, ())]
    rows = rows_of_run(run, (shape,))
    if stored:
        writes.append(Write(effects_stream(slug), len(stored), ()))
        try:
            events = [decode(r.stream, r.version, r.topic, r.state) for r in stored]
            rows += rows_of_effects(slug, reduce(evolve_effects, events, Effects()), (shape,))
        except Undecodable as error:
            rows = rows_of_run(Unreadable(slug, version, f"its effects: {error}"), (shape,))
    return Append(writes, status=rows)


def _switch(store: EventStore, shape: int, slugs: set[str]) -> int:
    """Make a shape live and drop the rows of all other shapes in one transaction."""
    old = [
        row
        for row in store.status_rows()
        if row.row
        and row.run != MARKER_RUN
        and (part_of(row.part)[1] != shape or row.run not in slugs)
    ]
    rows = [StatusRow(row.run, row.part, "") for row in old]
    if shape != 1:
        rows.append(StatusRow(MARKER_RUN, MARKER_PART, str(shape)))
    store.append([], status=rows)
    return len(old)


def progress_of(views: Views) -> Build | None:
    """Return the unfinished build of status rows, or None."""
    return next((build for build in views.builds() if build.name == NAME), None)
