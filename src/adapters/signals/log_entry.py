"""Cloud Logging entries from a sink or Eventarc: audit records, events, text."""

from typing import Annotated

from pydantic import JsonValue
from pydantic_core import from_json

from watchkeeper.adapters.signals import audit, kubernetes, log_lines, ray_files
from watchkeeper.adapters.signals.fields import PART, Moment, Names, Outside, Text, read_as
from watchkeeper.adapters.signals.log_base import LogLine
from watchkeeper.adapters.signals.message import Message
from watchkeeper.domain.values.observation.signals import Parsed, Poison

_LINE_JSON_MAX = 64 * 2**10


class _Resource(Outside):
    type: Text = None
    labels: Names = {}


class _Entry(Outside):
    insert_id: Text = None
    log_name: Text = None
    timestamp: Moment = None
    severity: Text = None
    text_payload: Text = None
    resource: Annotated[_Resource, PART] = _Resource()
    labels: Names = {}


def parse(message: Message) -> Parsed:
    """Read one log entry; its identity is Logging's own."""
    if not isinstance(message.body, dict):
        return Poison(f"a log entry that is no JSON object: {message.unreadable or 'another type'}")
    entry = read_as(_Entry, message.body)
    if not (entry.log_name and entry.insert_id and entry.timestamp):
        return Poison("a log entry without logName, insertId or timestamp")
    payload = message.body.get("jsonPayload") or message.body.get("json_payload")
    line = LogLine(
        key=(entry.log_name, entry.timestamp, entry.insert_id),
        log=entry.log_name,
        at=entry.timestamp,
        severity=(entry.severity or "DEFAULT").upper(),
        text=entry.text_payload or "",
        resource=entry.resource.labels,
        labels=entry.labels,
    )
    audited = message.body.get("protoPayload") or message.body.get("proto_payload")
    if isinstance(audited, dict):
        return audit.parse(message, line, audited)
    return _by_payload(message, line, payload if payload else _inside(line.text))


def _by_payload(message: Message, line: LogLine, payload: JsonValue) -> Parsed:
    if isinstance(payload, dict):
        if kubernetes.is_event(payload):
            return kubernetes.parse(message, line, payload)
        if ray_files.is_event(payload):
            return ray_files.parse(message, line, payload)
    return log_lines.parse(message, line, payload)


def _inside(text: str) -> JsonValue:
    """Return the JSON of a line that the agent has not parsed; None if it is plain text."""
    if not text.lstrip().startswith("{") or len(text) > _LINE_JSON_MAX:
        return None
    try:
        found: JsonValue = from_json(text)
    except ValueError:
        return None
    return found
