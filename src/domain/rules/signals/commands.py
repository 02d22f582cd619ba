"""Commands that deliver outside signals to a run."""

from watchkeeper.domain.rules.shared.command import Command
from watchkeeper.domain.values.observation.signals import Signal


class ReceiveSignal(Command):
    """Take a signal that was bound to the run.

    Attributes:
        instance: The instance that it speaks of; empty for the whole run.
        bound_by: The clue that led here, or `a person`.
        coalesced: How many signals of its source it is the newest of; 0 for one by itself.
    """

    signal: Signal
    instance: str = ""
    bound_by: str
    coalesced: int = 0
