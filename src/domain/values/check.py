"""The parts of a check: health, progress and start-up facts."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import AwareDatetime, Field, PositiveInt

from watchkeeper.domain.values.basic import (
    CheckpointFacts,
    ForeignText,
    JobFacts,
    Reading,
    Step,
    Value,
)
from watchkeeper.domain.values.causes import CauseClaim
from watchkeeper.domain.values.observation.liveness import Liveness
from watchkeeper.domain.values.observation.measured import Measured
from watchkeeper.domain.values.observation.sources import (
    AttemptFacts,
    CapacityFacts,
    HostFacts,
    NodeFacts,
    OtherJob,
    TelemetryFacts,
)
from watchkeeper.domain.values.observation.tracker_doubts import TrackerFit
from watchkeeper.domain.values.text_evidence import Raised, TrackerLink


class Health(StrEnum):
    """A check's verdict on the run. Missing checks never change it."""

    HEALTHY = "healthy"
    DEGRADED = "degraded"
    UNHEALTHY = "unhealthy"
    UNKNOWN = "unknown"


class Progress(Value):
    """The known progress of training.

    Attributes:
        step: The newest step by any source.
        uncertainty: The error of the step in both directions, for rounded progress bars.
        source: `tracker` or `logs`.
        doubt: A contradicting value of another source that was not used; else empty.
    """

    step: Step
    uncertainty: int = 0
    source: Literal["tracker", "logs"]
    doubt: Annotated[str, Field(max_length=300)] = ""


class Startup(Value):
    """The start-up facts in the job's first lines.

    Attributes:
        resumed_step: The step from which the job says that it resumed.
        scratch: Whether the job says that it started from scratch.
        forbidden: Lines with a text of `policy.lines_forbidden`, at most 4.
        expected: Texts of `policy.lines_expected` that were seen so far.
        whole: Whether the whole output was read, so that a missing text is proven. Only set if the
            contract names texts.
        checkpoint: The checkpoint that the job says it loads; empty if unknown.
        output_path: The output path that the job names; empty if unknown.
    """

    resumed_step: Step | None = None
    scratch: bool = False
    forbidden: tuple[str, ...] = ()
    expected: tuple[str, ...] = ()
    whole: bool = False
    checkpoint: Annotated[str, Field(max_length=1_000)] = ""
    output_path: Annotated[str, Field(max_length=1_000)] = ""


class Severity(StrEnum):
    """How urgently a finding needs a person."""

    NOTIFY = "notify"
    ALERT = "alert"


class Check(Value):
    """One judged observation, with every number that the rules read."""

    instance: str
    token: PositiveInt
    health: Health
    because: str
    readings: tuple[Reading, ...]
    job: JobFacts | None
    progress: Progress | None
    metrics: dict[str, float]
    tracker_id: str
    tracker_state: str
    startup: Startup = Startup.model_construct()
    evidence: tuple[ForeignText, ...] = ()
    traceback: bool = False
    traceback_of_stop: bool = False
    checkpoints_complete: tuple[Step, ...]
    checkpoints_incomplete: tuple[CheckpointFacts, ...] = ()
    new_checkpoints: tuple[CheckpointFacts, ...] = ()
    observation: str
    next_due: AwareDatetime
    lease_until: AwareDatetime
    display_name: str = ""
    tracker_twins: tuple[str, ...] = ()
    tracker_links: tuple[TrackerLink, ...] = ()
    expected: tuple[str, ...] = ()
    measured: Measured = Measured.model_construct()
    liveness: Liveness = Liveness.model_construct()
    claims: tuple[CauseClaim, ...] = ()
    attempts: tuple[AttemptFacts, ...] = ()
    capacity: CapacityFacts | None = None
    nodes: tuple[NodeFacts, ...] = ()
    hosts: tuple[HostFacts, ...] = ()
    telemetry: TelemetryFacts | None = None
    others: tuple[OtherJob, ...] = ()
    maximum_shown: Step | None = None
    raised: Raised | None = None
    tracker_fit: TrackerFit = TrackerFit.model_construct()


def render_progress(step: int, uncertainty: int, maximum: int | None) -> str:
    """Format progress for people, such as `~4600/5155` or `~4600/unknown`.

    Args:
        step: The newest step known.
        uncertainty: How far the true step may lie from it, in steps.
        maximum: The final step as resolved from configuration or code, never from a bar.
    """
    if maximum is None:
        return f"~{step}/unknown"
    # Rounding may show a step past the end: 1,499 appears as 1.50k. That is no overrun.
    if step - uncertainty <= maximum < step:
        return f"~{maximum}/{maximum}"
    return f"~{step}/{maximum}"
