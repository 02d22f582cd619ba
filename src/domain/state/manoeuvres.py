"""What of a run's state comes from handovers, planned acts and manoeuvres."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from watchkeeper.domain.facts.handover import PlannedActAnnounced
from watchkeeper.domain.facts.manoeuvres import (
    AncestorNamed,
    MilestoneVerified,
    RelaunchRequested,
    RollbackApproved,
    RollbackPlanned,
)


@dataclass(frozen=True, slots=True)
class RejectedLineage:
    """What was trained beyond a step, up to an instance, and left.

    Attributes:
        through: The last instance that wrote it.
        at: When it was rejected: what is written later belongs to another lineage.
    """

    above_step: int
    through: str
    reason: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Manoeuvres:
    """What was announced, asked for and verified beside a run's ordinary life.

    Attributes:
        acts: Planned acts that are not ended, by name.
        acts_announced: How many were ever announced; names the next one.
        asked: The relaunch or rollback that a human asked for and that is not launched yet.
        rollback: A rollback that waits for its approval.
        lineages: Rejected ones, oldest first.
        rejected_at: When the checkpoint of a rejected lineage was written, by its path: a later
            one under the same path is another lineage's.
        ancestor: Where the run comes from; none for a run that began by itself.
        milestones: Verified ones by tag.
        stop: Who asked for the newest stop and who allowed it, with the reason.
        stopped_at: The stopping point at which the watch ended once; it is not reached again.
    """

    acts: Mapping[str, PlannedActAnnounced] = field(default_factory=dict[str, PlannedActAnnounced])
    acts_announced: int = 0
    asked: RelaunchRequested | RollbackApproved | None = None
    rollback: RollbackPlanned | None = None
    lineages: tuple[RejectedLineage, ...] = ()
    rejected_at: Mapping[str, datetime] = field(default_factory=dict[str, datetime])
    ancestor: AncestorNamed | None = None
    milestones: Mapping[str, MilestoneVerified] = field(
        default_factory=dict[str, MilestoneVerified]
    )
    stop: str = "a person on record"
    stopped_at: str = ""
