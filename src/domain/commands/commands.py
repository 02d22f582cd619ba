"""What can be asked of a run: requests in the imperative, with the time in them."""

from datetime import timedelta
from typing import Literal

from pydantic import AwareDatetime, PositiveInt

from watchkeeper.domain.commands.command import Command as Command
from watchkeeper.domain.commands.guarded import GuardedAction
from watchkeeper.domain.commands.judgement import JudgementCommand
from watchkeeper.domain.commands.manoeuvres import ManoeuvreCommand
from watchkeeper.domain.commands.signals import ReceiveSignal as ReceiveSignal
from watchkeeper.domain.contracts.contract import Contract, Lane
from watchkeeper.domain.events import Holder
from watchkeeper.domain.observed.observation import GateFacts, Observation, SealFacts


class DraftRun(Command):
    """Give a new run its contract."""

    contract: Contract


class AmendContract(Command):
    """Change the contract of a run of which nothing is launched yet."""

    contract: Contract


class RequestLaunch(Command):
    """Hold the first instance against the launch rules and, when nothing blocks, ask for it.

    Attributes:
        submission_id: Fixed by the caller.
        requester: Who wants it, where a schedule asks for somebody; the actor when empty.
    """

    submission_id: str
    facts: GateFacts
    requester: str = ""


class ApproveLaunch(Command):
    """Allow the plan that was last checked.

    Attributes:
        digest: The plan's identity, or its first 12 digits or more.
    """

    digest: str
    note: str = ""


class ConfirmLaunched(Command):
    """The orchestrator was seen to have the job."""

    instance: str
    launched_at: AwareDatetime


class ReportRefusedLaunch(Command):
    """The orchestrator definitely did not take the job."""

    instance: str
    reason: str


class TakeWatch(Command):
    """Take or renew the watch.

    Attributes:
        same_home: The caller holds the home's watch lock, so no other process of it watches.
        force: Take it from a holder whose lease has not run out.
    """

    holder: Holder
    same_home: bool
    force: bool = False


class ReleaseWatch(Command):
    """Give the watch up."""

    token: PositiveInt
    reason: str


class RecordCheck(Command):
    """Judge one observation.

    Attributes:
        token: The watch's fencing token.
        observation: As read.
        digest: SHA-256 of its scrubbed text, under which it is kept.
    """

    token: PositiveInt
    observation: Observation
    digest: str


class Relaunch(Command):
    """Carry out the relaunch that was decided."""

    token: PositiveInt
    submission_id: str
    facts: GateFacts


class Acknowledge(Command):
    """Take an open question."""

    question: str
    note: str = ""
    answer: Literal["noted", "relaunch", "needless"] = "noted"


class AddNote(Command):
    """Add a remark."""

    text: str


class Correct(Command):
    """Say what is true where an earlier entry was wrong."""

    corrects: PositiveInt
    text: str


class Stop(Command):
    """End the live instance, or the run when nothing lives.

    Attributes:
        consent: The consent to use, such as `c-1`; empty for a live one, or a human's own.
    """

    reason: str
    consent: str = ""


class VerifySeal(Command):
    """Verify that everything a seal needs is there.

    Attributes:
        waive: Lacks to let pass, by name, such as `tracker state`; each needs a consent.
        reason: Why; empty when nothing is waived.
    """

    facts: SealFacts
    waive: tuple[str, ...] = ()
    reason: str = ""


class CompleteSeal(Command):
    """The tag is on the remote: close the run.

    Attributes:
        head: Version and chain hash that the tag's message names.
    """

    head: str


class Abandon(Command):
    """Give the run up; its record stays."""

    reason: str


class Propose(Command):
    """Ask for a guarded action; anyone may.

    Attributes:
        agree: A human consents to it at once.
    """

    action: GuardedAction
    target: str
    reason: str
    agree: bool = False


class GiveConsent(Command):
    """Permit one proposed act, once.

    Attributes:
        digest: Its first digits, when the human names what they read; empty for any.
        life: How long it may be used; the action's own when none.
    """

    proposal: str
    digest: str = ""
    note: str = ""
    life: timedelta | None = None


class Waive(Command):
    """Let a named block of the launch gate, or a named lack of the seal, pass.

    Attributes:
        subject: A launch rule such as `L13`, or a lack such as `tracker state`.
        until: When it ends; none for as long as the run lasts.
    """

    subject: str
    reason: str
    until: AwareDatetime | None = None


class Revoke(Command):
    """Take back an approval, a consent or a waiver, or decline a proposal.

    Attributes:
        name: Such as `a-1`, `c-1`, `w-1` or `p-1`.
    """

    name: str
    reason: str = ""


class GrantStandingWaiver(Command):
    """Waive a launch rule ahead, for the launches of a lane that one principal asks for.

    Attributes:
        requester: Whose launches; the human who waives when empty.
        until: When it ends; none for the longest time there is.
    """

    lane: Lane
    rule: str
    reason: str
    requester: str = ""
    until: AwareDatetime | None = None


class RevokeStandingWaiver(Command):
    """Take back a standing waiver."""

    name: str
    reason: str = ""


RunCommand = (
    RecordCheck
    | DraftRun
    | AmendContract
    | RequestLaunch
    | ApproveLaunch
    | ConfirmLaunched
    | ReportRefusedLaunch
    | TakeWatch
    | ReleaseWatch
    | Relaunch
    | Acknowledge
    | AddNote
    | Correct
    | Stop
    | VerifySeal
    | CompleteSeal
    | Abandon
    | Propose
    | GiveConsent
    | Waive
    | Revoke
    | ManoeuvreCommand
    | ReceiveSignal
    | JudgementCommand
)

PeopleCommand = GrantStandingWaiver | RevokeStandingWaiver
"""What is asked of the stream `people`."""
