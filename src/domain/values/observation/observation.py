"""What was read outside at one time, before it is judged."""

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
    """A line of the job's output that shows a text which the contract names.

    Attributes:
        text: The text, as the contract has it.
        line: The first line that shows it, at most 300 characters.
    """

    text: str
    line: ForeignText


class Observation(Value):
    """Facts of one check, per source; what is none was not had, and its reading says why.

    Attributes:
        instance: The instance that was looked at.
        at: When the reading began.
        readings: How each source answered, and its own clock.
        job: The orchestrator's word on the job.
        log_lines: The tail of the job's output, oldest first.
        named_lines: What a longer tail shows of the texts that the contract names.
        log_cut: The job printed more than what was looked through for them.
        tracker: What the tracker shows now.
        checkpoints: What lies below the checkpoint root.
        attempts: The tries of the job's tasks, in time order.
        capacity: What the job waits for or has.
        nodes: Machines of the cluster that the orchestrator reports.
        history: What the tracker holds step by step.
        telemetry: The job's own gauges.
        hosts: Disk and mounts of the run's machines.
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
    """A human's word ahead of the launches of a lane that one principal asks for.

    Attributes:
        name: Such as `sw-1`.
        lane: The lane that it covers.
        rule: The launch rule that it waives.
        requester: Whose launches it covers.
        reason: The human's words.
        by: The human.
        until: It is void from then on.
    """

    name: str
    lane: Lane
    rule: str
    requester: str
    reason: str
    by: str
    until: AwareDatetime


class JobDescription(Value):
    """What a job is, as far as its orchestrator tells; what it does not tell is none.

    Attributes:
        job: Its state.
        command: Its argument vector.
        env: Its variables; the values of some are secrets, so it is never stored.
        working_dir: Folder that it started in; empty for the orchestrator's default.
        carried: What else a relaunch repeats of it.
        lost: What it has and no relaunch could repeat, in words.
    """

    job: JobFacts
    command: tuple[str, ...] | None = None
    env: dict[str, str] | None = None
    working_dir: str = ""
    carried: Carried | None = None
    lost: tuple[str, ...] = ()


class GateFacts(Value):
    """What the launch rules need to know of the outside.

    A source that gave no answer is a reading that says so: it is never read as missing or clean.

    Attributes:
        env_missing: Names of `env_from` that are not set where the submit would happen.
        source: The checkpoint to start from, as it was found; none when there is none to find.
        source_reading: How its store answered; none when no checkpoint is asked for.
        root_held_by: The live run and instance that hold the output root; empty for none.
        root_resolved: What it resolves to on the machine of a local job; empty where none can say.
        standing: The standing waivers that hold now.
        readings: How the sources below answered, by the names in `gate_facts`.
        repository: The code's remote.
        worktree: The local checkout; none where there is no checkout.
        config: The launched configuration, flattened: dotted key to value as text.
        store: The place of the output root.
        names: The tracker's names.
        job: What the orchestrator says of the submission id, before anything is submitted.
        logbook: Whether the logbook gets through.
        lineage: What this ledger knows of the checkpoint to start from.
        home: Who is listed here, and whether a watch runs.
        hardware: The machines that the orchestrator has.
        bundle: Whether the orchestrator holds the stated bundle; none where it cannot say.
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
    """What a seal is verified on.

    Attributes:
        commit_found: Whether the code's remote holds the launch commit; none when it cannot tell.
        tag_target: Where the seal tag points already; empty while it does not exist.
    """

    observation: Observation
    commit_found: bool | None
    tag_target: str = ""


def reading_of(observation: Observation, source: str) -> Reading:
    """Return a source's reading; a source that was not asked is unavailable."""
    return _of_source(observation.readings, source)


def gate_reading_of(facts: GateFacts, source: str) -> Reading:
    """Return the reading of a launch's source; one that was not asked is unavailable."""
    return _of_source(facts.readings, source)


def source_reading(readings: tuple[Reading, ...], source: str) -> Reading:
    """Return a source's reading from recorded ones; unavailable without one."""
    return _of_source(readings, source)


def _of_source(readings: tuple[Reading, ...], source: str) -> Reading:
    for reading in readings:
        if reading.source == source:
            return reading
    return Reading(source=source, state=SourceState.UNAVAILABLE, reason="not asked")
