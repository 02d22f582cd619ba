"""Compares kept views with the ledger that they were made of: each with a fold of its own."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from watchkeeper.audit import Report
from watchkeeper.event_store import EventStore
from watchkeeper.following import Pages, ViewAhead, same_ledger
from watchkeeper.projections.figures import count
from watchkeeper.projections.kept import Projection, Row, Seen
from watchkeeper.tailer import PAGE
from watchkeeper.views import BuildState, Snapshot


@dataclass(slots=True)
class _Fold:
    """A view on its way: as it is kept, and as the ledger has it by now."""

    kept: Snapshot
    projection: Projection
    parked: dict[str, int]
    rows: dict[str, Row] = field(default_factory=dict[str, Row])
    failed: str = ""


def compare_views(
    store: EventStore,
    kept: Sequence[Snapshot],
    projections: Sequence[Projection],
    report: Report,
    told: Callable[[int, int], None] = lambda _done, _whole: None,
) -> None:
    """Compare each live view with a fold of the ledger as far as the view has come.

    The ledger is read once, a page at a time; in memory are the rows. A view may be behind, and may
    have begun at a later event: it must be right for what it counts. Events that it parked, and
    those behind them, it does not count.

    Args:
        store: The ledger; it may grow meanwhile.
        kept: The views, each as it was at one moment.
        projections: What this code knows.
        report: Filled in.
        told: Called with how many events were read, and of how many.

    Raises:
        StoreFailure: The ledger could not be read.
    """
    known = {one.title: one for one in projections}
    folds: list[_Fold] = []
    for one in kept:
        build = one.build
        if build.state is not BuildState.LIVE:
            continue
        if build.title not in known:
            report.notes.append(f"view {build.title} is of another release: it was not compared")
            continue
        try:
            same_ledger(build, Pages(store, ()).after(build.position))
        except ViewAhead as error:
            report.problems.append(f"view {error}")
            continue
        folds.append(
            _Fold(one, known[build.title], {parked.stream: parked.version for parked in one.parked})
        )
    begin = min((one.kept.build.begin for one in folds), default=0)
    end = max((one.kept.build.position for one in folds), default=0)
    after = begin
    while after < end and (page := store.read_all(after=after, limit=PAGE)):
        for r in page:
            seen = Seen(r.position, r.stream, r.version, r.topic, r.state, r.hash)
            for fold in folds:
                _take(fold, seen)
        after = page[-1].position
        told(min(after, end) - begin, end - begin)
    report.problems += [problem for one in folds if (problem := _judged(one))]


def _take(one: _Fold, seen: Seen) -> None:
    """Fold an event as the view did; one that it counted and this code cannot fold ends it."""
    build = one.kept.build
    if one.failed or not build.begin < seen.position <= build.position:
        return
    if seen.stream in one.parked and seen.version >= one.parked[seen.stream]:
        return
    fold = one.projection.fold
    try:
        one.rows |= {key: fold(key, one.rows.get(key), seen) for key in one.projection.keys(seen)}
    except Exception as error:  # noqa: BLE001 - Told; a fold may raise anything.
        where = f"event {seen.version} of {seen.stream}"
        one.failed = f"{where} cannot be folded, and is not parked: {type(error).__name__}: {error}"


def _judged(one: _Fold) -> str:
    """Say what is wrong with a view; empty when nothing is."""
    title, next_step = one.kept.build.title, f"`watchkeeper ledger rebuild {one.projection.name}`"
    if one.failed:
        return f"view {title}: {one.failed}: {next_step}"
    rows = one.kept.rows
    differ = sorted(
        key
        for key in rows.keys() | one.rows.keys()
        if key not in rows or key not in one.rows or not _same(rows[key], one.rows[key])
    )
    if not differ:
        return ""
    some = f"{count(len(differ), 'row')} {'differs' if len(differ) == 1 else 'differ'}"
    where = f"from the ledger at event {one.kept.build.position}"
    return f"view {title}: {some} {where}, first {differ[0]!r}: {next_step}"


def _same(there: str, made: Row) -> bool:
    try:
        return bool(json.loads(there) == json.loads(json.dumps(made)))
    except (ValueError, RecursionError):
        return False
