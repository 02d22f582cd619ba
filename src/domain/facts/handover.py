"""What is recorded when a watch changes hands, and of acts that were announced beforehand."""

from enum import StrEnum
from typing import ClassVar

from pydantic import AwareDatetime, PositiveInt

from watchkeeper.domain.facts.fact import Fact
from watchkeeper.domain.facts.watch import Holder
from watchkeeper.domain.values import Value


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


class ActKind(StrEnum):
    """What kind of act is planned."""

    PAUSE = "pause"
    SWAP = "swap"
    DRILL = "drill"
    MAINTENANCE = "maintenance"


class PlannedActAnnounced(Fact):
    """Something is going to be done on purpose; what it is expected to cause raises no alarm.

    Attributes:
        act: Its short name, such as `act-1`.
        kind: What is done.
        starts_at: When its window begins.
        ends_at: When its window is over.
        expects: Rules whose findings are expected in the window, such as `H6`.
    """

    topic: ClassVar[str] = "run.planned_act_announced.1"
    act: str
    kind: ActKind
    starts_at: AwareDatetime
    ends_at: AwareDatetime
    expects: tuple[str, ...]
    reason: str


class PlannedActEnded(Fact):
    """A planned act is over: its window has passed, or somebody said so.

    Attributes:
        act: Its short name.
    """

    topic: ClassVar[str] = "run.planned_act_ended.1"
    act: str
    reason: str


HandoverEvent = WatchHandedOver | WatchEnded | PlannedActAnnounced | PlannedActEnded
