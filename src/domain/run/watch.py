"""The events of a watch: the watch itself, checks, findings, checkpoints."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import ClassVar

from pydantic import AwareDatetime, Field, PositiveInt

from watchkeeper.domain.run.fact import Fact
from watchkeeper.domain.run.monitor_accuracy import MonitorAccuracy
from watchkeeper.domain.values.basic import (
    Value,
)
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


class CheckRecorded(Check, Fact):
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


class TrackerAnnounced(Fact):
    """The instance's output named the tracker run that it logs to; told once for each.

    A run whose link becomes known only later is told once more, with it.

    Attributes:
        link: Its id, name and place, and the line that says so.
    """

    topic: ClassVar[str] = "run.tracker_announced.1"
    instance: str
    link: TrackerLink


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


class Packet(Value):
    """All that the next holder of a watch has to know, as the run stood at the handover.

    Attributes:
        instance: The newest instance.
        job: The id under which the orchestrator knows it.
        orchestrator: Its kind.
        cluster: Where the job runs.
        phase: Where the run stood.
        health: The verdict of the last check.
        progress: As people report it, such as `~1860/2384`; empty before the first step.
        checkpoint: The newest that may be resumed from; empty while there is none.
        trouble: The latest error or signal that is on record; empty for none.
        tracker: Id and display name at the tracker.
        tracker_url: Where the tracker is read.
        findings: What is open, each with its rule.
        questions: What is open, each with its name.
        planned: Announced acts that are not over.
        waiting: What was decided or asked for, and is not done yet; empty for nothing.
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
    """The watch was given to somebody, who takes it next; its former holder stops here.

    Attributes:
        former: Who held it; none when nobody did.
        to: The principal that it is kept for.
        token: Fencing token: it grows, so that the former holder is refused from now on.
        kept_until: It is kept for that principal until then; later anyone may take it.
        forced: The former holder's lease had not run out, and it was not asked.
        note: The words of whoever handed over.
        packet: What the next holder has to know.
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
    """The watch ended for good: at the stopping point that was agreed, or declined by a human.

    Nobody takes it by itself from here on; the job is left as it is.

    Attributes:
        token: The newest fencing token, 0 where nobody held the watch yet.
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
    """The newest check, with its place."""

    event: CheckRecorded
    at: datetime
    version: int


# Without slots: every check copies it, and a dictionary is copied at once.
@dataclass(frozen=True)
class WatchState:
    """Who watches a run, and what the checks saw.

    Attributes:
        holder: Who holds the watch; `None` while nobody does.
        token: The newest fencing token; 0 before the first.
        lease_until: When others may take over without force.
        next_due: When the next check falls due; `None` when nothing is to be checked.
        kept_for: The principal that it was handed to and that has not taken it yet.
        ended: Why it ended for good; empty while it goes on.
        last_check: The newest check, whole.
        progress: The newest progress that a check saw.
        recent_checks: The newest checks, shortened, oldest first, at most `RECENT_CHECKS_MAX`.
        losses: The losses at sampled steps, with which a resume is compared.
        tracker_links: The announced links by tracker id, oldest first.
        monitor_accuracy: How often the monitor judged this run, and how often it was wrong.
        history_limit: The length limit that is recorded as passed; `None` so far.
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


def with_owner(
    watch: WatchState,
    *,
    token: int,
    holder: Holder | None = None,
    lease_until: datetime | None = None,
    next_due: datetime | None = None,
    kept_for: str = "",
    ended: str = "",
) -> WatchState:
    """Return a watch under another owner, or under none; what the checks saw stays."""
    return replace(
        watch,
        holder=holder,
        token=token,
        lease_until=lease_until,
        next_due=next_due,
        kept_for=kept_for,
        ended=ended,
    )
