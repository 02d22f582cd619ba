"""The base class of all commands: who asks, and when."""

from pydantic import AwareDatetime

from watchkeeper.domain.values.basic import Value
from watchkeeper.domain.values.people import Actor


class Command(Value):
    """A request.

    Attributes:
        now: When it is asked; nothing in the domain reads a clock.
        actor: Who asks.
    """

    now: AwareDatetime
    actor: Actor

    @property
    def attempt(self) -> tuple[str, str]:
        """What is asked, in the word of the CLI, and about what: recorded where it is refused."""
        return type(self).__name__.lower(), ""
