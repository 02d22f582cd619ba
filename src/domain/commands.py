"""What can be asked of a run: requests in the imperative, with the time in them."""

from typing import Literal

from pydantic import AwareDatetime, PositiveInt

from watchkeeper.domain.contract import Contract
from watchkeeper.domain.events import Holder
from watchkeeper.domain.observation import GateFacts, Observation, SealFacts
from watchkeeper.domain.people import Actor
from watchkeeper.domain.values import Value


class Command(Value):
    """A request.

    Attributes:
        now: When it is asked; nothing in the domain reads a clock.
        actor: Who asks.
    """

    now: AwareDatetime
    actor: Actor


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
    """

    submission_id: str
    facts: GateFacts


class ApproveLaunch(Command):
    """Allow the plan that was last checked.

    Attributes:
        digest: The plan's identity, or its first 8 digits or more.
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
    answer: Literal["noted", "relaunch"] = "noted"


class AddNote(Command):
    """Add a remark."""

    text: str


class Correct(Command):
    """Say what is true where an earlier entry was wrong."""

    corrects: PositiveInt
    text: str


class Stop(Command):
    """End the live instance, or the run when nothing lives."""

    reason: str


class VerifySeal(Command):
    """Verify that everything a seal needs is there."""

    facts: SealFacts


class CompleteSeal(Command):
    """The tag is on the remote: close the run.

    Attributes:
        head: Version and chain hash that the tag's message names.
    """

    head: str


class Abandon(Command):
    """Give the run up; its record stays."""

    reason: str


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
)
