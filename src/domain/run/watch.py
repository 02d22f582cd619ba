"""Events and state of the watch: holders, checks and handovers."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import ClassVar

from pydantic import AwareDatetime, Field, PositiveInt

from watchkeeper.domain.run.fact import Fact
from watchkeeper.domain.run.monitor_accuracy import MonitorAccuracy
from watchkeeper.domain.values.basic import Value
from watchkeeper.domain.values.check import Check, Progress
from watchkeeper.domain.values.earlier import LossAt, PastCheck
from watchkeeper.domain.values.history_limits import Limit
from watchkeeper.domain.values.text_evidence import TrackerLink


class Holder(Value):
    """Who holds a watch: a principal on a host with a home."""

    principal: str
    host: str
    home: str


class WatchTaken(Fact):
    """A holder took the watch. Checks with an older token are refused from now on.

    Attributes:
        token: The fencing token, which grows with each take-over.
        lease_until: When others may take over without force.
        forced: Whether the former holder's lease was still valid.
    """

    topic: ClassVar[str] = "run.watch_taken.1"
    holder: Holder
    token: PositiveInt
    lease_until: AwareDatetime
    next_due: AwareDatetime
    forced: bool = False


class WatchReleased(Fact):
    """The holder released the watch."""

    topic: ClassVar[str] = "run.watch_released.1"
    token: PositiveInt
    reason: str


class CheckRecorded(Check, Fact):
    """One judged observation, with every number that the rules read.

    Attributes:
        instance: The checked instance.
        token: The watch's fencing token.
        readings: Each source's state and clock.
        job: The orchestrator's facts about the job, without the metadata of the submit; `None`
            while the orchestrator is unavailable.
        progress: None while no source shows a step.
        metrics: Newest values by name, at most 16. With an offline tracker, the loss of the newest
            progress line.
        tracker_id: Identity that the tracker showed; empty while unavailable.
        tracker_state: The state that the tracker reports.
        startup: The start-up facts in the log's first lines.
        evidence: Log lines that the rules read: at most 8, each at most 300 long.
        traceback: Whether the log's tail has a Python traceback.
        traceback_of_stop: Whether each traceback in the log's tail ends with the exception of a
            signal or an interrupt.
        checkpoints_complete: Steps of the newest complete checkpoints, at most 32, in order.
        checkpoints_incomplete: Folders without readable metadata, the newest 8.
        new_checkpoints: Complete checkpoints that were not recorded before, at most 32.
        observation: SHA-256 of the full scrubbed observation under `evidence/`.
        expected: Findings that hold but are not opened, because a planned act expects them.
        next_due: When the next check falls due.
        lease_until: When the renewed lease ends.
        display_name: The name that the tracker showed; empty while unavailable.
        tracker_twins: Other runs that the tracker shows running under the same name.
        tracker_links: What the instance's output has named as its tracker run so far, at most 4.
        measured: Statistics of the metrics.
        liveness: Which clocks moved, and why others did not.
        claims: What the log's lines and the facts of an end say about a cause, at most 8.
        attempts: The relevant attempts of the job's tasks, at most 8; failed attempts in time
            order.
        capacity: Machines that the job waits for or has; `None` if no source reports them.
        nodes: Machines that are not alive, at most 8.
        hosts: Machines whose disk or mounts matter, at most 8.
        telemetry: The job's own gauges; `None` without gauges.
        others: Other live jobs that may write here, at most 4.
        maximum_shown: The largest exact maximum in progress bars or in the tracker's copy of the
            configuration; `None` without one.
        raised: Where the last Python error of the log was raised; `None` without a complete
            traceback.
        tracker_fit: What the tracker shows that does not fit the recorded lineage.
    """

    topic: ClassVar[str] = "run.check_recorded.1"


class TrackerAnnounced(Fact):
    """The instance's output named its tracker run. Recorded once for each tracker run.

    If the link becomes known later, the tracker run is announced again.

    Attributes:
        link: Id, name and place of the tracker run, and the line that names it.
    """

    topic: ClassVar[str] = "run.tracker_announced.1"
    instance: str
    link: TrackerLink


class HistoryLimitPassed(Fact):
    """A run's history passed a length limit. Recorded once for each limit.

    No command is refused because of it. When the run is next idle, somebody should close it or
    continue with a successor.

    Attributes:
        limit: `soft` warns; `hard` makes `doctor` fail.
        events: The number of events.
        most: The limit.
    """

    topic: ClassVar[str] = "run.history_limit_passed.1"
    limit: Limit
    events: int = Field(ge=1)
    most: int = Field(ge=1)


class Packet(Value):
    """The facts for the next holder of a watch, at the time of the handover.

    Attributes:
        instance: The newest instance.
        job: The orchestrator's id of the job.
        orchestrator: The orchestrator's kind.
        cluster: Where the job runs.
        phase: The phase of the run.
        health: The verdict of the last check.
        progress: As people report it, such as `~1860/2384`; empty before the first step.
        checkpoint: The newest checkpoint that a resume may use; empty without one.
        trouble: The latest recorded error or signal; empty without one.
        tracker: Id and display name at the tracker.
        tracker_url: The tracker's link.
        findings: Open findings, each with its rule.
        questions: Open questions, each with its name.
        planned: Announced acts that are not over.
        waiting: Pending decisions and requests; empty without any.
        next_due: When the next check falls due.
    """

    instance: str
    job: str
    orchestrator: str
    cluster: str
    phase: str
    health: str
    progress: str
    checkpoint: str
    trouble: str
    tracker: str
    tracker_url: str
    findings: tuple[str, ...] = ()
    questions: tuple[str, ...] = ()
    planned: tuple[str, ...] = ()
    waiting: str = ""
    next_due: AwareDatetime | None = None


class WatchHandedOver(Fact):
    """The watch was handed over to a principal. The former holder stops.

    Attributes:
        former: The former holder; `None` without one.
        to: The principal for whom the watch is kept.
        token: The new fencing token. The former holder is refused from now on.
        kept_until: Until this time only the new principal may take it.
        forced: Whether the watch was taken from another holder whose lease was still valid.
        note: A note by the principal who handed the watch over.
        packet: What the next holder needs to know.
    """

    topic: ClassVar[str] = "run.watch_handed_over.1"
    former: Holder | None
    to: str
    token: PositiveInt
    kept_until: AwareDatetime
    forced: bool
    note: str
    packet: Packet


class WatchEnded(Fact):
    """The watch ended for good, at the agreed stopping point or by a human's decision.

    No program takes the watch again. The job is not changed.

    Attributes:
        token: The newest fencing token; 0 if nobody held the watch yet.
        stopping_point: The point of the contract that was reached; empty when it was declined.
    """

    topic: ClassVar[str] = "run.watch_ended.1"
    token: int
    reason: str
    stopping_point: str = ""


WatchEvent = CheckRecorded | WatchTaken | WatchReleased | TrackerAnnounced | HistoryLimitPassed

HandoverEvent = WatchHandedOver | WatchEnded


@dataclass(frozen=True, slots=True)
class LastCheck:
    """The newest check, with its time and version."""

    event: CheckRecorded
    at: datetime
    version: int


# It has no slots: every check copies it, and a dictionary is faster to copy.
@dataclass(frozen=True)
class WatchState:
    """The holder of a run's watch, and the results of the checks.

    Attributes:
        holder: Who holds the watch; `None` while nobody does.
        token: The newest fencing token; 0 before the first.
        lease_until: When others may take over without force.
        next_due: When the next check falls due; `None` when nothing is to be checked.
        kept_for: The principal who was handed the watch and has not taken it yet.
        ended: Why the watch ended for good; empty while it continues.
        last_check: The newest check, whole.
        progress: The newest progress that a check saw.
        recent_checks: The newest checks, shortened, oldest first, at most `RECENT_CHECKS_MAX`.
        losses: The losses at sampled steps, with which a resume is compared.
        tracker_links: The announced links by tracker id, oldest first.
        monitor_accuracy: How often the monitor judged this run, and how often it was wrong.
        history_limit: The limit that the history has passed; `None` if it has passed no limit.
    """

    holder: Holder | None = None
    token: int = 0
    lease_until: datetime | None = None
    next_due: datetime | None = None
    kept_for: str = ""
    ended: str = ""
    last_check: LastCheck | None = None
    progress: Progress | None = None
    recent_checks: tuple[PastCheck, ...] = ()
    losses: tuple[LossAt, ...] = ()
    tracker_links: Mapping[str, TrackerLink] = field(default_factory=dict[str, TrackerLink])
    monitor_accuracy: MonitorAccuracy = field(default_factory=MonitorAccuracy)
    history_limit: Limit | None = None


def with_holder(
    watch: WatchState,
    *,
    token: int,
    holder: Holder | None = None,
    lease_until: datetime | None = None,
    next_due: datetime | None = None,
    kept_for: str = "",
    ended: str = "",
) -> WatchState:
    """Return a watch with another holder or without one; results of checks stay."""
    return replace(
        watch,
        holder=holder,
        token=token,
        lease_until=lease_until,
        next_due=next_due,
        kept_for=kept_for,
        ended=ended,
    )
