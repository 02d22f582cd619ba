"""Small typed values that events, observations and ports share."""

from enum import StrEnum
from typing import Annotated

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, StringConstraints


class Value(BaseModel):
    """A frozen value: unknown fields are refused, NaN and infinities travel as strings.

    Validators are built at their first use, so that a command builds only those it needs. Defaults
    use `model_construct`, which needs no validator.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", ser_json_inf_nan="strings", defer_build=True
    )


Slug = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]{0,79}$")]
"""A run's name: lower-case letters, digits, dot, underscore and hyphen, at most 80."""

Step = Annotated[int, Field(ge=0)]
"""A training step, counted from 0."""


ForeignText = Annotated[str, "foreign"]
"""Text of another program or a person. Only `domain.reading` parses it; rules may quote it."""


class SourceState(StrEnum):
    """How current a source's answer is."""

    FRESH = "fresh"
    STALE = "stale"
    UNAVAILABLE = "unavailable"


BUFFERED = "buffered"
"""The first words of the reason if a source buffers its data until the run ends."""


class Reading(Value):
    """The state of one source's answer at a check.

    Attributes:
        source: `orchestrator`, `logs`, `tracker`, `checkpoints`, `history`, `attempts`, `cluster`,
            `telemetry` or `hosts`.
        state: Fresh, stale or unavailable.
        clock: The newest time in the source's answer; null if it has no time.
        reason: Why it is stale or unavailable, or which part of a fresh answer was unreadable.
    """

    source: str
    state: SourceState
    clock: AwareDatetime | None = None
    reason: str = ""


class JobState(StrEnum):
    """The state of one job, as the orchestrator reports it.

    `not_found` is a definite answer. `unknown` means that the orchestrator answered but does not
    know. It never counts as ended.
    """

    NOT_FOUND = "not_found"
    PENDING = "pending"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"
    UNKNOWN = "unknown"


TERMINAL = frozenset({JobState.SUCCEEDED, JobState.FAILED, JobState.STOPPED})
"""The states that end an instance. A step count or silence never does."""


LIVE = frozenset({JobState.PENDING, JobState.RUNNING})
"""The states of a job that waits or runs."""

UNACCOUNTABLE = frozenset({JobState.NOT_FOUND, JobState.UNKNOWN})
"""The states in which the orchestrator does not know a job's fate. They do not prove an end."""


class JobFacts(Value):
    """The orchestrator's facts about one submission.

    Attributes:
        submission_id: The id fixed before the submit.
        state: The orchestrator's state of the job.
        started_at: When the job began, by the orchestrator's clock.
        ended_at: When it ended, by the orchestrator's clock.
        exit_code: The entrypoint's exit code, 0 to 255; null if a signal ended it.
        signal: The number of the signal that ended it. A shell's 128 + n is read as signal n.
        error_type: The orchestrator's own class of the end, such as `JOB_SUPERVISOR_ACTOR_DIED`.
        message: The orchestrator's message, at most 2,000 characters.
        attempts_failed: Failed attempts inside this job, as the orchestrator counts them.
        attempts_left: The orchestrator's remaining retries; null if it has no retries.
        metadata: The metadata of the submit, such as the run's slug.
    """

    submission_id: str
    state: JobState
    started_at: AwareDatetime | None = None
    ended_at: AwareDatetime | None = None
    exit_code: int | None = None
    signal: int | None = None
    error_type: str | None = None
    message: ForeignText = ""
    attempts_failed: int = 0
    attempts_left: int | None = None
    metadata: dict[str, str] = {}


class TrackerFacts(Value):
    """The experiment tracker's facts about the run.

    Attributes:
        tracker_id: The run's id in the tracker.
        display_name: The run's display name in the tracker.
        state: `running`, `finished`, `failed`, `crashed`, `killed` or `unknown`, as the tracker
            reports it. `crashed` only means that the tracker received nothing for a while.
        step: The newest logged step; null if nothing was logged yet.
        heartbeat_at: The newest time that the tracker gives.
        metrics: The newest value by metric name; at most 64.
        url: The link for people.
        twins: Ids of other runs there that are running under the same display name; at most 4.
        final_step: The final step in the tracker's copy of the configuration; null if unknown.
    """

    tracker_id: str
    display_name: str
    state: str
    step: Step | None = None
    heartbeat_at: AwareDatetime | None = None
    metrics: dict[str, float] = {}
    url: str = ""
    twins: tuple[str, ...] = ()
    final_step: Step | None = None


class CheckpointKind(StrEnum):
    """Whether retention keeps a checkpoint for good."""

    PERMANENT = "permanent"
    TEMPORARY = "temporary"
    UNKNOWN = "unknown"


class CheckpointFacts(Value):
    """One checkpoint folder as it was found.

    Attributes:
        step: The number in the folder's name `step-N`.
        path: Its URL, without a trailing slash.
        complete: Whether `metadata.json` exists and is readable.
        kind: By `is_temporary` in the metadata; unknown while incomplete.
        metadata_step: The step that the metadata names.
        written_at: When the metadata was written, by the store's clock.
        size_bytes: Its size; null if the size was not queried.
        reason: Why it is not complete; empty if it is complete.
    """

    step: Step
    path: str
    complete: bool
    kind: CheckpointKind = CheckpointKind.UNKNOWN
    metadata_step: Step | None = None
    written_at: AwareDatetime | None = None
    size_bytes: int | None = None
    reason: str = ""


class CheckpointListing(Value):
    """The checkpoints below one root, in numeric step order, newest last.

    An empty list means that the store answered and has no checkpoints there.

    Attributes:
        root: The folder that was listed.
        checkpoints: The checkpoints directly below it.
    """

    root: str
    checkpoints: tuple[CheckpointFacts, ...] = ()


class Carried(Value):
    """Other settings of an adopted job, which each relaunch repeats.

    Attributes:
        runtime_env: Its Ray runtime environment as JSON, without variables; empty without one.
        resources: Its reserved resources, by Ray's names.
        metadata: Its metadata.
    """

    runtime_env: str = ""
    resources: dict[str, float] = {}
    metadata: dict[str, str] = {}


class JobSpec(Value):
    """One job to submit, complete except for secret values.

    Attributes:
        submission_id: The id fixed before the submit. The orchestrator refuses a second job with
            it.
        command: The exact argument vector.
        env: Plain environment variables; secrets are never among them.
        env_from: Names of variables that are read from our own environment at submit.
        working_dir: Folder that the job starts in; empty for the orchestrator's default.
        metadata: Metadata of the submit: run and instance.
        carried: Other settings of the adopted job; null if no job was adopted.
    """

    submission_id: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,199}$")]
    command: tuple[str, ...]
    env: dict[str, str] = {}
    env_from: tuple[str, ...] = ()
    working_dir: str = ""
    metadata: dict[str, str] = {}
    carried: Carried | None = None


def is_buffered(reading: Reading) -> bool:
    """Return whether a source is only silent because it buffers its data."""
    return reading.state is SourceState.UNAVAILABLE and reading.reason.startswith(BUFFERED)
