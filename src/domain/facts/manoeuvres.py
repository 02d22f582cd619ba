"""What is recorded of manoeuvres: planned relaunch, rollback, successor, milestone."""

from typing import ClassVar

from pydantic import PositiveInt

from watchkeeper.domain.contracts.plan import LaunchPlan
from watchkeeper.domain.facts.fact import Fact
from watchkeeper.domain.values import Step


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


class MilestoneVerified(Fact):
    """A checkpoint of a run that goes on was verified, to be tagged; phase and watch stay.

    Attributes:
        step: The step that was reached.
        checkpoint: Path of its checkpoint.
        commit: The exact launch commit, which the tag names.
        tracker_id: Identity that the tracker showed.
        tracker_step: The newest step that the tracker showed.
        metrics: The newest values by name, at most 16.
    """

    topic: ClassVar[str] = "run.milestone_verified.1"
    tag: str
    commit: str
    instance: str
    step: PositiveInt
    checkpoint: str
    tracker_id: str
    display_name: str
    tracker_step: Step | None
    output_root: str
    metrics: dict[str, float]


class MilestoneTagPushed(Fact):
    """The remote holds the annotated tag of a milestone.

    Attributes:
        head: Version and chain hash of the run that the tag's message names.
    """

    topic: ClassVar[str] = "effects.milestone_tag_pushed.1"
    tag: str
    target: str
    head: str


ManoeuvreEvent = (
    RelaunchRequested
    | RollbackPlanned
    | RollbackApproved
    | LineageRejected
    | RunSuperseded
    | AncestorNamed
    | MilestoneVerified
)
