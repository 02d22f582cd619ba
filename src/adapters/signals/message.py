"""Turns a delivery into a message: parsed, bounded in size, without secrets.

It parses JSON and unwraps CloudEvents.
"""

import hashlib
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from pydantic import JsonValue
from pydantic_core import from_json

from watchkeeper.adapters.signals.fields import moment_of, text_of
from watchkeeper.domain.values.observation.signals import Delivery, Poison
from watchkeeper.domain.values.secrets.scrubbing import Scrubber, scrub_json

TEXT_MAX = 128 * 2**10
"""Characters of one text that are looked at; a log line may have megabytes."""

CHARS_MAX = 4 * 2**20
VALUES_MAX = 300_000
"""Size limit of a whole message after that; scrubbing takes about a second per megabyte."""

TAIL_MAX = 8 * 2**10
"""Characters dropped before a cut: they may hold half a secret, which is unrecognisable."""

_CUT = "\n\ue000cut here\ue000"

_DEAD_LETTER = "CloudPubSubDeadLetterSource"
_WRAPPED = "google.cloud.pubsub.topic.v1.messagePublished"
_CONTEXT = frozenset({"specversion", "id", "source", "type", "subject", "time"})


@dataclass(frozen=True, slots=True)
class CloudEvent:
    """A CloudEvent's context, the same for both of its modes.

    Attributes:
        more: Its extension attributes, such as `bucket`, by their names in lower case.
    """

    id: str
    source: str
    type: str
    subject: str = ""
    time: datetime | None = None
    more: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class Message:
    """A message as the parsers of the families read it; scrubbed.

    Attributes:
        attributes: The attributes of its delivery.
        body: Its JSON; None if it has no JSON.
        unreadable: Why there is no JSON; empty if there is.
        digest: SHA-256 of its bytes as they came, in hex.
        comment: SHA-256 of a comment's text as it came, in hex; empty if it is no comment.
        event: Its CloudEvent, when it is one.
        published_at: When a transport took it first, also when it is a dead letter by now.
        forwarded: How it became a dead letter; empty for all others.
    """

    attributes: Mapping[str, str]
    body: JsonValue
    unreadable: str
    digest: str
    comment: str
    event: CloudEvent | None
    published_at: datetime | None
    received_at: datetime
    forwarded: str = ""


@dataclass(frozen=True, slots=True)
class _Letter:
    """A message before its secrets are out."""

    attributes: Mapping[str, str]
    body: JsonValue
    unreadable: str
    event: Mapping[str, str] | None


def open_message(delivery: Delivery, scrubber: Scrubber) -> Message | Poison:
    """Read a delivery's JSON and take the secrets out of all of it."""
    letter = _letter(delivery)
    if isinstance(letter, Poison):
        return letter
    around: JsonValue = dict(letter.attributes)
    event: JsonValue = None if letter.event is None else dict(letter.event)
    try:
        bounded = _bounded({"attributes": around, "event": event, "body": letter.body})
        clean, _ = scrub_json(scrubber, bounded)
    except ValueError as error:
        return Poison(str(error))
    whole = _without_tails(clean)
    assert isinstance(whole, dict), "scrubbing keeps the shape"
    attributes = _texts(whole["attributes"])
    return Message(
        attributes=attributes,
        body=whole["body"],
        unreadable=letter.unreadable,
        digest=hashlib.sha256(delivery.data).hexdigest(),
        comment=_comment_digest(letter.body),
        event=None if letter.event is None else _cloud_event(_texts(whole["event"])),
        published_at=_first_published(delivery),
        received_at=delivery.received_at,
        forwarded=_forwarded(attributes),
    )


def wrapped_message(delivery: Delivery) -> Delivery | Poison | None:
    """Return the message in a CloudEvent that wraps a whole Pub/Sub message; otherwise None.

    A message wrapped twice is unwrapped only once: only an attacker would do that.
    """
    declared = delivery.attributes.get("ce-type", "")
    structured = _is_structured(delivery.attributes)
    if declared != _WRAPPED and not (structured and _WRAPPED.encode() in delivery.data):
        return None
    letter = _letter(delivery)
    if isinstance(letter, Poison) or letter.event is None or letter.event.get("type") != _WRAPPED:
        return None
    body = letter.body if isinstance(letter.body, dict) else {}
    inner = body.get("message")
    if not isinstance(inner, dict):
        return Poison("a wrapped Pub/Sub message without `message`")
    data = inner.get("data", "")
    try:
        raw = b64decode(data if isinstance(data, str) else "", validate=True)
    except (Base64Error, ValueError):
        return Poison("a wrapped Pub/Sub message whose data is no base64")
    published = moment_of(inner.get("publishTime") or inner.get("publish_time"))
    return replace(
        delivery,
        data=raw,
        attributes=_texts(inner.get("attributes")),
        published_at=published or delivery.published_at,
    )


def _letter(delivery: Delivery) -> _Letter | Poison:
    around = delivery.attributes
    body, unreadable = _json(delivery.data)
    if _is_structured(around):
        if not isinstance(body, dict):
            return Poison(unreadable or "a structured CloudEvent that is no JSON object")
        context = {name.lower(): text for name in body if (text := text_of(body[name])) is not None}
        data = body.get("data")
        encoded = body.get("data_base64")
        if data is None and isinstance(encoded, str):
            try:
                data, unreadable = _json(b64decode(encoded, validate=True))
            except (Base64Error, ValueError):
                return Poison("a structured CloudEvent whose data_base64 is no base64")
        return _named(around, data, unreadable, context)
    context = {
        name[3:].lower(): text for name, text in around.items() if name.lower().startswith("ce-")
    }
    if not context:
        return _Letter(around, body, unreadable, None)
    return _named(around, body, unreadable, context)


def _named(
    around: Mapping[str, str], body: JsonValue, unreadable: str, context: Mapping[str, str]
) -> _Letter | Poison:
    missing = [name for name in ("id", "source", "type") if not context.get(name)]
    if missing:
        return Poison(f"a CloudEvent without {', '.join(missing)}")
    return _Letter(around, body, unreadable, context)


def _is_structured(attributes: Mapping[str, str]) -> bool:
    return attributes.get("content-type", "").lower().startswith("application/cloudevents")


def _json(data: bytes) -> tuple[JsonValue, str]:
    """Read JSON; not-a-number and infinities are let through, since trainers write them."""
    if not data.strip():
        return None, "no data"
    try:
        return from_json(data), ""
    except ValueError as error:
        return None, f"not JSON: {str(error)[:200]}"


def _bounded(value: JsonValue) -> JsonValue:
    """Cut texts that are too long; refuse a message that holds too much even so."""
    values = chars = 0
    waiting: list[JsonValue] = [value]
    while waiting:
        one = waiting.pop()
        values += 1
        if isinstance(one, str):
            chars += min(len(one), TEXT_MAX)
        elif isinstance(one, list):
            waiting.extend(one)
        elif isinstance(one, dict):
            chars += sum(map(len, one))
            waiting.extend(one.values())
        if values > VALUES_MAX or chars > CHARS_MAX:
            raise ValueError(f"holds more than {VALUES_MAX} values or {CHARS_MAX} characters")
    return _cut(value)


def _cut(value: JsonValue) -> JsonValue:
    if isinstance(value, str):
        return value if len(value) <= TEXT_MAX else value[:TEXT_MAX] + _CUT
    if isinstance(value, list):
        return [_cut(one) for one in value]
    if isinstance(value, dict):
        return {name: _cut(one) for name, one in value.items()}
    return value


def _without_tails(value: JsonValue) -> JsonValue:
    """Take the ends of cut texts away, once all secrets are out that are whole.

    Marks are shorter than secrets, so where the cut was is known only by its own mark.
    """
    if isinstance(value, str):
        before, cut, _ = value.partition(_CUT)
        return before[:-TAIL_MAX] if cut else value
    if isinstance(value, list):
        return [_without_tails(one) for one in value]
    if isinstance(value, dict):
        return {name: _without_tails(one) for name, one in value.items()}
    return value


def _texts(value: JsonValue) -> dict[str, str]:
    if not isinstance(value, dict):
        return {}
    return {name: one for name, one in value.items() if isinstance(one, str)}


def _cloud_event(context: Mapping[str, str]) -> CloudEvent:
    return CloudEvent(
        id=context.get("id", ""),
        source=context.get("source", ""),
        type=context.get("type", ""),
        subject=context.get("subject", ""),
        time=moment_of(context.get("time")),
        more={name: text for name, text in context.items() if name not in _CONTEXT},
    )


def _comment_digest(body: JsonValue) -> str:
    comment = body.get("comment") if isinstance(body, dict) else None
    text = comment.get("body") if isinstance(comment, dict) else None
    return hashlib.sha256(text.encode()).hexdigest() if isinstance(text, str) else ""


def _first_published(delivery: Delivery) -> datetime | None:
    first = moment_of(delivery.attributes.get(f"{_DEAD_LETTER}TopicPublishTime"))
    return first or delivery.published_at


def _forwarded(attributes: Mapping[str, str]) -> str:
    subscription = attributes.get(f"{_DEAD_LETTER}Subscription")
    if subscription is None:
        return ""
    tries = attributes.get(f"{_DEAD_LETTER}DeliveryCount", "several")
    return f"given up by {subscription} after {tries} tries"
