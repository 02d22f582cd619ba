"""Checkpoints: validated, rejected, and what may be resumed from."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar

from pydantic import AwareDatetime

from watchkeeper.domain.run.fact import Fact
from watchkeeper.domain.values.basic import CheckpointKind, Step


class CheckpointValidated(Fact):
    """A checkpoint is complete, its metadata names its step, and it lies in this lineage."""

    topic: ClassVar[str] = "run.checkpoint_validated.1"
    instance: str
    step: Step
    path: str
    kind: CheckpointKind
    written_at: AwareDatetime | None


class CheckpointRejected(Fact):
    """A checkpoint must not be resumed from.

    Attributes:
        written_at: When it was written, where only that one is meant: a later one under the same
            path belongs to another lineage. None rejects whatever stands there.
    """

    topic: ClassVar[str] = "run.checkpoint_rejected.1"
    step: Step
    path: str
    reason: str
    written_at: AwareDatetime | None = None


CheckpointEvent = CheckpointValidated | CheckpointRejected


CHECKPOINTS_KEPT = 256
"""Validated checkpoints remembered in state: the newest; older ones stay in the events."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint that may be resumed from.

    Attributes:
        written_at: By the store's clock; `None` if it gives no time.
        seen_at: When a check first listed it: it was there by then.
    """

    step: int
    path: str
    kind: CheckpointKind
    version: int
    written_at: datetime | None = None
    seen_at: datetime | None = None

    @property
    def came_at(self) -> datetime | None:
        """When it came, as far as known: the time it was written, else first listed."""
        return self.written_at or self.seen_at


@dataclass(frozen=True, slots=True)
class CheckpointsState:
    """What is known of a run's checkpoints.

    Attributes:
        validated: The newest that may be resumed from, by step.
        rejected: Paths that must not be resumed from, with the reason.
        unverified: Rejected ones that are complete, but whose metadata step is unknown; by step.
    """

    validated: Mapping[int, Checkpoint] = field(default_factory=dict[int, Checkpoint])
    rejected: Mapping[str, str] = field(default_factory=dict[str, str])
    unverified: Mapping[int, Checkpoint] = field(default_factory=dict[int, Checkpoint])
