"""An open question, as a run remembers it."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Question:
    """An open question to the DRI.

    Attributes:
        instance: The newest instance as it was asked; empty before the first.
        finding: Kind of the open finding that it is about; empty for none.
        summary: That finding's sentence.
        cleared_at: When that finding was cleared; none while it is open.
    """

    name: str
    rule: str
    asks: str
    raised_at: datetime
    instance: str = ""
    finding: str = ""
    summary: str = ""
    cleared_at: datetime | None = None
