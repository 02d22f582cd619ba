"""Compares the steps of two failures."""

from watchkeeper.domain.run.ends import Failure

WINDOW_STEPS = 10
"""Two ends within this many steps of each other count as the same window.

A rounded progress bar shows a step to within 5 from 1,000 on, so two ends at one step may be
read 10 apart.
"""


def is_past(failure: Failure, earlier: Failure) -> bool:
    """Return whether a run surely passed an earlier failure before it failed again."""
    if failure.step is None or earlier.step is None:
        return False
    return failure.step - failure.step_uncertainty > earlier.step + earlier.step_uncertainty


def in_same_window(failure: Failure, earlier: Failure) -> bool:
    """Return whether two ends may be at one step; indistinguishable readings count as one."""
    if failure.step is None or earlier.step is None:
        return False
    coarse = failure.step_uncertainty + earlier.step_uncertainty
    return abs(failure.step - earlier.step) <= max(WINDOW_STEPS, coarse)


def failed_again(before: tuple[Failure, ...], after: tuple[Failure, ...]) -> bool:
    """Return whether the newest failure repeats the previous one without progress past it."""
    if not before:
        return False
    newest, earlier = after[-1], before[-1]
    if newest.fingerprint != earlier.fingerprint:
        return False
    return not is_past(newest, earlier) or in_same_window(newest, earlier)
