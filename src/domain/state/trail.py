"""Looking back over the checks that a run remembers."""

from watchkeeper.domain.events import CheckRecorded
from watchkeeper.domain.state.remembered import TRAIL_MAX, PastCheck
from watchkeeper.domain.state.run import Run


def checks_before(run: Run, check: CheckRecorded) -> tuple[PastCheck, ...]:
    """Return the remembered checks before one, oldest first.

    Detectors are asked before a check is folded in, so that it can say how healthy the run is, and
    after, when a recorded check is judged again. Both must give the same answer: of a full trail
    the oldest check is left out as well, which folding one in pushes out.
    """
    last = run.last_check
    if last is not None and last.event == check:
        return run.trail[:-1]
    return run.trail[1 - TRAIL_MAX :]
