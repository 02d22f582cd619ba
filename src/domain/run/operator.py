"""The events of operator acts: relaunch, rollback, successor, milestone."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import ClassVar

from pydantic import AwareDatetime, PositiveInt

from watchkeeper.domain.run.fact import Fact
from watchkeeper.domain.values.basic import Step
from watchkeeper.domain.values.contract.plan import LaunchPlan
from watchkeeper.domain.values.earlier import RejectedLineage


class RelaunchRequested(Fact):
    """A human requested a stop and relaunch. The end of the instance is not a failure.

    Attributes:
        instance: The instance that is stopped, or has ended already.
        consent: The consent that was used up.
    """

    topic: ClassVar[str] = "run.relaunch_requested.1"
    instance: str
    reason: str
    consent: str


class RollbackPlanned(Fact):
    """A human planned a rollback to a checkpoint. Nothing happens before its approval.

    Attributes:
        plan: The exact plan of the next instance.
        digest: The plan's identity, which an approval names.
        checkpoint: Path of the checkpoint.
        step: Its step. Checkpoints above it would be rejected.
    """

    topic: ClassVar[str] = "run.rollback_planned.1"
    plan: LaunchPlan
    digest: str
    step: Step
    checkpoint: str
    reason: str


class RollbackApproved(Fact):
    """A human approved a rollback. The instance is ended, and the next starts from there.

    Attributes:
        instance: The instance whose lineage is abandoned.
        approval: The approval of the rollback.
        consent: The consent that was used up.
        step: The step of the rollback.
        checkpoint: Path of the checkpoint.
    """

    topic: ClassVar[str] = "run.rollback_approved.1"
    instance: str
    approval: str
    consent: str
    step: Step
    checkpoint: str
    reason: str


class LineageRejected(Fact):
    """Checkpoints beyond a step, up to an instance, are never resumed from.

    Attributes:
        through: The last instance of the lineage.
        above_step: Checkpoints above this step are rejected.
    """

    topic: ClassVar[str] = "run.lineage_rejected.1"
    through: str
    above_step: Step
    reason: str


class RunSuperseded(Fact):
    """Another run continues in this run's place. Nothing relaunches this run.

    Attributes:
        successor: The slug of the run that continues.
        tracker_id: This run's id at the tracker.
        successor_tracker_id: The successor's id at the tracker.
        checkpoint: Path of the checkpoint that the successor starts from.
        step: Its step.
        output_root: The output root of this run.
        successor_output_root: The output root of the successor.
        git_sha: The launch commit of this run.
        successor_git_sha: The successor's exact launch commit.
    """

    topic: ClassVar[str] = "run.superseded.1"
    successor: str
    reason: str
    tracker_id: str
    successor_tracker_id: str
    checkpoint: str
    step: Step
    output_root: str
    successor_output_root: str
    git_sha: str
    successor_git_sha: str


class AncestorNamed(Fact):
    """This run continues from another run's checkpoint.

    Attributes:
        ancestor: The slug of the earlier run.
        ancestors: The whole chain, oldest first; the ancestor is the last.
        checkpoint: Path of the checkpoint that this run starts from.
        step: Its step.
    """

    topic: ClassVar[str] = "run.ancestor_named.1"
    ancestor: str
    ancestors: tuple[str, ...]
    checkpoint: str
    step: Step
    reason: str


class NoteAdded(Fact):
    """Somebody added a remark."""

    topic: ClassVar[str] = "run.note_added.1"
    text: str


class CorrectionRecorded(Fact):
    """A person corrected an earlier entry, which stays in the record.

    Attributes:
        corrects: The version of the event that is corrected.
    """

    topic: ClassVar[str] = "run.correction_recorded.1"
    corrects: PositiveInt
    text: str


class StopRequested(Fact):
    """A human requested the end of the live instance. The end is not a failure.

    Attributes:
        consent: The consent that was used up.
    """

    topic: ClassVar[str] = "run.stop_requested.1"
    instance: str
    reason: str
    consent: str


class ActKind(StrEnum):
    """What kind of act is planned."""

    PAUSE = "pause"
    SWAP = "swap"
    DRILL = "drill"
    MAINTENANCE = "maintenance"


class PlannedActAnnounced(Fact):
    """A planned act was announced. Its expected findings raise no alarm.

    Attributes:
        act: Its short name, such as `act-1`.
        kind: The kind of act.
        starts_at: When its window begins.
        ends_at: When its window is over.
        expects: Rules whose findings are expected in the window, such as `H6`.
    """

    topic: ClassVar[str] = "run.planned_act_announced.1"
    act: str
    kind: ActKind
    starts_at: AwareDatetime
    ends_at: AwareDatetime
    expects: tuple[str, ...]
    reason: str


class PlannedActEnded(Fact):
    """A planned act is over, because its window has passed or somebody ended it.

    Attributes:
        act: Its short name.
    """

    topic: ClassVar[str] = "run.planned_act_ended.1"
    act: str
    reason: str


OperatorEvent = (
    RelaunchRequested
    | RollbackPlanned
    | RollbackApproved
    | LineageRejected
    | RunSuperseded
    | AncestorNamed
)

PlannedActEvent = PlannedActAnnounced | PlannedActEnded

PersonEvent = NoteAdded | CorrectionRecorded | StopRequested


@dataclass(frozen=True, slots=True)
class OperatorState:
    """The state of planned acts, requests and rollbacks.

    Attributes:
        acts: Planned acts that are not over, by name.
        acts_announced: How many acts were ever announced. It gives the next name.
        requested: The relaunch or rollback that a human requested and that is not launched yet.
        rollback: A rollback that waits for its approval.
        lineages: Rejected lineages, oldest first.
        rejected_at: When each rejected checkpoint was written, by path. A later checkpoint under
            the path belongs to another lineage.
        ancestor: The run that it continues; `None` for an independent run.
        stop_requested: The instance whose end a human requested; else empty.
        stop_reason: Who requested the newest stop or ended the run, who allowed it, and why.
        given_up: The instance whose end a human requested while its state was unknown.
        stopped_at: The stopping point at which the watch once ended. It is not used again.
    """

    acts: Mapping[str, PlannedActAnnounced] = field(default_factory=dict[str, PlannedActAnnounced])
    acts_announced: int = 0
    requested: RelaunchRequested | RollbackApproved | None = None
    rollback: RollbackPlanned | None = None
    lineages: tuple[RejectedLineage, ...] = ()
    rejected_at: Mapping[str, datetime] = field(default_factory=dict[str, datetime])
    ancestor: AncestorNamed | None = None
    stop_requested: str = ""
    stop_reason: str = "a person on record"
    given_up: str = ""
    stopped_at: str = ""
