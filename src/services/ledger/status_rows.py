"""Status rows of runs: written by each append, rewritten on request."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import reduce

from watchkeeper import clock
from watchkeeper.domain.run.envelope import Undecodable, decode
from watchkeeper.domain.run.outbox.effects import Effects, effects_stream, evolve_effects
from watchkeeper.domain.run.run import Run, Unreadable
from watchkeeper.ports.event_store import (
    Append,
    Appended,
    EventStore,
    StatusRow,
    VersionConflict,
    Write,
)
from watchkeeper.projections.status.writer import effects_row, status_row
from watchkeeper.services.ledger.fast_fold import fold_history
from watchkeeper.services.ledger.scrub_and_encode import to_json

BATCH = 50
"""The number of runs whose rows are written in one transaction."""

TRIES_MAX = 20
"""How often a run is folded again if its events arrive faster than the fold."""


def rows_of_run(run: Run | Unreadable) -> list[StatusRow]:
    """Return the row of a run."""
    return [StatusRow(run.slug, "run", to_json(status_row(run)))]


def rows_of_effects(slug: str, effects: Effects) -> list[StatusRow]:
    """Return the row of a run's effects."""
    return [StatusRow(slug, "effects", to_json(effects_row(effects)))]


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """The result of a rebuild.

    Attributes:
        runs: The number of written runs.
        changed: How many of them had different rows before, or no rows.
        dropped: The number of removed rows of runs without a history.
    """

    runs: int
    changed: int
    dropped: int


def rebuild_status(
    store: EventStore, reported: Callable[[int, int], None] = lambda _done, _whole: None
) -> Rebuilt:
    """Write the rows of every run from its history, and remove rows of runs without a history.

    Rows are written only while the history is at the version that was folded, so an append that
    comes first is never overwritten. A repeated rebuild changes nothing.

    Raises:
        VersionConflict: One run changes too fast.
        StoreFailure: The store failed.
    """
    slugs = [name.removeprefix("run/") for name in store.streams("run/")]
    before = {(row.run, row.part): row.row for row in store.status_rows()}
    changed = 0
    for first in range(0, len(slugs), BATCH):
        some = slugs[first : first + BATCH]
        changed += sum(
            any(before.get((row.run, row.part)) != row.row for row in rows)
            for rows in _write(store, some)
        )
        reported(first + len(some), len(slugs))
    known = set(slugs)
    lost = [StatusRow(run, part, "") for run, part in before if run not in known]
    store.append([], status=lost)
    return Rebuilt(len(slugs), changed, len(lost))


def _write(store: EventStore, slugs: Sequence[str]) -> list[Sequence[StatusRow]]:
    """Write the rows of some runs; return them."""
    written: list[Sequence[StatusRow]] = []
    left = list(slugs)
    for _ in range(TRIES_MAX):
        appends = [_folded(store, slug) for slug in left]
        outcomes = store.append_batch(appends)
        done = [isinstance(outcome, Appended) for outcome in outcomes]
        written += [a.status for a, stored in zip(appends, done, strict=True) if stored]
        left = [slug for slug, stored in zip(left, done, strict=True) if not stored]
        if not left:
            return written
        clock.sleep(timedelta(milliseconds=10))
    raise VersionConflict(f"run/{left[0]}: its history grows faster than it is folded")


def _folded(store: EventStore, slug: str) -> Append:
    """Return an append that writes a run's rows only if its history is unchanged."""
    run, version = fold_history(store, Run(slug))
    stored = store.read(effects_stream(slug))
    writes = [Write(f"run/{slug}", version, ())]
    rows = rows_of_run(run)
    if stored:
        writes.append(Write(effects_stream(slug), len(stored), ()))
        try:
            events = [decode(r.stream, r.version, r.topic, r.state) for r in stored]
            rows += rows_of_effects(slug, reduce(evolve_effects, events, Effects()))
        except Undecodable as error:
            rows = rows_of_run(Unreadable(slug, version, f"its effects: {error}"))
    return Append(writes, status=rows)
