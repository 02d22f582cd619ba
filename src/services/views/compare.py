"""Compares kept views with a fresh fold of the ledger.

The ledger is read in pages, and the kept rows one by one. The rows of the fresh fold are in memory:
some hundred bytes each, and a run has about ten.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from watchkeeper.ports.event_store import EventStore
from watchkeeper.ports.views import BuildState, Snapshot
from watchkeeper.projections.verification import Kind, Problem
from watchkeeper.projections.views.view import Projection, Row, Seen
from watchkeeper.services.ledger.verify import Report
from watchkeeper.services.views.catch_up import Pages, ViewAhead, same_ledger


@dataclass(slots=True)
class _Fold:
    """A view during the comparison: its kept rows, and its fold of the ledger so far.

    Attributes:
        failed: Where and why the fold failed; None if it did not.
    """

    kept: Snapshot
    projection: Projection
    rows: dict[str, Row] = field(default_factory=dict[str, Row])
    failed: Problem | None = None


def compare_views(
    store: EventStore,
    kept: Sequence[Snapshot],
    projections: Sequence[Projection],
    report: Report,
    progress: Callable[[int, int], None] = lambda _done, _whole: None,
) -> None:
    """Compare each live view with a fold of the ledger up to the view's position.

    The ledger is read once, a page at a time. A view may be behind.
    It must be correct for the events that it has folded.

    Args:
        store: The ledger; it may grow meanwhile.
        kept: A snapshot of each view.
        projections: All projections of this code.
        report: Receives the problems and notes.
        progress: Called with the number of events read and the total.

    Raises:
        StoreFailure: The ledger could not be read.
        ViewsFailure: The views could not be read.
    """
    known = {one.title: one for one in projections}
    folds: list[_Fold] = []
    for one in kept:
        build = one.build
        if build.state is not BuildState.LIVE:
            continue
        if build.title not in known:
            report.notes.append(Problem(Kind.VIEW_OTHER_RELEASE, what=build.title))
            continue
        try:
            same_ledger(build, Pages(store, ()).after(build.position))
        except ViewAhead as error:
            report.problems.append(Problem(Kind.VIEW_AHEAD, detail=str(error)))
            continue
        folds.append(_Fold(one, known[build.title]))
    end = max((one.kept.build.position for one in folds), default=0)
    for page in store.pages() if end else ():
        for event in page:
            seen = Seen(
                event.position, event.stream, event.version, event.topic, event.state, event.hash
            )
            for fold in folds:
                _fold_event(fold, seen)
        progress(min(page[-1].position, end), end)
        if page[-1].position >= end:
            break
    report.problems += [problem for one in folds if (problem := _problem_of(one))]


def _fold_event(one: _Fold, seen: Seen) -> None:
    """Fold an event as the view did; note the failure if this code cannot fold it."""
    build = one.kept.build
    if one.failed or seen.position > build.position:
        return
    fold = one.projection.fold
    try:
        one.rows |= {key: fold(key, one.rows.get(key), seen) for key in one.projection.keys(seen)}
    except Exception as error:  # noqa: BLE001 - It is reported; a fold may raise anything.
        why = f"{type(error).__name__}: {error}"
        one.failed = Problem(Kind.VIEW_NOT_FOLDED, seen.stream, seen.version, build.title, why)


def _problem_of(fold: _Fold) -> Problem | None:
    """Return what is wrong with a view; None if nothing is."""
    if fold.failed:
        return fold.failed
    missing, wrong = set(fold.rows), list[str]()
    for key, text in fold.kept.rows():
        if key not in missing or not _same(text, fold.rows[key]):
            wrong.append(key)
        missing.discard(key)
    wrong += missing
    if not wrong:
        return None
    build = fold.kept.build
    return Problem(Kind.VIEW_DIFFERS, "", build.position, build.title, min(wrong), len(wrong))


def _same(kept_text: str, made: Row) -> bool:
    try:
        return bool(json.loads(kept_text) == json.loads(json.dumps(made)))
    except (ValueError, RecursionError):
        return False
