"""Events and state of a run's checkpoints."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar

from pydantic import AwareDatetime

from watchkeeper.domain.run.fact import Fact
from watchkeeper.domain.values.basic import CheckpointKind, Step


class CheckpointValidated(Fact):
    """A checkpoint is complete, its metadata has the right step, and it belongs to this lineage."""

    topic: ClassVar[str] = "run.checkpoint_validated.1"
    instance: str
    step: Step
    path: str
    kind: CheckpointKind
    written_at: AwareDatetime | None


class CheckpointRejected(Fact):
    """A checkpoint must not be resumed from.

    Attributes:
        written_at: When the rejected checkpoint was written. A later checkpoint under the same path
            belongs to another lineage. `None` rejects every checkpoint there.
    """

    topic: ClassVar[str] = "run.checkpoint_rejected.1"
    step: Step
    path: str
    reason: str
    written_at: AwareDatetime | None = None


CheckpointEvent = CheckpointValidated | CheckpointRejected


CHECKPOINTS_KEPT = 256
"""How many of the newest validated checkpoints the state remembers."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint that may be resumed from.

    Attributes:
        written_at: By the store's clock; `None` if it gives no time.
        seen_at: When a check first listed it.
    """

    step: int
    path: str
    kind: CheckpointKind
    version: int
    written_at: datetime | None = None
    seen_at: datetime | None = None

    @property
    def came_at(self) -> datetime | None:
        """The time of its write if known, else when it was first listed."""
        return self.written_at or self.seen_at


@dataclass(frozen=True, slots=True)
class CheckpointsState:
    """The state of a run's checkpoints.

    Attributes:
        validated: The newest checkpoints that may be resumed from, by step.
        rejected: Paths that must not be resumed from, with the reason.
        unverified: Rejected checkpoints that are complete but have no known metadata step, by step.
    """

    validated: Mapping[int, Checkpoint] = field(default_factory=dict[int, Checkpoint])
    rejected: Mapping[str, str] = field(default_factory=dict[str, str])
    unverified: Mapping[int, Checkpoint] = field(default_factory=dict[int, Checkpoint])
