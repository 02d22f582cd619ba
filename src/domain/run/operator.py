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
    """A human asked for a planned stop and a relaunch; the end of the instance is no failure.

    Attributes:
        instance: The one that is stopped, or has ended already.
        consent: The consent that it used up.
    """

    topic: ClassVar[str] = "run.relaunch_requested.1"
    instance: str
    reason: str
    consent: str


class RollbackPlanned(Fact):
    """A human named a checkpoint to go back to; nothing is done before its plan is approved.

    Attributes:
        plan: The exact instance that would follow.
        digest: The plan's identity, which an approval names.
        checkpoint: Path of the checkpoint.
        step: Its step; what lies above it would be rejected.
    """

    topic: ClassVar[str] = "run.rollback_planned.1"
    plan: LaunchPlan
    digest: str
    step: Step
    checkpoint: str
    reason: str


class RollbackApproved(Fact):
    """A human approved a rollback: the instance is ended, and the next one starts from there.

    Attributes:
        instance: The one whose lineage is left.
        approval: The approval that it rests on.
        consent: The consent that it used up.
        step: The step to go back to.
        checkpoint: Path of its checkpoint.
    """

    topic: ClassVar[str] = "run.rollback_approved.1"
    instance: str
    approval: str
    consent: str
    step: Step
    checkpoint: str
    reason: str


class LineageRejected(Fact):
    """What was trained beyond a step up to an instance is never resumed from.

    Attributes:
        through: The last instance that wrote it.
        above_step: Checkpoints above this step are rejected.
    """

    topic: ClassVar[str] = "run.lineage_rejected.1"
    through: str
    above_step: Step
    reason: str


class RunSuperseded(Fact):
    """A run of another name goes on in this one's place; nothing relaunches this one.

    Attributes:
        successor: The slug of the run that goes on.
        tracker_id: Identity at the tracker of this run.
        successor_tracker_id: Identity at the tracker of the successor.
        checkpoint: Path of the checkpoint that the successor starts from.
        step: Its step.
        output_root: Where this run wrote.
        successor_output_root: Where the successor writes.
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
    """This run goes on from another one's checkpoint.

    Attributes:
        ancestor: The slug of the run that it goes on from.
        ancestors: The whole chain, oldest first; the ancestor is the last.
        checkpoint: Path of the checkpoint that it starts from.
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
    """An earlier entry was wrong; it stays, and this says what is true.

    Attributes:
        corrects: The version of the event that is corrected.
    """

    topic: ClassVar[str] = "run.correction_recorded.1"
    corrects: PositiveInt
    text: str


class StopRequested(Fact):
    """A human asked for the end of the live instance; its end is then no failure.

    Attributes:
        consent: The consent that it used up.
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
    """Something is going to be done on purpose; what it is expected to cause raises no alarm.

    Attributes:
        act: Its short name, such as `act-1`.
        kind: What is done.
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
    """A planned act is over: its window has passed, or somebody said so.

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
    """What was announced, requested and verified outside a run's ordinary progress.

    Attributes:
        acts: Planned acts that are not ended, by name.
        acts_announced: How many were ever announced; names the next one.
        requested: The relaunch or rollback that a human requested and that is not launched yet.
        rollback: A rollback that waits for its approval.
        lineages: Rejected ones, oldest first.
        rejected_at: When the checkpoint of a rejected lineage was written, by its path: a later
            one under the same path is another lineage's.
        ancestor: The run that it continues; `None` for an independent run.
        stop_requested: The instance whose end a human requested; empty for none.
        stop_reason: Who requested the newest stop or ended the run, who allowed it, and why.
        given_up: The instance whose end a human requested while its state was unknown.
        stopped_at: The stopping point at which the watch once ended; it is not reached again.
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
