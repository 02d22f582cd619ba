"""What every command has: when it is asked, and by whom."""

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
