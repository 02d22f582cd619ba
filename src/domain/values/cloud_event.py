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
        topic: The same as the ledger calls it, such as `run.check_recorded.1`.
        subject: `runs/<run>/<seq>`; `<stream>/<seq>` for what is no run's own history.
        time: When it was true outside, ISO 8601; empty where the bytes do not say.
        partitionkey: The run's slug; the stream's name for what belongs to no run.
        run: The run's slug; empty for what belongs to no run.
        position: Its place in the whole ledger, from 1: a subscriber resumes behind it.
        data: The stored bytes, as they are hashed: the envelope with the event in it.
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
        """The stored envelope, read: who, when, why, and the event itself under `data`."""
        found: dict[str, Any] = json.loads(self.data)
        return found
