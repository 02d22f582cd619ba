"""Commands of the watch."""

from pydantic import PositiveInt

from watchkeeper.domain.rules.shared.command import Command
from watchkeeper.domain.run.watch import Holder
from watchkeeper.domain.values.observation.observation import Observation
from watchkeeper.domain.values.people import PrincipalName


class TakeWatch(Command):
    """Take or renew the watch.

    Attributes:
        same_home: The caller holds the home's watch lock, so no other process of it watches.
        force: Take it from a holder whose lease has not run out.
    """

    holder: Holder
    same_home: bool
    force: bool = False

    @property
    def attempt(self) -> tuple[str, str]:
        """See `Command`."""
        return "watch --force", ""


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


class HandOver(Command):
    """Give the watch to somebody, with all that they have to know.

    Attributes:
        to: Who takes it next.
        here: Who would hold a watch where this is asked.
        force: From a holder that was not asked and whose lease still runs.
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
    """End the watch for good, with a reason; the job is left as it is."""

    reason: str

    @property
    def attempt(self) -> tuple[str, str]:
        """See `Command`."""
        return "decline", ""
