"""What is recorded while a run is watched: the watch, checks, findings, checkpoints."""

from enum import StrEnum
from typing import Annotated, ClassVar, Literal

from pydantic import AwareDatetime, Field, PositiveInt

from watchkeeper.domain.facts.claims import CauseClaim
from watchkeeper.domain.facts.fact import Fact
from watchkeeper.domain.history_limits import Limit
from watchkeeper.domain.observed.liveness import Liveness
from watchkeeper.domain.observed.measured import Measured
from watchkeeper.domain.observed.raised import Raised
from watchkeeper.domain.observed.sources import (
    AttemptFacts,
    CapacityFacts,
    HostFacts,
    NodeFacts,
    OtherJob,
    TelemetryFacts,
)
from watchkeeper.domain.observed.tracker_doubts import TrackerFit
from watchkeeper.domain.observed.tracker_links import TrackerLink
from watchkeeper.domain.values import (
    CheckpointFacts,
    CheckpointKind,
    JobFacts,
    Reading,
    Step,
    Value,
)


class Holder(Value):
    """Who holds a watch: a principal on a host with a home."""

    principal: str
    host: str
    home: str


class WatchTaken(Fact):
    """Somebody took the watch; checks under an older token are refused from now on.

    Attributes:
        token: Fencing token: grows with each take-over.
        lease_until: When others may take over without force.
        forced: The former holder's lease had not run out.
    """

    topic: ClassVar[str] = "run.watch_taken.1"
    holder: Holder
    token: PositiveInt
    lease_until: AwareDatetime
    next_due: AwareDatetime
    forced: bool = False


class WatchReleased(Fact):
    """The holder gave the watch up."""

    topic: ClassVar[str] = "run.watch_released.1"
    token: PositiveInt
    reason: str


class Health(StrEnum):
    """A check's verdict on the run; a silent watch never changes it."""

    HEALTHY = "healthy"
    DEGRADED = "degraded"
    UNHEALTHY = "unhealthy"
    UNKNOWN = "unknown"


class Progress(Value):
    """How far training is, as far as known.

    Attributes:
        step: The newest step by any source.
        uncertainty: Steps either way; rounded progress bars carry some.
        source: `tracker` or `logs`.
        doubt: What another source shows that was not believed; empty for nothing.
    """

    step: Step
    uncertainty: int = 0
    source: Literal["tracker", "logs"]
    doubt: Annotated[str, Field(max_length=300)] = ""


class Startup(Value):
    """What the job's first lines said.

    Attributes:
        resumed_step: The step it says it resumed from.
        scratch: It says that it started from scratch.
        forbidden: Lines seen that show a text of `policy.lines_forbidden`: at most 4.
        expected: Texts of `policy.lines_expected` that were seen so far.
        whole: All that the job printed was read at this check, so what was not seen is not there.
            Only said where the contract names texts.
        checkpoint: The checkpoint that it says it loads; empty while it named none.
        output_path: Where it says that it writes; empty while it named no place.
    """

    resumed_step: Step | None = None
    scratch: bool = False
    forbidden: tuple[str, ...] = ()
    expected: tuple[str, ...] = ()
    whole: bool = False
    checkpoint: Annotated[str, Field(max_length=1_000)] = ""
    output_path: Annotated[str, Field(max_length=1_000)] = ""


class CheckRecorded(Fact):
    """One observation, judged. Holds every number that the rules read; bounded.

    Attributes:
        instance: The instance that was looked at.
        token: The watch's fencing token.
        readings: Each source's state and clock.
        job: The orchestrator's word, without what the submit carried; none while it is unavailable.
        progress: None while no source shows a step.
        metrics: Newest values by name, at most 16; while an offline tracker buffers the loss beside
            the newest progress line.
        tracker_id: Identity that the tracker showed; empty while unavailable.
        tracker_state: The tracker's own opinion.
        startup: What the first lines said, as far as they were seen.
        evidence: Log lines that the rules read: at most 8, each at most 300 long.
        traceback: A Python traceback stands in the log's tail.
        traceback_of_stop: Each traceback of the log's tail ends in what a signal or an interrupt
            raises: it tells how a program was stopped, and not why.
        checkpoints_complete: Steps of the newest complete checkpoints, at most 32, in order.
        checkpoints_incomplete: Folders without readable metadata, the newest 8.
        new_checkpoints: Complete ones that were not recorded before, at most 32.
        observation: SHA-256 of the full scrubbed observation under `evidence/`.
        expected: Findings that hold and open none, as a planned act expects them.
        next_due: When the next check falls due.
        lease_until: The lease is renewed to here.
        display_name: The name that the tracker showed; empty while unavailable.
        tracker_twins: Other runs that the tracker shows running under the same name.
        tracker_links: What the instance's output has named as its tracker run so far, at most 4.
        measured: Statistics of the metrics.
        liveness: Which clocks moved, and why it is quiet.
        claims: What the log's lines and the facts of an end say about a cause, at most 8.
        attempts: The tries of its tasks that matter: failed ones in time order, at most 8.
        capacity: What it waits for or has; none where nobody tells.
        nodes: Machines that are not alive, at most 8.
        hosts: Machines whose disk or mounts matter, at most 8.
        telemetry: The job's own gauges; none where it has none.
        others: Other live jobs that may write here, at most 4.
        maximum_shown: The largest exact maximum that progress bars, or the tracker's copy of the
            configuration, show; none where none is exact.
        raised: Where the last Python error of the log was raised; none without a whole traceback.
        tracker_fit: What the tracker shows that does not fit the recorded lineage.
    """

    topic: ClassVar[str] = "run.check_recorded.1"
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
    startup: Startup = Startup()
    evidence: tuple[str, ...] = ()
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
    measured: Measured = Measured()
    liveness: Liveness = Liveness()
    claims: tuple[CauseClaim, ...] = ()
    attempts: tuple[AttemptFacts, ...] = ()
    capacity: CapacityFacts | None = None
    nodes: tuple[NodeFacts, ...] = ()
    hosts: tuple[HostFacts, ...] = ()
    telemetry: TelemetryFacts | None = None
    others: tuple[OtherJob, ...] = ()
    maximum_shown: Step | None = None
    raised: Raised | None = None
    tracker_fit: TrackerFit = TrackerFit()


class TrackerAnnounced(Fact):
    """The instance's output named the tracker run that it logs to; told once for each.

    A run whose link becomes known only later is told once more, with it.

    Attributes:
        link: Its id, name and place, and the line that says so.
    """

    topic: ClassVar[str] = "run.tracker_announced.1"
    instance: str
    link: TrackerLink


class Severity(StrEnum):
    """How loudly a finding asks for someone."""

    NOTIFY = "notify"
    ALERT = "alert"


class FindingOpened(Fact):
    """A detector concluded something about a run; it stays open until cleared.

    Attributes:
        kind: Which detector, such as `pending`.
        rule: Its rule, such as `H6`.
        about: What exactly was found, in words that stay the same while it does; empty where the
            kind says it all.
    """

    topic: ClassVar[str] = "run.finding_opened.1"
    kind: str
    rule: str
    severity: Severity
    summary: str
    evidence: tuple[str, ...]
    about: str = ""


class FindingRaised(Fact):
    """An open finding became louder, or what it is about changed while it stayed open.

    Attributes:
        kind: Which finding; it stays open.
        severity: As loud as it is from here; it never gets quieter while it is open.
        before: How loud it was.
        about: What exactly is found by now.
    """

    topic: ClassVar[str] = "run.finding_raised.1"
    kind: str
    rule: str
    severity: Severity
    summary: str
    evidence: tuple[str, ...]
    before: Severity
    about: str = ""


class FindingCleared(Fact):
    """An open finding no longer holds.

    Attributes:
        closes: The open questions about it, which this closes.
    """

    topic: ClassVar[str] = "run.finding_cleared.1"
    kind: str
    rule: str
    reason: str
    closes: tuple[str, ...] = ()


class CheckpointValidated(Fact):
    """A checkpoint is complete, its metadata names its step, and it lies in this lineage."""

    topic: ClassVar[str] = "run.checkpoint_validated.1"
    instance: str
    step: Step
    path: str
    kind: CheckpointKind
    written_at: AwareDatetime | None


class CheckpointRejected(Fact):
    """A checkpoint must not be resumed from.

    Attributes:
        written_at: When it was written, where only that one is meant: a later one under the same
            path belongs to another lineage. None rejects whatever stands there.
    """

    topic: ClassVar[str] = "run.checkpoint_rejected.1"
    step: Step
    path: str
    reason: str
    written_at: AwareDatetime | None = None


class HistoryLimitPassed(Fact):
    """A run's history has grown longer than it should; recorded once for each limit.

    Nothing is refused for it. Somebody should close the run, or go on with a successor, when it
    next stands still.

    Attributes:
        limit: `soft` warns; `hard` makes `doctor` fail.
        events: How many there were.
        most: The limit.
    """

    topic: ClassVar[str] = "run.history_limit_passed.1"
    limit: Limit
    events: int = Field(ge=1)
    most: int = Field(ge=1)


WatchEvent = (
    CheckRecorded
    | WatchTaken
    | WatchReleased
    | TrackerAnnounced
    | FindingOpened
    | FindingRaised
    | FindingCleared
    | CheckpointValidated
    | CheckpointRejected
    | HistoryLimitPassed
)
