"""Commands of the seal."""

from watchkeeper.domain.rules.shared.command import Command
from watchkeeper.domain.values.basic import Step
from watchkeeper.domain.values.observation.observation import SealFacts


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


class VerifyMilestone(Command):
    """Verify a checkpoint of a run that goes on, so that it is tagged."""

    step: Step
    facts: SealFacts
