"""Commands of a launch."""

from pydantic import AwareDatetime, PositiveInt

from watchkeeper.domain.rules.shared.command import Command
from watchkeeper.domain.values.contract.contract import Contract
from watchkeeper.domain.values.observation.observation import GateFacts, JobDescription


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

    @property
    def attempt(self) -> tuple[str, str]:
        """See `Command`."""
        return "approve", self.digest


class ConfirmLaunched(Command):
    """The orchestrator was seen to have the job."""

    instance: str
    launched_at: AwareDatetime


class ReportRefusedLaunch(Command):
    """The orchestrator definitely did not take the job."""

    instance: str
    reason: str


class Relaunch(Command):
    """Carry out the relaunch that was decided."""

    token: PositiveInt
    submission_id: str
    facts: GateFacts


class AdoptInstance(Command):
    """Take a job that was launched elsewhere as the run's first instance.

    Attributes:
        found: What the orchestrator tells about it.
    """

    found: JobDescription
    facts: GateFacts
    note: str = ""

    @property
    def attempt(self) -> tuple[str, str]:
        """See `Command`."""
        return "adopt", self.found.job.submission_id
