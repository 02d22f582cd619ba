"""Further sources on a run: attempts, capacity, hosts, metrics, telemetry.

Each is one part of an observation. What a source did not report is `None` or empty, never a guess.
"""

from enum import StrEnum
from typing import Annotated

from pydantic import AwareDatetime, Field, NonNegativeInt, model_validator

from watchkeeper.domain.values.basic import ForeignText, JobState, Step, Value

HISTORY_POINTS_MAX = 10_000
"""Newest points of a tracker's history read at a check."""

ATTEMPTS_MAX = 256
"""Attempts reported of a job: those that failed first, then the newest."""

NODES_MAX = 256
"""Machines reported of a cluster."""

OTHERS_MAX = 16
"""Other jobs reported."""

HOSTS_MAX = 256
"""Hosts reported of a cluster: those with the least free disk first."""

Line = Annotated[ForeignText, Field(max_length=2_000)]


class AttemptState(StrEnum):
    """An orchestrator's word on one try of one task."""

    PENDING = "pending"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    KILLED = "killed"
    PREEMPTED = "preempted"
    WORKER_FAILED = "worker_failed"
    UNKNOWN = "unknown"


class AttemptFacts(Value):
    """One try of one task of a job.

    Attributes:
        task: Its name at the orchestrator, such as `/alice/run/0`, or a rank.
        attempt: Which try it is, from 0.
        state: See `AttemptState`.
        started_at: By the orchestrator's clock.
        ended_at: By the orchestrator's clock; none while it lives.
        exit_code: 0 to 255; none where a signal ended it or nobody saw.
        signal: The number of the signal that ended it.
        oom: The orchestrator's own flag that memory ran out; none where it has no such flag.
        memory_asked_bytes: What it asked for.
        memory_peak_bytes: What it used at most.
        node: Machine that it ran on.
        worker_failure: The machine failed it, by the orchestrator; none where it does not tell.
        message: The orchestrator's own sentence.
    """

    task: str
    attempt: NonNegativeInt = 0
    state: AttemptState
    started_at: AwareDatetime | None = None
    ended_at: AwareDatetime | None = None
    exit_code: int | None = None
    signal: int | None = None
    oom: bool | None = None
    memory_asked_bytes: int | None = None
    memory_peak_bytes: int | None = None
    node: str = ""
    worker_failure: bool | None = None
    message: Line = ""


class CapacityFacts(Value):
    """What the orchestrator says about the machines that a job waits for or has.

    Attributes:
        pending_reason: Why it waits, in the orchestrator's words.
        wanted: Workers, slices or nodes that it asked for.
        granted: How many of them it has.
        unmet: Demands that nothing serves, such as `{"TPU-v5p-8-head": 1}`.
        provisioning: Machines that are being started; null if unknown.
        hardware: What it was given, such as `v5p-8`; empty if unknown.
    """

    pending_reason: Line = ""
    wanted: NonNegativeInt | None = None
    granted: NonNegativeInt | None = None
    unmet: tuple[str, ...] = ()
    provisioning: NonNegativeInt | None = None
    hardware: str = ""


class NodeFacts(Value):
    """A machine of the cluster, as the orchestrator reports it.

    Attributes:
        node: Its name or id.
        alive: Whether it counts as alive; none where the orchestrator cannot tell.
        since: When that began.
        reason: Why it is not, in the orchestrator's words.
    """

    node: str
    alive: bool | None
    since: AwareDatetime | None = None
    reason: Line = ""


class MountFacts(Value):
    """A folder that is to be a mount, such as one of gcsfuse.

    Attributes:
        path: The folder.
        mounted: Whether it is one; none where nobody could tell.
    """

    path: str
    mounted: bool | None


class HostFacts(Value):
    """Disk and mounts of one machine.

    Attributes:
        host: Its name.
        path: The file system that was measured.
        total_bytes: What its jobs can fill: used and free. Blocks that the system keeps for itself
            are in neither, so that the shares are those of `df`.
        free_bytes: What is free of it.
        mounts: Folders that are to be mounts.
        at: When it was measured.
    """

    host: str
    path: str = "/"
    total_bytes: NonNegativeInt | None = None
    free_bytes: NonNegativeInt | None = None
    mounts: tuple[MountFacts, ...] = ()
    at: AwareDatetime | None = None


class MetricHistory(Value):
    """What was logged step by step: the newest points, oldest first.

    Attributes:
        steps: Steps in the order in which they were logged; a resume may step back.
        times: When each was logged, in seconds since 1970; empty if unknown.
        columns: Values by metric name, one for each step; NaN where a step has none of it, so a
            logged NaN travels in `not_finite`.
        not_finite: Steps at which a metric was logged as NaN or infinite, by metric name.
    """

    steps: tuple[Step, ...] = ()
    times: tuple[float, ...] = ()
    columns: dict[str, tuple[float, ...]] = {}
    not_finite: dict[str, tuple[Step, ...]] = {}

    @model_validator(mode="after")
    def _columns_are_as_long_as_the_steps(self) -> "MetricHistory":
        lengths = {name: len(column) for name, column in self.columns.items()}
        if self.times:
            lengths["times"] = len(self.times)
        wrong = {name: length for name, length in lengths.items() if length != len(self.steps)}
        if wrong:
            name, length = next(iter(wrong.items()))
            raise ValueError(f"{name}: expected {len(self.steps)} values as in steps, got {length}")
        return self


class TrainingPhase(StrEnum):
    """Where a job says that it is: the three phases of the stall contract of practice."""

    NOT_STARTED = "not_started"
    INITIALISING = "initialising"
    TRAINING = "training"


class TelemetryFacts(Value):
    """What the job's own gauges say, such as a Prometheus endpoint.

    Attributes:
        at: The newest sample's time.
        phase: Where the job says that it is.
        step: Its step gauge.
        progress_at: When it last made progress, by its own gauge.
        values: Further gauges by name, at most 64.
    """

    at: AwareDatetime | None = None
    phase: TrainingPhase | None = None
    step: Step | None = None
    progress_at: AwareDatetime | None = None
    values: dict[str, float] = {}


class OtherJob(Value):
    """Another job that may have to do with this run.

    Attributes:
        job: Its id at the orchestrator.
        state: The orchestrator's word on it.
        root: The output root that it writes to; empty if unknown.
        diagnostic: It is known to be a trial or a diagnosis and no production job.
        run: The slug that it carries; empty for none.
        submitted_at: When it was submitted.
    """

    job: str
    state: JobState
    root: str = ""
    diagnostic: bool | None = None
    run: str = ""
    submitted_at: AwareDatetime | None = None


class ClusterFacts(Value):
    """What an orchestrator says around a job: what it waits for, the machines, other live jobs.

    Attributes:
        capacity: What the job waits for or has; none where the job is not there.
        nodes: The machines, at most `NODES_MAX`; those that are not alive first.
        others: Other live jobs that carry the run's slug or its output root, at most `OTHERS_MAX`.
    """

    capacity: CapacityFacts | None = None
    nodes: tuple[NodeFacts, ...] = ()
    others: tuple[OtherJob, ...] = ()
