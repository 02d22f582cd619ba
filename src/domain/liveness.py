"""Which of a run's clocks moved at a check, and why it is quiet where none did."""

from watchkeeper.domain.values import Value


class Liveness(Value):
    """What independent witnesses say about whether a run moves.

    Attributes:
        quiet: Why nothing moves, such as `run_hung`; empty while something does.
    """

    quiet: str = ""
