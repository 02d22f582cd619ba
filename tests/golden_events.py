"""Golden files of recorded events: one for each topic that was ever recorded, kept for ever.

    uv run python -m tests.golden_events

adds a file for each topic that has none, and one more, `<topic>.all.json`, for a topic with a field
that stands in none of its files: an optional one that was added later, or lies in a part that no
event here has. It never changes a file: one that would have to change means that a recorded shape
was changed, where a new version of the topic and an upcast are due.
"""

import hashlib
import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, get_args

from hypothesis import HealthCheck, Phase, given, seed, settings
from pydantic import BaseModel

from tests.domain.given import enveloped
from tests.domain.strategies import CONTRACTS, events
from tests.projections.tales import TALES
from tests.whole_contracts import WHOLE_CONTRACTS
from watchkeeper.domain.run.envelope import Event, decode, encode
from watchkeeper.domain.run.fact import Fact
from watchkeeper.domain.run.registry import type_of

FOLDER = Path(__file__).parent / "golden" / "events"
DIGESTS = FOLDER.parent / "events.sha256"

_TOLD_MAX = 3
_DRAWN_MAX = 2
_STATE_BYTES_MAX = 4_000
_FILLING_MAX = 500
_NOTHING: tuple[Any, ...] = (None, "", (), {})
"""A field with one of these stands there, and says nothing."""

Field = tuple[str, str]
"""A field: its model and its name."""


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


def _drawn(kind: type[Fact], number: int = 40) -> Iterator[Event]:
    """Yield events of a kind drawn from its fields, always the same ones; the longest first."""
    found: list[Event] = []

    @seed(7)
    @settings(
        max_examples=number,
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


def fields_of(kind: type[Fact]) -> set[Field]:
    """Return every field that an event of a kind may have, in each of its parts."""
    return {(model.__name__, name) for model in _models(kind, set()) for name in model.model_fields}


def _models(annotation: Any, found: set[type[BaseModel]]) -> set[type[BaseModel]]:
    for part in get_args(annotation):
        _models(part, found)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        model: type[BaseModel] = annotation
        if model not in found:
            found.add(model)
            for field in model.model_fields.values():
                _models(field.annotation, found)
    return found


def fields_in(value: Any) -> set[Field]:
    """Return every field that says something in a value of a model, and in each of its parts."""
    here: set[Field] = set()
    parts: list[Any] = []
    if isinstance(value, BaseModel):
        told: dict[str, Any] = {name: getattr(value, name) for name in value.model_fields_set}
        here = {(type(value).__name__, name) for name, one in told.items() if one not in _NOTHING}
        parts = list(told.values())
    elif issubclass(type(value), dict):
        parts = list(value.values())
    elif issubclass(type(value), list | tuple | set | frozenset):
        parts = list(value)
    return here.union(*map(fields_in, parts))


def files_of(topic: str) -> list[Path]:
    """Return the files of a topic: its first one, and those with fields that this one lacks."""
    return sorted(
        path for path in (path_of(topic), *FOLDER.glob(f"{topic}.all*.json")) if path.exists()
    )


def lacking(topic: str) -> set[Field]:
    """Return the fields of a topic's events that stand in none of its files."""
    told: set[Field] = set()
    for path in files_of(topic):
        for one in json.loads(path.read_text())["recorded"]:
            told |= fields_in(decode("run/golden", 1, topic, one["state"].encode()).data)
    return fields_of(type_of[topic]) - told


def _whole(kind: type[Fact]) -> Iterator[Event]:
    """Yield many events of a kind; one with a contract has those with all parts, too."""
    for event in _drawn(kind, _FILLING_MAX):
        for name, value in event.data:
            if value in CONTRACTS:
                for whole in WHOLE_CONTRACTS:
                    yield enveloped(event.data.model_copy(update={name: whole}), 1)
        yield event


def filling(topic: str, wanted: set[Field]) -> list[dict[str, Any]]:
    """Return few recorded events of a topic that have all of some fields."""
    candidates = [
        (state, fields_in(decode("run/golden", 1, topic, state).data))
        for _, state in (encode(event.envelope) for event in _whole(type_of[topic]))
    ]
    chosen: list[dict[str, Any]] = []
    left = set(wanted)
    while left:
        state, has = max(candidates, key=lambda one: (len(one[1] & left), -len(one[0])))
        assert has & left, f"{topic}: no event was drawn with {sorted(left & wanted)}"
        left -= has
        data = data_of(decode("run/golden", 1, topic, state))
        chosen.append({"state": state.decode(), "data": data})
    return chosen


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
    """Write each file that is missing, and its digest; return their names."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    known = digests() if DIGESTS.exists() else {}
    added: list[str] = []

    def add(path: Path, topic: str, recorded: list[dict[str, Any]]) -> None:
        document = {"topic": topic, "recorded": recorded}
        path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
        known[path.name] = digest_of(path)
        added.append(path.name)

    for topic in sorted(type_of):
        if not path_of(topic).exists():
            add(path_of(topic), topic, sample(topic))
        wanted = lacking(topic)
        if wanted:
            number = len(files_of(topic))
            name = f"{topic}.all.json" if number == 1 else f"{topic}.all-{number}.json"
            add(FOLDER / name, topic, filling(topic, wanted))
    lines = [f"{digest}  {name}" for name, digest in sorted(known.items())]
    DIGESTS.write_text("\n".join(lines) + "\n")
    return added


if __name__ == "__main__":
    print("\n".join(add_missing()) or "every topic has its golden files")
