"""The envelope of every stored event, and its byte form."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any, Generic, TypeVar, cast
from uuid import UUID

from pydantic import AwareDatetime, ValidationError

from watchkeeper.domain.run.fact import Fact
from watchkeeper.domain.run.registry import UPCASTS, UnknownTopic, Upcast, current, type_of
from watchkeeper.domain.run.watch import CheckRecorded
from watchkeeper.domain.values.basic import Value
from watchkeeper.domain.values.people import Actor

Data = TypeVar("Data", bound=Fact, covariant=True)


class Envelope(Value, Generic[Data]):
    """The fields around an event's own data, the same for every event.

    Attributes:
        event_id: Unique, made when the event is recorded.
        occurred_at: When it happened outside.
        recorded_at: When it was stored, by our clock.
        actor: Who caused it.
        cause: The signal or event that caused it; null for a person's own act.
        correlation: A common name for related events, usually the run's slug.
        key: Idempotency key of the append.
        data: The event itself.
    """

    event_id: UUID
    occurred_at: AwareDatetime
    recorded_at: AwareDatetime
    actor: Actor
    cause: str | None
    correlation: str
    key: str | None
    data: Data


@dataclass(frozen=True, slots=True)
class Event:
    """One recorded event at its place in its stream.

    The `eventsourcing` library calls the stream the originator.

    Attributes:
        stream: The stream's name, such as `run/<slug>`.
        version: The event's number in its stream, from 1.
        envelope: Who, when and why.
    """

    stream: str
    version: int
    envelope: Envelope[Fact]

    @property
    def data(self) -> Fact:
        """The event itself."""
        return self.envelope.data

    @property
    def at(self) -> datetime:
        """When it happened outside."""
        return self.envelope.occurred_at

    @property
    def originator_id(self) -> str:
        """Its stream."""
        return self.stream

    @property
    def originator_version(self) -> int:
        """Its version."""
        return self.version


class Undecodable(Exception):
    """Stored bytes that this code cannot read: a newer version, or not an event."""


@cache
def _model(topic: str) -> type[Envelope[Fact]]:
    # The type parameter is known only at run time, so type checkers cannot follow it.
    return cast(type[Envelope[Fact]], Envelope.__class_getitem__(type_of[topic]))


def encode(envelope: Envelope[Any]) -> tuple[str, bytes]:
    """Return the topic of an envelope's event and the bytes to store.

    NaN and infinities become strings, so that any JSON reader can read the stored bytes. A check is
    stored without fields that hold their defaults. So the defaults of a check and its parts are
    permanent, like its fields.
    """
    # The event is serialised by its own type, so that no field is lost.
    if not isinstance(envelope.data, CheckRecorded):
        return envelope.data.topic, envelope.model_dump_json(serialize_as_any=True).encode()
    # Nine in ten events are checks, and most of their fields are usually empty.
    around = envelope.model_dump_json(exclude={"data"})
    data = envelope.data.model_dump_json(exclude_defaults=True)
    return envelope.data.topic, f'{around[:-1]},"data":{data}}}'.encode()


def decode(
    stream: str, version: int, topic: str, state: bytes, upcasts: Mapping[str, Upcast] = UPCASTS
) -> Event:
    """Read one stored event.

    Raises:
        Undecodable: The topic is unknown or newer, or the bytes do not fit it.
    """
    try:
        if topic in type_of:
            return Event(stream, version, _model(topic).model_validate_json(state))
        document = json.loads(state)
        today, data = current(topic, document["data"], upcasts)
        text = json.dumps({**document, "data": data})
        return Event(stream, version, _model(today).model_validate_json(text))
    except UnknownTopic as error:
        raise Undecodable(str(error)) from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        says = first["msg"]
        if first["type"] == "extra_forbidden":
            # A later release may add an optional field to a topic; an unknown field is never
            # dropped unread.
            says = "this field is newer than this code; a newer release reads it"
        raise Undecodable(f"{topic}: {where}: {says}") from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise Undecodable(f"{topic}: the bytes are not an event: {error}") from error
