"""The offset of a loss after a resume.

It is measured against the same steps before the resume, or else against the trend before it.
"""

from dataclasses import dataclass

import numpy as np

from watchkeeper.domain.reading.metrics.numeric import Floats, Ints


@dataclass(frozen=True, slots=True)
class Offset:
    """The offset of a loss after a resume, as a share of the loss before, with its error."""

    share: float
    error: float
    points: int


def offset_by_steps(before: Floats, after: Floats, planned: float) -> Offset:
    """Compare losses of the same steps."""
    differences = after - before - planned
    scale = max(abs(float(before.mean())), 1e-12)
    error = float(differences.std()) / max(before.size - 1, 1) ** 0.5
    return Offset(float(differences.mean()) / scale, error / scale, int(before.size))


MEMORY_MAX = 0.95
"""Upper limit for the measured correlation of neighbours."""


def _memory(rest: Floats) -> float:
    """Return the factor by which correlated neighbours raise the variance of a mean."""
    if rest.size < 3:
        return 1.0
    spread = float((rest * rest).sum())
    shared = float((rest[1:] * rest[:-1]).sum()) / spread if spread > 0 else 0.0
    alike = min(max(shared, 0.0), MEMORY_MAX)
    return (1 + alike) / (1 - alike)


TREND_DOUBT = 0.25
"""The uncertain share of a trend's contribution: a loss does not stay on a line."""


def offset_by_trend(
    before_steps: Ints, before: Floats, after_steps: Ints, after: Floats, planned: float
) -> Offset:
    """Compare the losses after a resume with the trend before it.

    Losses fall about evenly with the logarithm of the step. The trend has a slope only if it is
    clear against the noise, since a random slope must not be extrapolated.
    """
    logged = np.log(before_steps + 1.0)
    x = logged - logged.mean()
    spread = float((x * x).sum())
    slope = float((x * before).sum()) / spread if spread > 0 else 0.0
    rest = before - before.mean() - slope * x
    deviation = float(rest.std())
    slope_error = (_memory(rest) / spread) ** 0.5 * deviation if spread > 0 else 0.0
    far = float(np.log(after_steps + 1.0).mean() - logged.mean())
    doubt = TREND_DOUBT * abs(slope)
    if abs(slope) < 3 * slope_error:
        # The trend is neither used nor ruled out.
        doubt, slope = abs(slope), 0.0
    expected = float(before.mean()) + slope * far + planned
    # Neighbours that resemble each other count for fewer points than there are.
    alike = _memory(rest)
    error = (
        alike * deviation**2 / before.size
        + alike * float(after.std()) ** 2 / after.size
        + (slope_error * far) ** 2
        + (doubt * far) ** 2
    ) ** 0.5
    scale = max(abs(expected), 1e-12)
    return Offset((float(after.mean()) - expected) / scale, error / scale, int(after.size))
