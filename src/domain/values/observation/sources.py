"""Facts of the optional sources: attempts, capacity, hosts, metrics, telemetry.

Each type is one part of an observation. A value that a source did not report is `None` or empty.
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
    """The orchestrator's state of one attempt of one task."""

    PENDING = "pending"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    KILLED = "killed"
    PREEMPTED = "preempted"
    WORKER_FAILED = "worker_failed"
    UNKNOWN = "unknown"


class AttemptFacts(Value):
    """One attempt of one task of a job.

    Attributes:
        task: The task's name at the orchestrator, such as `/alice/run/0`, or a rank.
        attempt: The number of the attempt, from 0.
        state: See `AttemptState`.
        started_at: By the orchestrator's clock.
        ended_at: By the orchestrator's clock; null while it is live.
        exit_code: The exit code, 0 to 255; null after a signal or if unknown.
        signal: The number of the signal that ended it.
        oom: The orchestrator's flag that memory ran out; null without such a flag.
        memory_asked_bytes: The requested memory.
        memory_peak_bytes: The highest used memory.
        node: The machine of the attempt.
        worker_failure: Whether the orchestrator blames the machine; null if it does not say.
        message: The orchestrator's message.
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
    """The orchestrator's facts about the machines that a job waits for or has.

    Attributes:
        pending_reason: Why the job waits, in the orchestrator's words.
        wanted: The number of requested workers, slices or nodes.
        granted: The number of granted ones.
        unmet: Demands that nothing serves, such as `{"TPU-v5p-8-head": 1}`.
        provisioning: Machines that are being started; null if unknown.
        hardware: The granted hardware, such as `v5p-8`; empty if unknown.
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
        alive: Whether it is alive; null if the orchestrator does not know.
        since: When this state began.
        reason: Why it is not alive, in the orchestrator's words.
    """

    node: str
    alive: bool | None
    since: AwareDatetime | None = None
    reason: Line = ""


class MountFacts(Value):
    """A folder that must be a mount, such as a gcsfuse mount.

    Attributes:
        path: The folder.
        mounted: Whether it is a mount; null if unknown.
    """

    path: str
    mounted: bool | None


class HostFacts(Value):
    """Disk and mounts of one machine.

    Attributes:
        host: Its name.
        path: The file system that was measured.
        total_bytes: The used and free bytes, without blocks that are reserved for the system, as
            `df` counts.
        free_bytes: The free bytes.
        mounts: Folders that must be mounts.
        at: When it was measured.
    """

    host: str
    path: str = "/"
    total_bytes: NonNegativeInt | None = None
    free_bytes: NonNegativeInt | None = None
    mounts: tuple[MountFacts, ...] = ()
    at: AwareDatetime | None = None


class MetricHistory(Value):
    """The newest points of the metric history, oldest first.

    Attributes:
        steps: Steps in the order in which they were logged; a resume may step back.
        times: When each was logged, in seconds since 1970; empty if unknown.
        columns: Values by metric name, one for each step. NaN means that the step has no value;
            logged NaNs are in `not_finite`.
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
    """The phase that a job reports."""

    NOT_STARTED = "not_started"
    INITIALISING = "initialising"
    TRAINING = "training"


class TelemetryFacts(Value):
    """The values of a job's own gauges, such as from a Prometheus endpoint.

    Attributes:
        at: The newest sample's time.
        phase: The phase that the job reports.
        step: Its step gauge.
        progress_at: The time of the last progress, by its own gauge.
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
        job: The job's id at the orchestrator.
        state: The orchestrator's state of the job.
        root: The output root that it writes to; empty if unknown.
        diagnostic: Whether it is known to be a trial or diagnostic job.
        run: The run's slug in its metadata; empty without one.
        submitted_at: When it was submitted.
    """

    job: str
    state: JobState
    root: str = ""
    diagnostic: bool | None = None
    run: str = ""
    submitted_at: AwareDatetime | None = None


class ClusterFacts(Value):
    """The surroundings of a job: its capacity, the machines and other live jobs.

    Attributes:
        capacity: The capacity that the job waits for or has; null if the job does not exist.
        nodes: The machines, at most `NODES_MAX`; dead machines first.
        others: Other live jobs with the run's slug or output root, at most `OTHERS_MAX`.
    """

    capacity: CapacityFacts | None = None
    nodes: tuple[NodeFacts, ...] = ()
    others: tuple[OtherJob, ...] = ()
