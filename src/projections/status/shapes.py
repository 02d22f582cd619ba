"""The shapes of status rows: the newest, and an older one for one release."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from watchkeeper.domain.run.outbox.effects import Effects
from watchkeeper.domain.run.run import Run, Unreadable
from watchkeeper.projections.status.writer import effects_row, status_row


@dataclass(frozen=True, slots=True)
class Shape:
    """One shape of the rows, `status@<version>`.

    Attributes:
        run: Makes a run's row.
        effects: Makes the row of its effects.
    """

    version: int
    run: Callable[[Run | Unreadable], Mapping[str, Any]]
    effects: Callable[[Effects], Mapping[str, Any]]


SHAPES: tuple[Shape, ...] = (Shape(1, status_row, effects_row),)
"""All shapes, oldest first. A change of the row content adds a shape here and removes the last but
one. The older shape is written and read until every run has rows of the newer one."""
