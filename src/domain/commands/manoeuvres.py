"""Requests about who watches, about planned acts, and for manoeuvres."""

from pydantic import AwareDatetime

from watchkeeper.domain.commands.command import Command
from watchkeeper.domain.contracts.contract import Contract
from watchkeeper.domain.facts.handover import ActKind
from watchkeeper.domain.facts.watch import Holder
from watchkeeper.domain.observed.observation import GateFacts, JobDescription, SealFacts
from watchkeeper.domain.people import PrincipalName
from watchkeeper.domain.values import Slug, Step


class HandOver(Command):
    """Give the watch to somebody, with all that they have to know.

    Attributes:
        to: Who takes it next.
        here: Who would hold a watch where this is asked.
        force: From a holder that was not asked and whose lease still runs.
    """

    to: PrincipalName
    here: Holder
    force: bool = False
    note: str = ""


class DeclineWatch(Command):
    """End the watch for good, with a reason; the job is left as it is."""

    reason: str


class ReportStaleMonitor(Command):
    """Say on record that nobody checks a run, as somebody who does not hold its watch.

    Attributes:
        reporter: Who says so.
    """

    reporter: Holder


class AnnounceAct(Command):
    """Announce something that is done on purpose, before it begins.

    Attributes:
        starts_at: When its window begins.
        ends_at: When its window is over.
        expects: Rules whose findings are expected.
    """

    kind: ActKind
    starts_at: AwareDatetime
    ends_at: AwareDatetime
    expects: tuple[str, ...]
    reason: str


class EndAct(Command):
    """Say that a planned act is over before its window is."""

    act: str
    reason: str


class AdoptInstance(Command):
    """Take a job that was launched elsewhere as the run's first instance.

    Attributes:
        found: What the orchestrator tells about it.
    """

    found: JobDescription
    facts: GateFacts
    note: str = ""


class RequestRelaunch(Command):
    """End the live instance on purpose, and relaunch from the newest complete checkpoint."""

    reason: str


class PlanRollback(Command):
    """Plan an instance that starts from an earlier checkpoint; it needs an approval of its own.

    Attributes:
        step: Whose checkpoint to go back to.
        submission_id: Fixed by the caller.
        accept_bad: Go there although its numbers are NaN or infinite; the plan's reason says so.
    """

    step: Step
    submission_id: str
    facts: GateFacts
    reason: str
    accept_bad: bool = False


class Supersede(Command):
    """Close a run in favour of one of another name that goes on from its checkpoint.

    Attributes:
        successor: The contract of the run that goes on.
    """

    successor: Contract
    reason: str


class NameAncestor(Command):
    """Say which run a drafted one goes on from.

    Attributes:
        ancestors: The whole chain, oldest first; the run that was superseded is the last.
        checkpoint: Path of the checkpoint that it starts from.
    """

    ancestors: tuple[Slug, ...]
    checkpoint: str
    step: Step
    reason: str


class VerifyMilestone(Command):
    """Verify a checkpoint of a run that goes on, so that it is tagged."""

    step: Step
    facts: SealFacts


ManoeuvreCommand = (
    HandOver
    | DeclineWatch
    | ReportStaleMonitor
    | AnnounceAct
    | EndAct
    | AdoptInstance
    | RequestRelaunch
    | PlanRollback
    | Supersede
    | NameAncestor
    | VerifyMilestone
)
