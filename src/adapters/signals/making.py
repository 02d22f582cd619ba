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
_READ_MAX = 4000

AHEAD_MAX = timedelta(minutes=5)
"""How far a source's clock may be ahead of ours. The newest word on a subject holds, so a time that
lies further ahead would outdo all that comes until then."""

Clue = tuple[str, str | None]
"""A space, such as `submission`, and a name in it; no name is no clue."""


@dataclass(frozen=True, slots=True)
class Said:
    """A parser's result, before it is cut to size.

    Attributes:
        key: The parts of the natural key, in a fixed order.
        at: When it happened, by the source; when it was published, when the source says nothing.
        clues: The strongest first.
        facts: Those without a value are left out.
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
    at, claimed = _happened(message, said.at)
    facts = {"claimed_at": claimed, **(said.facts or {}), "forwarded": message.forwarded}
    shown = {name: one_line(str(value)) for name, value in facts.items() if value not in (None, "")}
    return Signal(
        source=said.source,
        key=natural_key(*said.key),
        kind=said.kind,
        subject=subject_of(said.subject),
        summary=one_line(said.summary.rstrip(" :")),
        clues=tuple(_clues(said.clues))[:_CLUES_MAX],
        facts=dict(list(shown.items())[:_FACTS_MAX]),
        occurred_at=at,
        published_at=message.published_at,
        received_at=message.received_at,
    )


def _happened(message: Message, at: datetime | None) -> tuple[datetime, str]:
    """Return the time of an event, and the claimed time if that is in our future."""
    latest = message.received_at + AHEAD_MAX
    published = message.published_at
    if published is None or published > latest:
        published = message.received_at
    if at is None or at <= latest:
        return at or published, ""
    return published, at.isoformat()


def natural_key(*parts: object) -> str:
    """Join the parts of a natural key; by a digest when they could be mistaken or are too long.

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
    r"""Return a text as one printable line of at most so many characters.

    >>> one_line("a\n  b\x00c", 4)
    'a b…'
    """
    shown = "".join(sign if sign.isprintable() else " " for sign in text[:_READ_MAX])
    line = " ".join(shown.split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def subject_of(text: str) -> str:
    """Return a subject whole, or cut with a digest so that it stays one of a kind."""
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
    # Half a name is another name.
    return (clue for clue in named if len(clue) <= CLUE_MAX)
