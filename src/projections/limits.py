"""How long a history may grow before somebody should close it; standard library only.

Source of the numbers: Temporal warns at 10,240 events or 10 MB of one workflow's history, and ends
it at 51,200 or 50 MB. Here nothing is ever refused for its length: a run that is not recorded is
not watched, and the end of a run must never be lost. A long history is told, and costs time: it is
folded once for each process.
"""

SOFT_EVENTS, HARD_EVENTS = 10_240, 51_200
SOFT_BYTES, HARD_BYTES = 10_000_000, 50_000_000


def beyond(events: int, size_bytes: int = 0) -> str:
    """Return the limit that a history is beyond: `hard`, `soft`, or nothing.

    >>> beyond(10_240), beyond(100, 50_000_000), beyond(10_239)
    ('soft', 'hard', '')
    """
    if events >= HARD_EVENTS or size_bytes >= HARD_BYTES:
        return "hard"
    return "soft" if events >= SOFT_EVENTS or size_bytes >= SOFT_BYTES else ""
