"""Golden files of recorded events: one for each topic that was ever recorded, kept for ever.

    uv run python -m tests.golden_events

adds a file for each topic that has none. It never changes one: a file that would have to change
means that a recorded shape was changed, where a new version of the topic and an upcast are due.
"""

import hashlib
import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings

from tests.domain.given import enveloped
from tests.domain.strategies import events
from tests.projections.tales import TALES
from watchkeeper.domain.envelope import Event, decode, encode
from watchkeeper.domain.events import Fact
from watchkeeper.domain.registry import type_of

FOLDER = Path(__file__).parent / "golden" / "events"
DIGESTS = FOLDER.parent / "events.sha256"

_TOLD_MAX = 3
_DRAWN_MAX = 2
_STATE_BYTES_MAX = 4_000


def path_of(topic: str) -> Path:
    """Return a topic's file."""
    return FOLDER / f"{topic}.json"


def digests() -> dict[str, str]:
    """Return the SHA-256 of every golden file, by its name."""
    rows = [line.split("  ", 1) for line in DIGESTS.read_text().splitlines()]
    return {name: digest for digest, name in rows}


def digest_of(path: Path) -> str:
    """Return a file's SHA-256."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def data_of(event: Event) -> Any:
    """Return an event's data as it was given: what later versions add has no place here."""
    text = event.data.model_dump_json(exclude_unset=True, serialize_as_any=True)
    return json.loads(text)


def _told(topic: str) -> Iterator[Event]:
    """Yield events of a topic from the tales, the longest first."""
    found = [e for make in TALES.values() for e in make().events if e.data.topic == topic]
    yield from sorted(found, key=lambda event: -len(encode(event.envelope)[1]))


def _drawn(kind: type[Fact]) -> Iterator[Event]:
    """Yield events of a kind drawn from its fields, always the same ones; the longest first."""
    found: list[Event] = []

    @seed(7)
    @settings(
        max_examples=40,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(events(kind, datetime(2030, 1, 1)))
    def draw(fact: Fact) -> None:
        found.append(enveloped(fact, len(found) + 1))

    draw()
    yield from sorted(found, key=lambda event: -len(encode(event.envelope)[1]))


def sample(topic: str) -> list[dict[str, Any]]:
    """Return recorded events of a topic: bytes, and what they say."""
    chosen: list[dict[str, Any]] = []
    for found, most in ((_told(topic), _TOLD_MAX), (_drawn(type_of[topic]), _DRAWN_MAX)):
        taken = 0
        for event in found:
            _, state = encode(event.envelope)
            if len(state) > _STATE_BYTES_MAX or taken == most:
                continue
            read = decode("run/golden", 1, topic, state)
            chosen.append({"state": state.decode(), "data": data_of(read)})
            taken += 1
    assert chosen, f"{topic}: no event of it fits a golden file"
    return chosen


def add_missing() -> list[str]:
    """Write a file for each topic that has none, and its digest; return the topics."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    known = digests() if DIGESTS.exists() else {}
    added = [topic for topic in sorted(type_of) if not path_of(topic).exists()]
    for topic in added:
        document = {"topic": topic, "recorded": sample(topic)}
        path_of(topic).write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
        known[path_of(topic).name] = digest_of(path_of(topic))
    lines = [f"{digest}  {name}" for name, digest in sorted(known.items())]
    DIGESTS.write_text("\n".join(lines) + "\n")
    return added


if __name__ == "__main__":
    print("\n".join(add_missing()) or "every topic has its golden file")
