"""Commands of proposals, consents and waivers."""

from datetime import timedelta

from pydantic import AwareDatetime

from watchkeeper.domain.rules.permits.guarded import GuardedAction
from watchkeeper.domain.rules.shared.command import Command
from watchkeeper.domain.values.contract.contract import Lane


class Propose(Command):
    """Propose a guarded action. Anyone may propose.

    Attributes:
        agree: Whether a human consents to it at once.
    """

    action: GuardedAction
    target: str
    reason: str
    agree: bool = False


class GiveConsent(Command):
    """Consent to one proposed act, once.

    Attributes:
        digest: The first digits of the proposal's digest, if the human names them; else empty.
        life: How long the consent is valid; `None` means the action's default.
    """

    proposal: str
    digest: str = ""
    note: str = ""
    life: timedelta | None = None

    @property
    def attempt(self) -> tuple[str, str]:
        """See `Command`."""
        return "consent", self.proposal


class Waive(Command):
    """Waive a named block of the launch gate, or a named missing item of the seal.

    Attributes:
        subject: A launch rule such as `L13`, or a missing item such as `tracker state`.
        until: When it ends; `None` means with the run.
    """

    subject: str
    reason: str
    until: AwareDatetime | None = None

    @property
    def attempt(self) -> tuple[str, str]:
        """See `Command`."""
        return "waive", self.subject


class Revoke(Command):
    """Take back an approval, a consent or a waiver, or decline a proposal.

    Attributes:
        name: Such as `a-1`, `c-1`, `w-1` or `p-1`.
    """

    name: str
    reason: str = ""

    @property
    def attempt(self) -> tuple[str, str]:
        """See `Command`."""
        return "revoke", self.name


class GrantStandingWaiver(Command):
    """Waive a launch rule in advance, for one principal's launches in a lane.

    Attributes:
        requester: Whose launches; the waiving human if empty.
        until: When it ends; `None` means after the longest allowed time.
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


PeopleCommand = GrantStandingWaiver | RevokeStandingWaiver
"""The commands on the stream `people`."""
