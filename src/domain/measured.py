"""What one check measured in a run's metrics: windowed statistics, bounded, never the series."""

from watchkeeper.domain.values import Value


class Measured(Value):
    """Statistics of the metrics that a check saw; what could not be measured is none.

    Attributes:
        points: Points of history that were looked at.
    """

    points: int = 0
