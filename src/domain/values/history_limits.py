"""Limits for the length of a run's history. Standard library only.

Source of the numbers: Temporal warns at 10,240 events or 10 MB of one workflow's history, and ends
the workflow at 51,200 events or 50 MB. watchkeeper refuses nothing because of a history's length,
since a run must stay watched. The first check beyond a limit records that once.
"""

from typing import Literal

Limit = Literal["soft", "hard"]

SOFT_EVENTS, HARD_EVENTS = 10_240, 51_200


def limit_passed(events: int, recorded: Limit | None) -> Limit | None:
    """Return the limit that a history newly passed and that is not recorded, or `None`.

    >>> limit_passed(10_239, None), limit_passed(10_240, None), limit_passed(10_241, "soft")
    (None, 'soft', None)
    >>> limit_passed(51_200, "soft"), limit_passed(60_000, None), limit_passed(60_000, "hard")
    ('hard', 'hard', None)
    """
    if events >= HARD_EVENTS:
        return None if recorded == "hard" else "hard"
    if events >= SOFT_EVENTS:
        return "soft" if recorded is None else None
    return None
