"""Events with their recorded data, for programs that read a history."""

import json
from typing import Any

from watchkeeper.domain.run.envelope import Event, encode
from watchkeeper.projections.describe.event_lines import EventRow, event_row


class WholeRow(EventRow):
    """One event for programs, with its data.

    Attributes:
        event_id: Unique forever; subscribers get the same id.
        cause: The signal or event that caused it; None for a person's own act.
        data: Its data, in the newest schema of its topic. Secrets were removed before storage.
    """

    event_id: str
    cause: str | None
    data: dict[str, Any]


def whole_row(event: Event) -> WholeRow:
    """Return one event's row with its data; a check's data has about 5 kB."""
    stored = json.loads(encode(event.envelope)[1])
    return WholeRow(
        **event_row(event), event_id=stored["event_id"], cause=stored["cause"], data=stored["data"]
    )
