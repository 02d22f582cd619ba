"""Commands of a launch."""

from pydantic import AwareDatetime, PositiveInt

from watchkeeper.domain.rules.shared.command import Command
from watchkeeper.domain.values.contract.contract import Contract
from watchkeeper.domain.values.observation.observation import GateFacts, JobDescription


class DraftRun(Command):
    """Give a new run its contract."""

    contract: Contract


class AmendContract(Command):
    """Change the contract of a run before its first launch."""

    contract: Contract


class RequestLaunch(Command):
    """Check the first instance against the launch rules, and request it if nothing blocks.

    Attributes:
        submission_id: The submission id, chosen by the caller.
        requester: The principal behind a scheduled launch; the actor if empty.
    """

    submission_id: str
    facts: GateFacts
    requester: str = ""


class ApproveLaunch(Command):
    """Approve the plan that was last checked.

    Attributes:
        digest: The plan's digest, or at least its first 12 digits.
    """

    digest: str
    note: str = ""

    @property
    def attempt(self) -> tuple[str, str]:
        """See `Command`."""
        return "approve", self.digest


class ConfirmLaunched(Command):
    """Record that the orchestrator has the job."""

    instance: str
    launched_at: AwareDatetime


class ReportRefusedLaunch(Command):
    """Record that the orchestrator definitely refused the job."""

    instance: str
    reason: str


class Relaunch(Command):
    """Carry out the relaunch that was decided."""

    token: PositiveInt
    submission_id: str
    facts: GateFacts


class AdoptInstance(Command):
    """Adopt a job that was launched elsewhere as the run's first instance.

    Attributes:
        found: The orchestrator's description of the job.
    """

    found: JobDescription
    facts: GateFacts
    note: str = ""

    @property
    def attempt(self) -> tuple[str, str]:
        """See `Command`."""
        return "adopt", self.found.job.submission_id
