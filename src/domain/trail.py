"""Looking back over the checks that a run remembers."""

from watchkeeper.domain.events import CheckRecorded
from watchkeeper.domain.state import LastCheck, Run


def checks_before(run: Run, check: CheckRecorded) -> tuple[LastCheck, ...]:
    """Return the remembered checks before one, oldest first.

    Detectors are asked twice: before a check is folded in, so that it can say how healthy the run
    is, and after. Both must give the same answer.
    """
    trail = run.trail
    return trail[:-1] if trail and trail[-1].event == check else trail
