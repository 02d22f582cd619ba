"""Messages of the tests' own, and what reads them: as plain as a signal can be written."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from watchkeeper.domain.values.observation.signals import (
    Delivery,
    Ignored,
    Parsed,
    Poison,
    Signal,
    SignalKind,
)
from watchkeeper.domain.values.secrets.scrubbing import Scrubber, scrub

AT = datetime(2026, 11, 18, 18, 0, tzinfo=UTC)


def plain_message(number: int, run: str, **changes: Any) -> bytes:
    """Return the bytes of one signal about a node of its own, so that each is an event."""
    message = {
        "source": "test",
        "key": f"{run}-{number}",
        "kind": "node_lost",
        "subject": f"n{number}",
        "summary": f"node n{number} is lost",
        "clues": [f"run:{run}"],
        "at": (AT + timedelta(seconds=number)).isoformat(),
    }
    return json.dumps({**message, **changes}).encode()


def parse_plain(delivery: Delivery, scrubber: Scrubber) -> Parsed:
    """Read such a message."""
    try:
        told = json.loads(delivery.data)
        if told.get("kind") == "noise":
            return Ignored("noise")
        signal = Signal(
            source=told["source"],
            key=told["key"],
            kind=SignalKind(told["kind"]),
            subject=told["subject"],
            summary=scrub(scrubber, told["summary"]).text[:300],
            clues=tuple(told["clues"]),
            occurred_at=datetime.fromisoformat(told["at"]),
            published_at=delivery.published_at,
            received_at=delivery.received_at,
        )
    except (ValueError, KeyError, TypeError) as error:
        return Poison(f"no plain signal: {type(error).__name__}")
    return (signal,)
