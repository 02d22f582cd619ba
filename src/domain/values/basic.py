"""Small typed values that events, observations and ports share."""

from enum import StrEnum
from typing import Annotated

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, StringConstraints


class Value(BaseModel):
    """A frozen value: unknown fields are refused, NaN and infinities travel as strings.

    A validator is built when it is first used. So a command pays only for the values that it reads,
    and a default is made by `model_construct`, which needs no validator.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", ser_json_inf_nan="strings", defer_build=True
    )


Slug = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]{0,79}$")]
"""A run's name: lower-case letters, digits, dot, underscore and hyphen, at most 80."""

Step = Annotated[int, Field(ge=0)]
"""A training step, counted from 0."""


ForeignText = Annotated[str, "foreign"]
"""Text of another program or a person. Only `reading` looks into it; a rule may quote it."""


class SourceState(StrEnum):
    """How much a source's answer is worth."""

    FRESH = "fresh"
    STALE = "stale"
    UNAVAILABLE = "unavailable"


BUFFERED = "buffered"
"""The first words of the reason of a source that buffers until the run ends, by design."""


class Reading(Value):
    """What one source said about itself at one check.

    Attributes:
        source: `orchestrator`, `logs`, `tracker`, `checkpoints`, `history`, `attempts`, `cluster`,
            `telemetry` or `hosts`.
        state: Fresh, stale or unavailable.
        clock: The newest time that the source itself gives, when it gives one.
        reason: Why it is stale or unavailable; of a fresh one what of it could not be read.
    """

    source: str
    state: SourceState
    clock: AwareDatetime | None = None
    reason: str = ""


class JobState(StrEnum):
    """An orchestrator's word on one job.

    `not_found` is a definite answer of a reachable orchestrator. `unknown` means that it was
    reached and cannot tell; it is never read as ended.
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
"""The states in which the orchestrator does not know the fate of a job. They prove no end."""


class JobFacts(Value):
    """What an orchestrator says about one submission.

    Attributes:
        submission_id: The id fixed before the submit.
        state: The orchestrator's word on it.
        started_at: When the job began, by the orchestrator's clock.
        ended_at: When it ended, by the orchestrator's clock.
        exit_code: The entrypoint's exit code, 0 to 255; none when a signal ended it.
        signal: The number of the signal that ended it. A shell's 128 + n is read as signal n.
        error_type: The orchestrator's own class of the end, such as `JOB_SUPERVISOR_ACTOR_DIED`.
        message: The orchestrator's own sentence, at most 2,000 characters.
        attempts_failed: Attempts that the orchestrator itself saw fail inside this job.
        attempts_left: Retries that the orchestrator still has; none when it has no such notion.
        metadata: What the submit carried, such as the run's slug.
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
    """What the experiment tracker says about the run.

    Attributes:
        tracker_id: The id found there.
        display_name: The name found there.
        state: `running`, `finished`, `failed`, `crashed`, `killed` or `unknown`, in the tracker's
            own opinion. `crashed` only means that it has not heard from the run for a while.
        step: The newest step logged; none when nothing was logged yet.
        heartbeat_at: The newest time that the tracker gives.
        metrics: The newest value by metric name; at most 64.
        url: Where people look at it.
        twins: Ids of other runs there that are running under the same display name; at most 4.
        final_step: The last step by the configuration that the tracker holds; none where it says
            none.
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
        complete: `metadata.json` is present and could be read.
        kind: By `is_temporary` in the metadata; unknown while incomplete.
        metadata_step: The step that the metadata names.
        written_at: When the metadata was written, by the store's clock.
        size_bytes: Its size, where the store was asked for it.
        reason: Why it is not complete; empty when it is.
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

    An empty list is only ever the answer of a store that was reached and has nothing there.

    Attributes:
        root: The folder that was listed.
        checkpoints: What lies directly below it.
    """

    root: str
    checkpoints: tuple[CheckpointFacts, ...] = ()


class Carried(Value):
    """What an adopted job had besides its command and variables; each relaunch repeats it.

    Attributes:
        runtime_env: Its runtime environment on Ray as JSON, without variables; empty for none.
        resources: What it reserves, by Ray's names.
        metadata: Its metadata.
    """

    runtime_env: str = ""
    resources: dict[str, float] = {}
    metadata: dict[str, str] = {}


class JobSpec(Value):
    """One job to submit, complete except for secret values.

    Attributes:
        submission_id: Fixed before the submit; the orchestrator refuses a second one.
        command: The exact argument vector.
        env: Plain environment variables; secrets are never among them.
        env_from: Names of variables that are read from our own environment at submit.
        working_dir: Folder that the job starts in; empty for the orchestrator's default.
        metadata: Carried with the job and returned by it: run, instance.
        carried: What the adopted job had besides; none where nothing was adopted.
    """

    submission_id: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,199}$")]
    command: tuple[str, ...]
    env: dict[str, str] = {}
    env_from: tuple[str, ...] = ()
    working_dir: str = ""
    metadata: dict[str, str] = {}
    carried: Carried | None = None


def is_buffered(reading: Reading) -> bool:
    """Return whether a source is silent because it buffers, which is no trouble."""
    return reading.state is SourceState.UNAVAILABLE and reading.reason.startswith(BUFFERED)
