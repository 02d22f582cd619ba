"""The CloudEvents form of an event that subscribers receive."""

import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class CloudEvent:
    """One stored event as subscribers see it. Its id and source together are unique for ever.

    Attributes:
        id: The event's own id.
        source: `//watchkeeper/<deployment>`.
        type: `dev.watchkeeper.<aggregate>.<fact>.v<n>`.
        topic: The ledger's topic, such as `run.check_recorded.1`.
        subject: `runs/<run>/<seq>`, or `<stream>/<seq>` for other streams.
        time: When it happened outside, ISO 8601; empty if unknown.
        partitionkey: The run's slug, or the stream's name without a run.
        run: The run's slug; empty without a run.
        position: Its place in the whole ledger, from 1. A subscriber resumes after it.
        data: The stored bytes: the envelope with the event.
        is_json: Whether the bytes are a JSON object, as every event's are.
    """

    id: str
    source: str
    type: str
    topic: str
    subject: str
    time: str
    partitionkey: str
    run: str
    position: int
    data: bytes
    is_json: bool = True

    @property
    def envelope(self) -> dict[str, Any]:
        """The parsed envelope: who, when, why, and the event itself under `data`."""
        found: dict[str, Any] = json.loads(self.data)
        return found
