"""Reads only the fields that are needed, many times faster, for audits and rebuilds of all events.

A narrow reader is made from the pydantic models, which stay the only contract: it decodes the same
bytes to the same values, of the fields that are asked for, and skips the rest of the bytes. Nothing
is validated but types, so it is for what this code itself has stored. A property test holds it
equal to the models. To decide on what is read, read it with `watchkeeper.domain.envelope.decode`.
"""

import types
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from enum import Enum
from functools import cache
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

import msgspec
from pydantic import AwareDatetime, BaseModel
from pydantic.fields import FieldInfo

from watchkeeper.domain.envelope import decode
from watchkeeper.domain.registry import UPCASTS, Upcast, type_of
from watchkeeper.event_store import READ_PAGE, EventStore, Recorded, read_by_pages

Fields = Mapping[str, Sequence[str]]
"""Names of an event's fields that are needed, by topic. Other topics are passed over unread."""


class Narrow(NamedTuple):
    """One event, of which only some fields were read.

    Attributes:
        position: Its place in the whole ledger.
        stream: Its stream.
        version: Its place in the stream.
        topic: Of today: that of a retired version's successor.
        data: Has the fields that were asked for as attributes, with the values of the model.
    """

    position: int
    stream: str
    version: int
    topic: str
    data: Any


class NarrowReader:
    """Reads some fields of some topics.

    Args:
        fields: The fields by topic; every topic is one that is written today.
        upcasts: How retired topics become those of today.

    Raises:
        KeyError: A topic or a field that no model has.
    """

    def __init__(self, fields: Fields, upcasts: Mapping[str, Upcast] = UPCASTS) -> None:
        """Make the decoders; each is made once in a process."""
        self._fields = {topic: tuple(names) for topic, names in fields.items()}
        self._decoders = {topic: _decoder(topic, names) for topic, names in self._fields.items()}
        self._upcasts = upcasts
        self._passed = type_of.keys() - self._decoders.keys()

    def read(self, recorded: Recorded) -> Narrow | None:
        """Read one stored event; none when it is of a topic that is not asked for.

        Raises:
            Undecodable: The topic is unknown or newer than this code, or the bytes do not fit it.
        """
        position, stream, version, topic, state, _ = recorded
        decoder = self._decoders.get(topic)
        if decoder is None:
            return None if topic in self._passed else self._read_by_model(recorded)
        try:
            return Narrow(position, stream, version, topic, decoder.decode(state).data)
        except msgspec.MsgspecError:
            # The model has the last word: durations of a year and more are written as `P1Y`.
            return self._read_by_model(recorded)

    def _read_by_model(self, recorded: Recorded) -> Narrow | None:
        """Read slowly: what this code no longer writes, by its upcast; or refuse it."""
        position, stream, version, topic, state, _ = recorded
        event = decode(stream, version, topic, state, self._upcasts)
        names = self._fields.get(event.data.topic)
        if names is None:
            return None
        data = types.SimpleNamespace(**{name: getattr(event.data, name) for name in names})
        return Narrow(position, stream, version, event.data.topic, data)

    def stream(self, store: EventStore, stream: str, *, after: int = 0) -> Iterator[Narrow]:
        """Read one stream.

        Raises:
            Undecodable: See `read`.
        """
        for recorded in read_by_pages(store, stream, after=after):
            found = self.read(recorded)
            if found is not None:
                yield found

    def all(self, store: EventStore, *, after: int = 0) -> Iterator[Narrow]:
        """Read the whole ledger in the order of commits, page by page.

        Raises:
            Undecodable: See `read`.
        """
        while page := store.read_all(after=after, limit=READ_PAGE):
            for recorded in page:
                found = self.read(recorded)
                if found is not None:
                    yield found
            after = page[-1].position


@cache
def _decoder(topic: str, names: tuple[str, ...]) -> "msgspec.json.Decoder[Any]":
    data = _struct(type_of[topic], names)
    wire = msgspec.defstruct("Wire", [("data", data)], gc=False, frozen=True)
    # Not strict: NaN and the infinities are stored as texts.
    return msgspec.json.Decoder(wire, strict=False)


def _struct(model: type[BaseModel], names: Sequence[str] | None = None) -> type[msgspec.Struct]:
    """Return a struct with a model's fields, or those of them that are named."""
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
    for name in model.model_fields if names is None else names:
        field = model.model_fields[name]
        kind = _kind(field.annotation)
        if field.is_required():
            fields.append((name, kind))
        else:
            fields.append((name, kind, _default(field, kind)))
    return msgspec.defstruct(model.__name__, fields, frozen=True, kw_only=True)


def _default(field: FieldInfo, kind: Any) -> Any:
    value = field.get_default(call_default_factory=True, validated_data={})
    # As it would stand in the bytes, so that a default is of the same kind as what was read.
    text = msgspec.json.encode(_plain(value))
    decoder = msgspec.json.Decoder(kind, strict=False)
    return msgspec.field(default_factory=lambda: decoder.decode(text))


def _plain(value: Any) -> Any:
    return value.model_dump(mode="json") if isinstance(value, BaseModel) else value


_AWARE = Annotated[datetime, msgspec.Meta(tz=True)]


def _kind(annotation: Any) -> Any:
    """Return the type that decodes to what pydantic gives for an annotation."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _kind(arguments[0])
    if origin in (Union, types.UnionType):
        return Union[tuple(_kind(one) for one in arguments)]  # noqa: UP007
    if origin is tuple:
        # Built by call: what stands in brackets is read as a type by a checker.
        kinds = tuple(one if one is ... else _kind(one) for one in arguments)
        return tuple.__class_getitem__(kinds)
    if origin is dict:
        return dict.__class_getitem__((_kind(arguments[0]), _kind(arguments[1])))
    if origin is Literal:
        return annotation
    return _plain_kind(annotation)


def _plain_kind(annotation: Any) -> Any:
    if annotation in (str, int, float, bool, type(None), timedelta):
        return annotation
    if annotation is AwareDatetime:
        return _AWARE
    if issubclass(annotation, Enum):
        return annotation
    assert issubclass(annotation, BaseModel), f"no narrow type for {annotation}"
    return _struct(annotation)
