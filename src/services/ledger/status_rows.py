"""Status rows of a run, as an append writes them."""

from collections.abc import Sequence

from watchkeeper.domain.run.outbox.effects import Effects
from watchkeeper.domain.run.run import Run, Unreadable
from watchkeeper.ports.event_store import StatusRow
from watchkeeper.projections.status.live_row import part_name
from watchkeeper.projections.status.shapes import SHAPES, Shape
from watchkeeper.services.ledger.scrub_and_encode import to_json


def rows_of_run(run: Run | Unreadable, shapes: Sequence[Shape] = SHAPES) -> list[StatusRow]:
    """Return a run's rows, one for each shape."""
    return [
        StatusRow(run.slug, part_name("run", shape.version), to_json(shape.run(run)))
        for shape in shapes
    ]


def rows_of_effects(
    slug: str, effects: Effects, shapes: Sequence[Shape] = SHAPES
) -> list[StatusRow]:
    """Return the rows of a run's effects, one for each shape."""
    return [
        StatusRow(slug, part_name("effects", shape.version), to_json(shape.effects(effects)))
        for shape in shapes
    ]
