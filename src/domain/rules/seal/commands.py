"""Commands of the seal."""

from watchkeeper.domain.rules.shared.command import Command
from watchkeeper.domain.values.basic import Step
from watchkeeper.domain.values.observation.observation import SealFacts


class VerifySeal(Command):
    """Verify that nothing is missing for a seal.

    Attributes:
        waive: Missing items to waive, by name, such as `tracker state`. Each needs a consent.
        reason: The reason; empty if nothing is waived.
    """

    facts: SealFacts
    waive: tuple[str, ...] = ()
    reason: str = ""


class CompleteSeal(Command):
    """Close the run, because its tag is on the remote.

    Attributes:
        head: Version and chain hash that the tag's message names.
    """

    head: str


class VerifyMilestone(Command):
    """Verify a checkpoint of a running run, so that it is tagged."""

    step: Step
    facts: SealFacts
