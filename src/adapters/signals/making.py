"""Builds signals: natural keys, clues and texts of bounded length."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from watchkeeper.adapters.signals.message import Message
from watchkeeper.domain.values.observation.signals import Signal, SignalKind

TEXT_MAX = 300
CLUE_MAX = 600
KEY_MAX = 480
_FACTS_MAX = 24
_CLUES_MAX = 24
_CHARACTERS_READ_MAX = 4000

AHEAD_MAX = timedelta(minutes=5)
"""How far a source's clock may be ahead of ours. The newest signal on a subject counts. So a time
in the future would hide all signals until then."""

Clue = tuple[str, str | None]
"""A namespace, such as `submission`, and a name in it; a clue without a name is dropped."""


@dataclass(frozen=True, slots=True)
class Said:
    """A parser's result, before its texts are shortened.

    Attributes:
        key: The parts of the natural key, in a fixed order.
        at: When the event happened, by the source's clock; None for the time of publication.
        clues: Clues to the owner, the strongest first.
        facts: Further facts by name; facts without a value are dropped.
    """

    source: str
    key: tuple[object, ...]
    kind: SignalKind
    subject: str
    summary: str
    at: datetime | None
    clues: Iterable[Clue] = ()
    facts: Mapping[str, object] | None = None


def signal_of(message: Message, said: Said) -> Signal:
    """Build the signal from a message's content."""
    at, claimed = _time_of(message, said.at)
    facts = {"claimed_at": claimed, **(said.facts or {}), "forwarded": message.forwarded}
    kept = {name: one_line(str(value)) for name, value in facts.items() if value not in (None, "")}
    return Signal(
        source=said.source,
        key=natural_key(*said.key),
        kind=said.kind,
        subject=subject_of(said.subject),
        summary=one_line(said.summary.rstrip(" :")),
        clues=tuple(_clues(said.clues))[:_CLUES_MAX],
        facts=dict(list(kept.items())[:_FACTS_MAX]),
        occurred_at=at,
        published_at=message.published_at,
        received_at=message.received_at,
    )


def _time_of(message: Message, at: datetime | None) -> tuple[datetime, str]:
    """Return the time of an event, and the claimed time if that is in our future."""
    latest = message.received_at + AHEAD_MAX
    published = message.published_at
    if published is None or published > latest:
        published = message.received_at
    if at is None or at <= latest:
        return at or published, ""
    return published, at.isoformat()


def natural_key(*parts: object) -> str:
    """Join the parts of a natural key; use a digest if the result is ambiguous or too long.

    >>> natural_key("us-east5-a", "hero-i2", "FAILED", 1795219184600, 17)
    'us-east5-a|hero-i2|FAILED|1795219184600|17'
    """
    texts = [_part(part) for part in parts]
    joined = "|".join(texts)
    if len(joined) <= KEY_MAX and joined.count("|") == len(texts) - 1 and joined.isprintable():
        return joined
    whole = json.dumps(texts).encode()
    return f"sha256:{hashlib.sha256(whole).hexdigest()}"


def one_line(text: str, limit: int = TEXT_MAX) -> str:
    r"""Return a text as one printable line of at most `limit` characters.

    >>> one_line("a\n  b\x00c", 4)
    'a b…'
    """
    shown = "".join(
        character if character.isprintable() else " " for character in text[:_CHARACTERS_READ_MAX]
    )
    line = " ".join(shown.split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def subject_of(text: str) -> str:
    """Return a subject unchanged, or shortened with a digest that keeps it unique."""
    if len(text) <= TEXT_MAX:
        return text
    return f"{text[: TEXT_MAX - 20]}…{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def last_part(path: str | None) -> str:
    """Return what follows the last slash, such as a node's name.

    >>> last_part("projects/p/locations/us-east5-a/nodes/n1")
    'n1'
    """
    return (path or "").rstrip("/").rpartition("/")[2]


def _part(part: object) -> str:
    if part is None:
        return ""
    return part.isoformat() if isinstance(part, datetime) else str(part)


def _clues(clues: Iterable[Clue]) -> Iterable[str]:
    named = dict.fromkeys(f"{space}:{name}" for space, name in clues if name)
    # A name is never shortened: part of it may be another name.
    return (clue for clue in named if len(clue) <= CLUE_MAX)
