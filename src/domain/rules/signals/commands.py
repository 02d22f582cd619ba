"""Commands that deliver outside signals to a run."""

from watchkeeper.domain.rules.shared.command import Command
from watchkeeper.domain.values.observation.signals import Signal


class ReceiveSignal(Command):
    """Record a signal that was bound to the run.

    Attributes:
        instance: The instance that the signal is about; empty for the whole run.
        bound_by: The clue that identified the run, or `a person`.
        coalesced: How many signals of its source it represents; 0 if it represents only itself.
    """

    signal: Signal
    instance: str = ""
    bound_by: str
    coalesced: int = 0
