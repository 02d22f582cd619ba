"""Facts that were read from outside sources at one time, before rules judge them."""

from pydantic import AwareDatetime

from watchkeeper.domain.values.basic import (
    Carried,
    CheckpointFacts,
    CheckpointListing,
    ForeignText,
    JobFacts,
    Reading,
    SourceState,
    TrackerFacts,
    Value,
)
from watchkeeper.domain.values.contract.contract import Lane
from watchkeeper.domain.values.observation.gate_facts import (
    BundleFacts,
    HardwareFacts,
    HomeFacts,
    Lineage,
    LogbookFacts,
    RepositoryFacts,
    StoreFacts,
    TrackerNames,
    WorktreeFacts,
)
from watchkeeper.domain.values.observation.sources import (
    AttemptFacts,
    CapacityFacts,
    HostFacts,
    MetricHistory,
    NodeFacts,
    OtherJob,
    TelemetryFacts,
)


class NamedLine(Value):
    """An output line with a text that the contract names.

    Attributes:
        text: The text in the contract.
        line: The first line with the text, at most 300 characters.
    """

    text: str
    line: ForeignText


class Observation(Value):
    """The facts of all sources at one check. A null fact is missing; its reading says why.

    Attributes:
        instance: The checked instance.
        at: When the reading began.
        readings: The state and the newest time of each source's answer.
        job: The orchestrator's facts about the job.
        log_lines: The tail of the job's output, oldest first.
        named_lines: Lines of a longer tail with texts that the contract names.
        log_cut: Whether the job printed more than was searched for these texts.
        tracker: The tracker's current facts.
        checkpoints: The checkpoints below the checkpoint root.
        attempts: The tries of the job's tasks, in time order.
        capacity: The capacity that the job waits for or has.
        nodes: Machines of the cluster that the orchestrator reports.
        history: The tracker's metric history.
        telemetry: The job's own gauges.
        hosts: Disks and mounts of the run's machines.
        others: Other jobs of the orchestrator that may have to do with this run.
    """

    instance: str
    at: AwareDatetime
    readings: tuple[Reading, ...]
    job: JobFacts | None = None
    log_lines: tuple[ForeignText, ...] = ()
    named_lines: tuple[NamedLine, ...] = ()
    log_cut: bool = False
    tracker: TrackerFacts | None = None
    checkpoints: CheckpointListing | None = None
    attempts: tuple[AttemptFacts, ...] = ()
    capacity: CapacityFacts | None = None
    nodes: tuple[NodeFacts, ...] = ()
    history: MetricHistory | None = None
    telemetry: TelemetryFacts | None = None
    hosts: tuple[HostFacts, ...] = ()
    others: tuple[OtherJob, ...] = ()


class StandingWaiver(Value):
    """A waiver that a human gives in advance, for one principal's launches in one lane.

    Attributes:
        name: Such as `sw-1`.
        lane: The lane that it covers.
        rule: The launch rule that it waives.
        requester: Whose launches it covers.
        reason: The human's words.
        by: The human who gave the waiver.
        until: When the waiver ends.
    """

    name: str
    lane: Lane
    rule: str
    requester: str
    reason: str
    by: str
    until: AwareDatetime


class JobDescription(Value):
    """A job as its orchestrator describes it. A missing fact is `None`.

    Attributes:
        job: Its state.
        command: Its argument vector.
        env: Its variables. Some values are secrets, so the variables are never stored.
        working_dir: Folder that it started in; empty for the orchestrator's default.
        carried: Other settings of the job that a relaunch repeats.
        lost: Settings of the job that a relaunch cannot repeat, as sentences.
    """

    job: JobFacts
    command: tuple[str, ...] | None = None
    env: dict[str, str] | None = None
    working_dir: str = ""
    carried: Carried | None = None
    lost: tuple[str, ...] = ()


class GateFacts(Value):
    """The outside facts that the launch rules need.

    If a source gave no answer, its reading says so. Its fact then counts as unknown.

    Attributes:
        env_missing: Names of `env_from` that are not set where the submit would happen.
        source: The checkpoint to start from; null if no checkpoint is asked for or found.
        source_reading: How that checkpoint's store answered; null if no checkpoint is asked for.
        root_held_by: The live run and instance that hold the output root; empty if it is free.
        root_resolved: The output root's real path on a local job's machine; empty if unknown.
        standing: The standing waivers that are valid now.
        readings: How the sources below answered, by the names in `gate_facts`.
        repository: The code's remote.
        worktree: The local checkout; null if there is no checkout.
        config: The launched configuration, flattened: dotted key to value as text.
        store: The place of the output root.
        names: The tracker's names.
        job: What the orchestrator reports for the submission id, before anything is submitted.
        logbook: Whether the logbook can be pushed.
        lineage: What this ledger recorded about the checkpoint to start from.
        home: The listed principals of this home, and whether a watch runs.
        hardware: The machines that the orchestrator has.
        bundle: Whether the orchestrator has the stated bundle; null if it cannot say.
    """

    env_missing: tuple[str, ...] = ()
    source: CheckpointFacts | None = None
    source_reading: Reading | None = None
    root_held_by: str = ""
    root_resolved: str = ""
    standing: tuple[StandingWaiver, ...] = ()
    readings: tuple[Reading, ...] = ()
    repository: RepositoryFacts | None = None
    worktree: WorktreeFacts | None = None
    config: dict[str, str] = {}
    store: StoreFacts | None = None
    names: TrackerNames | None = None
    job: JobFacts | None = None
    logbook: LogbookFacts | None = None
    lineage: Lineage | None = None
    home: HomeFacts | None = None
    hardware: HardwareFacts | None = None
    bundle: BundleFacts | None = None


class SealFacts(Value):
    """The facts that a seal is verified with.

    Attributes:
        commit_found: Whether the code's remote has the launch commit; `None` if that is unknown.
        tag_target: The commit of the seal tag; empty while the tag does not exist.
    """

    observation: Observation
    commit_found: bool | None
    tag_target: str = ""


def reading_of(observation: Observation, source: str) -> Reading:
    """Return a source's reading. A source that was not queried is unavailable."""
    return _of_source(observation.readings, source)


def gate_reading_of(facts: GateFacts, source: str) -> Reading:
    """Return a launch source's reading. A source that was not queried is unavailable."""
    return _of_source(facts.readings, source)


def source_reading(readings: tuple[Reading, ...], source: str) -> Reading:
    """Return a source's recorded reading. A missing reading is unavailable."""
    return _of_source(readings, source)


def _of_source(readings: tuple[Reading, ...], source: str) -> Reading:
    for reading in readings:
        if reading.source == source:
            return reading
    return Reading(source=source, state=SourceState.UNAVAILABLE, reason="not asked")
