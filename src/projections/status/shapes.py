"""The shapes in which status rows are written: the newest, and an older one for one release."""

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
"""Oldest first. A change of what rows hold adds a shape here, and removes the one before the last:
the older one goes on to be written and read until rows of the newer one stand for every run."""
