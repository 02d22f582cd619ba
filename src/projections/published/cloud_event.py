"""Stored events as CloudEvents 1.0: how subscribers see the ledger.

The mapping is our own: it is short, and no wire format belongs in the domain. The tests read its
output with the CloudEvents project's own library.
"""

import json
import re
from base64 import b64encode
from collections.abc import Sequence
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Any, cast
from uuid import UUID

from watchkeeper.domain.values.cloud_event import CloudEvent

TYPE_PREFIX = "dev.watchkeeper."
"""The prefix of every type, before aggregate, fact and version."""

SEQUENCE_DIGITS = 20
"""Digits of `sequence`: enough for any 64-bit position, so that texts sort like numbers."""

JSON = "application/json"
STRUCTURED = "application/cloudevents+json; charset=utf-8"
"""The content type of an event that carries its attributes in its body."""

_OF_A_RUN = ("run", "effects")
"""Streams that belong to one run: their names end in its slug."""

_TOPIC = re.compile(r"([a-z0-9_.]+)\.([0-9]+)")


def cloud_event(
    deployment: str, *, position: int, stream: str, version: int, topic: str, state: bytes
) -> CloudEvent:
    """Return one stored event as a CloudEvent; always the same for the same event.

    It needs no event model, so events of a later version are published too. Foreign bytes, which
    only another writer can have stored, get an id from their position.

    Args:
        deployment: The home that the ledger belongs to.
        position: Place in the whole ledger.
        stream: For example `run/<slug>`.
        version: Place in the stream.
        topic: For example `run.check_recorded.1`.
        state: The stored bytes.
    """
    envelope = _envelope(state)
    kind, _, name = stream.partition("/")
    run = name if kind in _OF_A_RUN else ""
    return CloudEvent(
        id=_event_id(envelope) or f"{stream}/{version}",
        source=f"//watchkeeper/{deployment}",
        type=type_name(topic),
        topic=topic,
        subject=f"{'runs/' + run if kind == 'run' else stream}/{version}",
        time=_time(envelope),
        partitionkey=run or stream,
        run=run,
        position=position,
        data=state,
        is_json=envelope is not None,
    )


def type_name(topic: str) -> str:
    """Return the type of a topic's events.

    >>> type_name("run.check_recorded.1")
    'dev.watchkeeper.run.check_recorded.v1'
    """
    found = _TOPIC.fullmatch(topic)
    return TYPE_PREFIX + (f"{found[1]}.v{found[2]}" if found else topic)


def schema_name(topic: str) -> str:
    """Return the URI that names the schema of a topic's events.

    >>> schema_name("run.check_recorded.1")
    'urn:watchkeeper:event:run.check_recorded.1'
    """
    return f"urn:watchkeeper:event:{topic}"


def attributes(event: CloudEvent) -> dict[str, str]:
    """Return the context attributes in canonical text form, without any free text.

    Attributes without a value are left out, as CloudEvents asks.
    """
    found = {
        "specversion": "1.0",
        "id": event.id,
        "source": event.source,
        "type": event.type,
        "subject": event.subject,
        "time": event.time,
        "dataschema": schema_name(event.topic) if event.is_json else "",
        "partitionkey": event.partitionkey,
        "sequence": f"{event.position:0{SEQUENCE_DIGITS}}",
        "position": str(event.position),
    }
    return {name: value for name, value in found.items() if value}


def content_type(event: CloudEvent) -> str:
    """Return the content type of the data."""
    return JSON if event.is_json else "application/octet-stream"


def binary(event: CloudEvent) -> tuple[dict[str, str], bytes]:
    """Return an event in binary mode: its attributes, and the data as stored.

    Returns:
        `ce-<name>` for each attribute and `content-type`; and the data.
    """
    found = {f"ce-{name}": value for name, value in attributes(event).items()}
    return {**found, "content-type": content_type(event)}, event.data


def structured(event: CloudEvent) -> bytes:
    """Return an event in structured mode: one JSON object on one line, without a line end."""
    found: dict[str, Any] = {
        **attributes(event),
        "position": event.position,
        "datacontenttype": content_type(event),
    }
    if not event.is_json:
        found["data_base64"] = b64encode(event.data).decode()
        return _dumped(found)
    # The stored bytes are inserted unchanged, so that no number changes its form.
    data = event.data if b"\n" not in event.data else _dumped(json.loads(event.data))
    return _dumped(found)[:-1] + b',"data":' + data + b"}"


def is_wanted(event: CloudEvent, types: Sequence[str], runs: Sequence[str]) -> bool:
    """Say whether a subscriber asked for an event.

    Args:
        event: The event.
        types: Globs, one of which must match; see `matches`. Empty for all types.
        runs: Slugs, one of which must own it. Empty for all events, including those of no run.
    """
    if runs and event.run not in runs:
        return False
    return not types or any(matches(event.topic, glob) for glob in types)


def matches(topic: str, glob: str) -> bool:
    """Say whether a glob matches a topic by type name, by topic name, or without version.

    >>> [matches("run.finding_opened.1", glob) for glob in ("run.finding_*", "*.v1", "effects.*")]
    [True, True, False]
    """
    names = (type_name(topic), topic, topic.rpartition(".")[0])
    return any(fnmatchcase(name, glob) for name in names)


def _dumped(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _envelope(state: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(state)
    except ValueError:
        return None
    return cast(dict[str, Any], found) if isinstance(found, dict) else None


def _event_id(envelope: dict[str, Any] | None) -> str:
    try:
        return str(UUID(str((envelope or {})["event_id"])))
    except (KeyError, ValueError):
        return ""


def _time(envelope: dict[str, Any] | None) -> str:
    text = str((envelope or {}).get("occurred_at", ""))
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return ""
    # RFC 3339, which CloudEvents asks for, has no times without a zone.
    return text if at.tzinfo is not None else ""
