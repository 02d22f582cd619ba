"""What is stored has no secret, also where a mark of an earlier scrub stood."""

from datetime import UTC, datetime
from uuid import uuid4

import pytest

from watchkeeper.domain.run.envelope import Envelope
from watchkeeper.domain.run.operator import NoteAdded
from watchkeeper.domain.values.people import Actor
from watchkeeper.domain.values.secrets.scrubbing import Scrubber
from watchkeeper.services.ledger.scrub_and_encode import scrubbed_bytes

NOW = datetime(2026, 11, 21, tzinfo=UTC)
SECRET = "hunter2hunter2xyz"


@pytest.mark.parametrize(
    "text", [f"password={SECRET}", f"password=«redacted:password:ab12»{SECRET}"]
)
def test_a_secret_behind_a_mark_is_not_stored(text: str) -> None:
    envelope = Envelope[NoteAdded](
        event_id=uuid4(),
        occurred_at=NOW,
        recorded_at=NOW,
        actor=Actor(principal="dri", kind="human"),
        cause=None,
        correlation="tiny",
        key=None,
        data=NoteAdded(text=text),
    )
    _, state = scrubbed_bytes(Scrubber(b"key"), envelope)
    assert SECRET.encode() not in state
    assert "«redacted:" in state.decode()
