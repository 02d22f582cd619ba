"""Events with what they record, for programs that read a history."""

import json
from typing import Any

from watchkeeper.domain.run.envelope import Event, encode
from watchkeeper.projections.describe.event_lines import EventRow, event_row


class WholeRow(EventRow):
    """One event as a program reads it, with what it records.

    Attributes:
        event_id: Unique for ever; a subscriber gets the same.
        cause: The signal or event that caused it; none for a person's own act.
        data: What it records, in the shape of its topic's newest schema. Secrets were taken out
            before it was stored.
    """

    event_id: str
    cause: str | None
    data: dict[str, Any]


def whole_row(event: Event) -> WholeRow:
    """Return one event's row with its data; that of a check has some 5 kB."""
    stored = json.loads(encode(event.envelope)[1])
    return WholeRow(
        **event_row(event), event_id=stored["event_id"], cause=stored["cause"], data=stored["data"]
    )
