"""Reads a file of messages in Pub/Sub's REST form, by a person or a program."""

import base64
import binascii
import json
from collections.abc import Iterator
from datetime import UTC, datetime

from pydantic import JsonValue

from watchkeeper.adapters.bad_input import BadInput, Problem, shown
from watchkeeper.domain.values.json_text import parse_json
from watchkeeper.domain.values.observation.signals import Delivery

BY_HAND = "by hand"
"""The transport of a message that names no subscription."""

MESSAGE_FORM = (
    '{"message": {"data": "<base64>", "attributes": {"name": "text"}, "messageId": "1", '
    '"publishTime": "2026-11-21T04:00:00Z"}}'
)


class _Malformed(Exception):
    """A malformed message: field, value found, and value expected."""

    def __init__(self, field: str, found: object, expected: str) -> None:
        super().__init__(field)
        self.problem = (field, found, expected)


def read_messages(text: str, file: str, received_at: datetime) -> list[Delivery]:
    """Read one message, a list of messages, or a message in each line.

    Args:
        text: What the file holds.
        file: The file's name, for errors and for the id of messages without an id.
        received_at: Now.

    Raises:
        BadInput: Some parts are not messages. All of them are named, and nothing is returned.
    """
    found: list[Delivery] = []
    problems: list[Problem] = []
    for line, document in _documents(text, file):
        if isinstance(document, Problem):
            problems.append(document)
            continue
        try:
            found.append(_delivery(document, f"{file}:{line or 1}", received_at))
        except _Malformed as error:
            field, value, expected = error.problem
            problems.append(Problem(file, line, field, shown(value, [field]), expected))
    if not found and not problems:
        problems.append(Problem(file, None, "", "it has no message", f"such as {MESSAGE_FORM}"))
    if problems:
        raise BadInput(tuple(problems))
    return found


def _documents(text: str, file: str) -> Iterator[tuple[int | None, JsonValue | Problem]]:
    """Yield each document with its line; a whole file is one document, or a list of them."""
    try:
        whole: JsonValue = parse_json(text)
    except ValueError:
        pass
    else:
        for one in whole if isinstance(whole, list) else [whole]:
            yield None, one
        return
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            yield number, parse_json(line)
        except ValueError as error:
            yield number, Problem(file, number, "", f"not JSON: {error}", f"such as {MESSAGE_FORM}")


def _delivery(document: JsonValue, place: str, received_at: datetime) -> Delivery:
    if not isinstance(document, dict):
        raise _Malformed("message", document, f"an object such as {MESSAGE_FORM}")
    message = document.get("message", document)
    if not isinstance(message, dict) or not ({"data", "attributes"} & message.keys()):
        raise _Malformed("message", message, f"data or attributes, such as {MESSAGE_FORM}")
    attributes = message.get("attributes") or {}
    if not isinstance(attributes, dict):
        raise _Malformed("attributes", attributes, "an object of texts")
    attempt = document.get("deliveryAttempt")
    # JSON may hold lone surrogates, which UTF-8 cannot. The data is base64, so it needs no check.
    without_data: JsonValue = {**document, "message": {**message, "data": None}}
    if not _is_whole(without_data):
        raise _Malformed(
            "message",
            json.dumps(without_data),
            ("complete characters, without half of a surrogate pair"),
        )
    return Delivery(
        transport=_text(document, ("subscription",)) or BY_HAND,
        message_id=_text(message, ("messageId", "message_id")) or place,
        data=_data(message.get("data")),
        attributes={name: _attribute(name, value) for name, value in attributes.items()},
        published_at=_time(_text(message, ("publishTime", "publish_time"))),
        received_at=received_at,
        attempt=attempt if isinstance(attempt, int) and not isinstance(attempt, bool) else None,
    )


def _is_whole(value: JsonValue) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _attribute(name: str, value: JsonValue) -> str:
    if not isinstance(value, str):
        raise _Malformed(f"attributes.{name}", value, "a text")
    return value


def _text(document: dict[str, JsonValue], names: tuple[str, ...]) -> str:
    for name in names:
        value = document.get(name)
        if value is None:
            continue
        if not isinstance(value, str | int):
            raise _Malformed(name, value, "a text")
        return str(value)
    return ""


def _data(value: JsonValue) -> bytes:
    if value is None:
        return b""
    if not isinstance(value, str):
        raise _Malformed("data", value, "the message's bytes in base64, as a text")
    try:
        return base64.b64decode(value, validate=True)
    except binascii.Error as error:
        raise _Malformed("data", value, f"the message's bytes in base64 ({error})") from error


def _time(text: str) -> datetime | None:
    if not text:
        return None
    try:
        parsed = datetime.fromisoformat(text)
        return parsed.astimezone(UTC) if parsed.tzinfo else parsed.replace(tzinfo=UTC)
    except (ValueError, OverflowError) as error:
        raise _Malformed("publishTime", text, "a time such as 2026-11-21T04:00:00Z") from error
