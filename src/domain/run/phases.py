"""The phases of a run. Each is a type, so impossible states cannot be built."""

from dataclasses import dataclass
from datetime import datetime

from watchkeeper.domain.run.ends import DecisionMade
from watchkeeper.domain.run.seal import SealVerified
from watchkeeper.domain.values.contract.plan import LaunchPlan


@dataclass(frozen=True, slots=True)
class Unborn:
    """No event yet. Ends by RunDrafted."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A contract without an approval. Ends by LaunchApproved."""


@dataclass(frozen=True, slots=True)
class Cleared:
    """Approved, nothing submitted. Ends by LaunchRequested."""


@dataclass(frozen=True, slots=True)
class Launching:
    """A submission id is recorded. The job may or may not exist.

    Ends by InstanceLaunched or LaunchRefused.
    """

    plan: LaunchPlan
    requested_at: datetime


@dataclass(frozen=True, slots=True)
class Stabilizing:
    """The job exists, and no step beyond its start was seen. Ends by a step or InstanceEnded."""

    plan: LaunchPlan
    launched_at: datetime


@dataclass(frozen=True, slots=True)
class Running:
    """Training advances. Ends by InstanceEnded."""

    plan: LaunchPlan
    launched_at: datetime


@dataclass(frozen=True, slots=True)
class Interrupted:
    """The instance ended badly. Ends by LaunchRequested, RunStopped or RunAbandoned.

    Attributes:
        plan: The instance that ended.
        ended_at: When its end was recorded.
        decision: The decision; null while a source that it needs is unavailable.
    """

    plan: LaunchPlan
    ended_at: datetime
    decision: DecisionMade | None


@dataclass(frozen=True, slots=True)
class Finished:
    """The orchestrator reports success, and artefacts are being verified. Ends by RunSealed."""

    plan: LaunchPlan
    verified: SealVerified | None


@dataclass(frozen=True, slots=True)
class Sealed:
    """The run is verified, tagged and closed. `step` is the step of the sealed checkpoint."""

    tag: str
    commit: str
    step: int


@dataclass(frozen=True, slots=True)
class Stopped:
    """A human ended the run. Nothing relaunches it."""

    reason: str


@dataclass(frozen=True, slots=True)
class Abandoned:
    """A human gave the run up. Nothing relaunches it."""

    reason: str


@dataclass(frozen=True, slots=True)
class Superseded:
    """Another run continues in its place. Nothing relaunches it."""

    successor: str
    reason: str


Phase = (
    Unborn
    | Draft
    | Cleared
    | Launching
    | Stabilizing
    | Running
    | Interrupted
    | Finished
    | Sealed
    | Stopped
    | Abandoned
    | Superseded
)

PHASES: tuple[type[Phase], ...] = (
    Unborn,
    Draft,
    Cleared,
    Launching,
    Stabilizing,
    Running,
    Interrupted,
    Finished,
    Sealed,
    Stopped,
    Abandoned,
    Superseded,
)


def phase_name(phase: Phase) -> str:
    """Return the name of a phase as people write it."""
    return type(phase).__name__.lower()


NOT_WATCHED = (Unborn, Draft, Cleared, Stopped, Abandoned, Superseded, Sealed)
"""Phases in which no check is due."""
