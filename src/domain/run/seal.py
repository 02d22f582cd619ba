"""Events and state of seals and milestones."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from pydantic import PositiveInt

from watchkeeper.domain.run.fact import Fact
from watchkeeper.domain.values.basic import Step

# --- Ends -----------------------------------------------------------------------------------------


class SealBlocked(Fact):
    """A seal was attempted, and the named items are missing."""

    topic: ClassVar[str] = "run.seal_blocked.1"
    missing: tuple[str, ...]


class SealVerified(Fact):
    """Everything that a seal needs was verified. The tag comes next.

    Attributes:
        tag: The annotated tag to push.
        commit: The exact launch commit, which the tag will name.
        final_step: Proven by the final checkpoint.
        tracker_step: The tracker's own count, which may be one less.
        metrics: Final values.
        caveats: What a reader should know.
        waived: The waived missing items, each with its consent.
    """

    topic: ClassVar[str] = "run.seal_verified.1"
    tag: str
    commit: str
    instance: str
    final_step: Step
    checkpoint: str
    tracker_id: str
    display_name: str
    tracker_state: str
    tracker_step: Step | None
    output_root: str
    metrics: dict[str, float]
    caveats: tuple[str, ...]
    waived: tuple[str, ...] = ()


class RunSealed(Fact):
    """The run is sealed and closed. No event follows.

    Attributes:
        head: Version and chain hash that the tag's message names.
    """

    topic: ClassVar[str] = "run.sealed.1"
    tag: str
    commit: str
    head: str


# --- Output roots ---------------------------------------------------------------------------------


# --- Effects --------------------------------------------------------------------------------------


class MilestoneVerified(Fact):
    """A checkpoint of a running run was verified for a tag. Phase and watch stay unchanged.

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


SealEvent = SealBlocked | SealVerified | RunSealed

MilestoneEvent = MilestoneVerified


@dataclass(frozen=True, slots=True)
class SealState:
    """Verified milestones, and the missing items of a seal.

    Attributes:
        missing: The missing items of the newest blocked seal; empty once it is verified.
        milestones: Verified milestones by tag.
    """

    missing: tuple[str, ...] = ()
    milestones: Mapping[str, MilestoneVerified] = field(
        default_factory=dict[str, MilestoneVerified]
    )
