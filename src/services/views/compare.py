"""Compares kept views with the ledger that they were made of: each with a fold of its own.

Memory holds neither the ledger nor a view: events are read by pages, of the rows that they make so
many are held and the others put aside, and at the end both sides are read in the order of the keys.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from watchkeeper.ports.event_store import EventStore
from watchkeeper.ports.views import BuildState, Scratch, Snapshot, ViewsFailure
from watchkeeper.projections.figures import count
from watchkeeper.projections.views.view import Projection, Row, Seen
from watchkeeper.services.ledger.verify import Report
from watchkeeper.services.views.catch_up import Pages, ViewAhead, same_ledger

HELD_MAX = 10_000
"""Rows of a view in memory; a row takes some hundred bytes, and most homes have fewer."""


@dataclass(slots=True)
class _Fold:
    """A view on its way: as it is kept, and as the ledger has it by now.

    Attributes:
        scratch: Has the rows that are not held, and older ones of those that are.
        rows: Those that are held.
        spilled: Some were put aside.
        failed: Why it was given up; empty when it was not.
    """

    kept: Snapshot
    projection: Projection
    parked: dict[str, int]
    scratch: Scratch
    rows: dict[str, Row] = field(default_factory=dict[str, Row])
    spilled: bool = False
    failed: str = ""

    def row(self, key: str) -> Row | None:
        """Return a row as it is by now."""
        held = self.rows.get(key)
        if held is not None or not self.spilled:
            return held
        text = self.scratch.get(self.projection.title, key)
        return None if text is None else json.loads(text)

    def spill(self) -> None:
        """Put aside what is held."""
        texts = {key: json.dumps(row) for key, row in self.rows.items()}
        self.scratch.put(self.projection.title, texts)
        self.rows, self.spilled = {}, True

    def made(self) -> Iterator[tuple[str, Row]]:
        """Give all rows in the order of the keys' bytes, which is that of their characters."""
        if not self.spilled:
            yield from sorted(self.rows.items())
            return
        self.spill()
        for key, text in self.scratch.rows(self.projection.title):
            yield key, json.loads(text)


def compare_views(
    store: EventStore,
    kept: Sequence[Snapshot],
    projections: Sequence[Projection],
    scratch: Scratch,
    report: Report,
    told: Callable[[int, int], None] = lambda _done, _whole: None,
) -> None:
    """Compare each live view with a fold of the ledger as far as the view has come.

    The ledger is read once, a page at a time. A view may be behind, and may have begun at a later
    event: it must be right for what it counts. Events that it parked, and those behind them, it
    does not count.

    Args:
        store: The ledger; it may grow meanwhile.
        kept: The views, each as it was at one moment.
        projections: What this code knows.
        scratch: Takes rows that memory should not hold.
        report: Filled in.
        told: Called with how many events were read, and of how many.

    Raises:
        StoreFailure: The ledger could not be read.
        ViewsFailure: The views could not be read, or rows not put aside.
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
        parked = {parked.stream: parked.version for parked in one.parked}
        folds.append(_Fold(one, known[build.title], parked, scratch))
    begin = min((one.kept.build.begin for one in folds), default=0)
    end = max((one.kept.build.position for one in folds), default=0)
    for page in store.pages(after=begin) if begin < end else ():
        for r in page:
            seen = Seen(r.position, r.stream, r.version, r.topic, r.state, r.hash)
            for fold in folds:
                _take(fold, seen)
        for fold in folds:
            if len(fold.rows) > HELD_MAX:
                fold.spill()
        told(min(page[-1].position, end) - begin, end - begin)
        if page[-1].position >= end:
            break
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
        one.rows |= {key: fold(key, one.row(key), seen) for key in one.projection.keys(seen)}
    except ViewsFailure:
        raise
    except Exception as error:  # noqa: BLE001 - Told; a fold may raise anything.
        where = f"event {seen.version} of {seen.stream}"
        one.failed = f"{where} cannot be folded, and is not parked: {type(error).__name__}: {error}"


def _judged(one: _Fold) -> str:
    """Say what is wrong with a view; empty when nothing is."""
    title, next_step = one.kept.build.title, f"`watchkeeper ledger rebuild {one.projection.name}`"
    if one.failed:
        return f"view {title}: {one.failed}: {next_step}"
    number, first = 0, ""
    for key in _differing(one.kept.rows(), one.made()):
        first = first if number else key
        number += 1
    if not number:
        return ""
    some = f"{count(number, 'row')} {'differs' if number == 1 else 'differ'}"
    where = f"from the ledger at event {one.kept.build.position}"
    return f"view {title}: {some} {where}, first {first!r}: {next_step}"


def _differing(kept: Iterator[tuple[str, str]], made: Iterator[tuple[str, Row]]) -> Iterator[str]:
    """Yield the keys that only one side has, or whose rows are not the same, in order."""
    left, right = next(kept, None), next(made, None)
    while left is not None or right is not None:
        if right is None or (left is not None and left[0] < right[0]):
            assert left is not None, "one of the two is there"
            yield left[0]
            left = next(kept, None)
        elif left is None or right[0] < left[0]:
            yield right[0]
            right = next(made, None)
        else:
            if not _same(left[1], right[1]):
                yield left[0]
            left, right = next(kept, None), next(made, None)


def _same(there: str, made: Row) -> bool:
    try:
        return bool(json.loads(there) == json.loads(json.dumps(made)))
    except (ValueError, RecursionError):
        return False
