"""The base class of all commands: who asks, and when."""

from pydantic import AwareDatetime

from watchkeeper.domain.values.basic import Value
from watchkeeper.domain.values.people import Actor


class Command(Value):
    """A request to change a run.

    Attributes:
        now: The time of the request. The domain never reads a clock.
        actor: The actor of the request.
    """

    now: AwareDatetime
    actor: Actor

    @property
    def attempt(self) -> tuple[str, str]:
        """The CLI's name of the command and its target, recorded if the command is refused."""
        return type(self).__name__.lower(), ""
