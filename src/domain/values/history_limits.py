"""How long a run's history may grow before it is reported.

Source of the numbers: Temporal warns at 10,240 events or 10 MB of one workflow's history, and ends
it at 51,200 or 50 MB. Here nothing is refused for its length, beyond either limit: a run that is
not recorded is not watched, its end must never be lost, and a live run can't go on under another
name. Each limit is recorded once, by the check that finds it passed.
"""

from typing import Literal

Limit = Literal["soft", "hard"]

SOFT_EVENTS, HARD_EVENTS = 10_240, 51_200


def limit_passed(events: int, told: Limit | None) -> Limit | None:
    """Return the limit that a history has passed and that was not recorded yet; none for neither.

    >>> limit_passed(10_239, None), limit_passed(10_240, None), limit_passed(10_241, "soft")
    (None, 'soft', None)
    >>> limit_passed(51_200, "soft"), limit_passed(60_000, None), limit_passed(60_000, "hard")
    ('hard', 'hard', None)
    """
    if events >= HARD_EVENTS:
        return None if told == "hard" else "hard"
    if events >= SOFT_EVENTS:
        return "soft" if told is None else None
    return None
