"""Commands of proposals, consents and waivers."""

from datetime import timedelta

from pydantic import AwareDatetime

from watchkeeper.domain.rules.permits.guarded import GuardedAction
from watchkeeper.domain.rules.shared.command import Command
from watchkeeper.domain.values.contract.contract import Lane


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

    @property
    def attempt(self) -> tuple[str, str]:
        """See `Command`."""
        return "consent", self.proposal


class Waive(Command):
    """Let a named block of the launch gate, or a named lack of the seal, pass.

    Attributes:
        subject: A launch rule such as `L13`, or a lack such as `tracker state`.
        until: When it ends; none for as long as the run lasts.
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


PeopleCommand = GrantStandingWaiver | RevokeStandingWaiver
"""What is asked of the stream `people`."""
