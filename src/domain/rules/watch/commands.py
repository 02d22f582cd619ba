"""Commands of the watch."""

from pydantic import PositiveInt

from watchkeeper.domain.rules.shared.command import Command
from watchkeeper.domain.run.watch import Holder
from watchkeeper.domain.values.observation.observation import Observation
from watchkeeper.domain.values.people import PrincipalName


class TakeWatch(Command):
    """Take or renew the watch.

    Attributes:
        same_home: Whether the caller holds the home's watch lock, so that no other process watches.
        force: Whether to take it from a holder whose lease is still valid.
    """

    holder: Holder
    same_home: bool
    force: bool = False

    @property
    def attempt(self) -> tuple[str, str]:
        """See `Command`."""
        return "watch --force", ""


class ReleaseWatch(Command):
    """Release the watch."""

    token: PositiveInt
    reason: str


class RecordCheck(Command):
    """Judge one observation.

    Attributes:
        token: The watch's fencing token.
        observation: The observation.
        digest: SHA-256 of the observation's scrubbed text, under which it is kept.
    """

    token: PositiveInt
    observation: Observation
    digest: str


class HandOver(Command):
    """Hand the watch over to a principal, with a packet of facts.

    Attributes:
        to: The principal who takes it next.
        here: The holder that this home would use.
        force: Whether to take it from another holder whose lease is still valid.
    """

    to: PrincipalName
    here: Holder
    force: bool = False
    note: str = ""

    @property
    def attempt(self) -> tuple[str, str]:
        """See `Command`."""
        return "handover --force", self.to


class DeclineWatch(Command):
    """End the watch for good, with a reason. The job is not changed."""

    reason: str

    @property
    def attempt(self) -> tuple[str, str]:
        """See `Command`."""
        return "decline", ""
