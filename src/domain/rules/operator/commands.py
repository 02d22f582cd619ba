"""Commands for planned acts, questions, notes and other operator acts."""

from typing import Literal

from pydantic import AwareDatetime, PositiveInt

from watchkeeper.domain.rules.shared.command import Command
from watchkeeper.domain.run.operator import ActKind
from watchkeeper.domain.values.basic import Slug, Step
from watchkeeper.domain.values.contract.contract import Contract
from watchkeeper.domain.values.observation.observation import GateFacts


class AnnounceAct(Command):
    """Announce a planned act before it begins.

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

    @property
    def attempt(self) -> tuple[str, str]:
        """See `Command`."""
        return "announce", self.kind.value


class EndAct(Command):
    """Record that a planned act ended early."""

    act: str
    reason: str


class RequestRelaunch(Command):
    """End the live instance on purpose, and relaunch from the newest complete checkpoint."""

    reason: str

    @property
    def attempt(self) -> tuple[str, str]:
        """See `Command`."""
        return "relaunch", ""


class PlanRollback(Command):
    """Plan an instance that starts from an earlier checkpoint. It needs a new approval.

    Attributes:
        step: The step of the checkpoint to go back to.
        submission_id: The submission id, chosen by the caller.
        accept_bad: Accept a checkpoint with NaN or infinite numbers; the plan's reason says so.
    """

    step: Step
    submission_id: str
    facts: GateFacts
    reason: str
    accept_bad: bool = False

    @property
    def attempt(self) -> tuple[str, str]:
        """See `Command`."""
        return "rollback", f"step-{self.step}"


class Supersede(Command):
    """Close a run because another run continues from its checkpoint.

    Attributes:
        successor: The contract of the run that continues.
    """

    successor: Contract
    reason: str

    @property
    def attempt(self) -> tuple[str, str]:
        """See `Command`."""
        return "supersede", self.successor.run


class NameAncestor(Command):
    """Name the run that a drafted run continues.

    Attributes:
        ancestors: All earlier runs of the chain, oldest first; the superseded run is the last.
        checkpoint: Path of the checkpoint that the drafted run starts from.
    """

    ancestors: tuple[Slug, ...]
    checkpoint: str
    step: Step
    reason: str


class TakeQuestion(Command):
    """Record that a human works on an open question."""

    question: str
    note: str = ""

    @property
    def attempt(self) -> tuple[str, str]:
        """See `Command`."""
        return "ack", self.question


class AnswerQuestion(Command):
    """Answer an open question, which closes it."""

    question: str
    note: str = ""
    answer: Literal["noted", "relaunch", "needless"] = "noted"

    @property
    def attempt(self) -> tuple[str, str]:
        """See `Command`."""
        return "answer", self.question


class AddNote(Command):
    """Add a remark."""

    text: str


class Correct(Command):
    """Correct an earlier entry that was wrong."""

    corrects: PositiveInt
    text: str


class Stop(Command):
    """End the live instance, or the run if no instance is live.

    Attributes:
        consent: The consent to use, such as `c-1`. If empty, any valid consent is used. A
            human without one gives it by this command.
    """

    reason: str
    consent: str = ""


class Abandon(Command):
    """Give the run up; its record stays."""

    reason: str
