"""Ledgers full of whole histories, for tests of what works on all of one."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from tests.domain.given import History
from tests.projections.tales import TALES
from watchkeeper.domain.run.envelope import encode
from watchkeeper.domain.run.run import Run
from watchkeeper.ports.event_store import EventStore, Write
from watchkeeper.projections.views.view import Projection, Row, Seen
from watchkeeper.services.ledger.status_rows import rows_of_run


def told(store: EventStore, tales: Iterable[str] = TALES) -> list[str]:
    """Record each tale as a run of its own name; return the slugs.

    Every third append has a key, so that some events lie in appends with one.
    """
    slugs: list[str] = []
    for name in tales:
        history: History = TALES[name]()
        slug = name.replace("_", "-")
        for number, event in enumerate(history.events):
            topic, state = encode(event.envelope)
            run = replace(history.run, slug=slug) if number == len(history.events) - 1 else None
            store.append(
                [Write(f"run/{slug}", number, ((topic, state),))],
                key=f"check/{slug}/{number}" if number % 3 == 0 else None,
                digest=b"\x01" * 32 if number % 2 else b"",
                status=rows_of_run(run) if isinstance(run, Run) else (),
            )
        slugs.append(slug)
    return slugs


def fold_rows(
    projection: Projection, rows: Mapping[str, Row], events: Iterable[Seen]
) -> dict[str, Row]:
    """Return rows after more events: the reference meaning of a projection."""
    after = dict(rows)
    for seen in events:
        for key in projection.keys(seen):
            after[key] = projection.fold(key, after.get(key), seen)
    return after
