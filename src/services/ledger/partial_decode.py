"""Fast readers of stored events: structs derived from the pydantic models.

The structs read many times faster than the models. The models stay the only contract, and a
property test checks that both agree.

- `read_check` reads every field of a check, and accepts nothing that the model refuses. Histories
  are folded from it (`watchkeeper.services.ledger.fast_fold`).
- `NarrowReader` reads only the needed fields and skips all other bytes, for audits of all events.
  It checks only types and bounds, so no decision uses it.

If a struct refuses an event, its model has the last word.
"""

import types
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from enum import Enum
from functools import cache, lru_cache
from itertools import chain
from typing import Annotated, Any, Literal, Union, get_args, get_origin
from uuid import UUID

import msgspec
from annotated_types import Ge, Gt, Le, Lt, MaxLen, MinLen
from pydantic import AwareDatetime, BaseModel, ValidationError
from pydantic.fields import FieldInfo

from watchkeeper.domain.run.envelope import Envelope, decode
from watchkeeper.domain.run.evolve.watch import SeenCheck
from watchkeeper.domain.run.registry import UPCASTS, Upcast, type_of
from watchkeeper.domain.run.watch import CheckRecorded
from watchkeeper.domain.values.people import Actor
from watchkeeper.ports.event_store import EventStore, Recorded

Fields = Mapping[str, Sequence[str]]
"""The needed fields of events, by topic. Other topics are skipped."""


class PartialDecoder(msgspec.Struct, frozen=True, gc=False):
    """One event with only some of its fields read.

    A struct takes a quarter of a tuple's time to make.

    Attributes:
        position: Its place in the whole ledger.
        stream: Its stream.
        version: Its place in the stream.
        topic: The current topic; for a retired version, the topic of its successor.
        data: Has the requested fields as attributes, with the values of the model.
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
        upcasts: Conversions from retired topics to current ones.

    Raises:
        KeyError: No model has this topic or field.
    """

    def __init__(self, fields: Fields, upcasts: Mapping[str, Upcast] = UPCASTS) -> None:
        """Make the decoders; each is made once per process."""
        self._fields = {topic: tuple(names) for topic, names in fields.items()}
        self._decoders = {topic: _decoder(topic, names) for topic, names in self._fields.items()}
        self._upcasts = upcasts
        self._passed = type_of.keys() - self._decoders.keys()

    def read(self, recorded: Recorded) -> PartialDecoder | None:
        """Read one stored event; None if its topic was not requested.

        Raises:
            Undecodable: The topic is unknown or newer than this code, or the bytes do not fit it.
        """
        position, stream, version, topic, state, _ = recorded
        decoder = self._decoders.get(topic)
        if decoder is None:
            return None if topic in self._passed else self._read_by_model(recorded)
        try:
            return PartialDecoder(position, stream, version, topic, decoder.decode(state).data)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            # The model has the last word: durations of a year and more are written as `P1Y`.
            return self._read_by_model(recorded)

    def _read_by_model(self, recorded: Recorded) -> PartialDecoder | None:
        """Read an event with its model: upcast a retired topic, or refuse the event."""
        position, stream, version, topic, state, _ = recorded
        event = decode(stream, version, topic, state, self._upcasts)
        names = self._fields.get(event.data.topic)
        if names is None:
            return None
        data = types.SimpleNamespace(**{name: getattr(event.data, name) for name in names})
        return PartialDecoder(position, stream, version, event.data.topic, data)

    def stream(self, store: EventStore, stream: str, *, after: int = 0) -> Iterator[PartialDecoder]:
        """Read one stream.

        Raises:
            Undecodable: See `read`.
        """
        return self._pages(store.pages(stream, after=after))

    def all(self, store: EventStore, *, after: int = 0) -> Iterator[PartialDecoder]:
        """Read the whole ledger in the order of commits, page by page.

        Raises:
            Undecodable: See `read`.
        """
        return self._pages(store.pages(after=after))

    def _pages(self, pages: Iterator[Sequence[Recorded]]) -> Iterator[PartialDecoder]:
        for recorded in chain.from_iterable(pages):
            found = self.read(recorded)
            if found is not None:
                yield found


def read_check(recorded: Recorded) -> SeenCheck:
    """Read one stored check and its envelope, with the same result as its model.

    Unknown names, types, bounds and lengths are checked as the model checks them.

    Args:
        recorded: A stored event with the topic of checks.

    Raises:
        Undecodable: The bytes do not fit it.
    """
    _, stream, version, topic, state, _ = recorded
    try:
        found = _check_decoder().decode(state)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        pass  # For example, NaN is stored as a text.
    else:
        if _is_actor(bytes(found.actor)):
            return SeenCheck(version, found.occurred_at, found.data)
    event = decode(stream, version, topic, state)
    assert isinstance(event.data, CheckRecorded), f"{topic} is no check"
    return SeenCheck(version, event.at, event.data)


@cache
def _check_decoder() -> "msgspec.json.Decoder[Any]":
    around = {name: _kind(f.annotation, f.metadata, whole=True) for name, f in _AROUND.items()}
    # The actor's pattern is not Python `re` syntax, and there are few actors.
    fields = {**around, "actor": msgspec.Raw, "data": struct_of(CheckRecorded, whole=True)}
    wire = msgspec.defstruct(
        "Stored", list(fields.items()), gc=False, frozen=True, forbid_unknown_fields=True
    )
    return msgspec.json.Decoder(wire)


_AROUND = {
    name: field for name, field in Envelope.model_fields.items() if name not in ("actor", "data")
}


@lru_cache(maxsize=1_000)
def _is_actor(text: bytes) -> bool:
    try:
        Actor.model_validate_json(text)
    except ValidationError:
        return False
    return True


@cache
def _decoder(topic: str, names: tuple[str, ...]) -> "msgspec.json.Decoder[Any]":
    data = struct_of(type_of[topic], names)
    wire = msgspec.defstruct("Wire", [("data", data)], gc=False, frozen=True)
    # Not strict: NaN and the infinities are stored as texts.
    return msgspec.json.Decoder(wire, strict=False)


@cache
def struct_of(
    model: type[BaseModel], names: tuple[str, ...] | None = None, *, whole: bool = False
) -> type[msgspec.Struct]:
    """Return a struct with all fields of a model, or with the named ones.

    Args:
        model: A value without circles, so that the collector need not look for any.
        names: The fields; None for all.
        whole: The struct accepts nothing that the model refuses.

    Raises:
        TypeError: No such struct is possible.
    """
    if whole:
        rules = model.__pydantic_decorators__
        if rules.field_validators or rules.model_validators:
            raise TypeError(f"{model.__name__} has validators of its own")
        if model.model_config.get("extra") != "forbid":
            raise TypeError(f"{model.__name__} allows other fields")
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
    for name in model.model_fields if names is None else names:
        field = model.model_fields[name]
        kind = _kind(field.annotation, field.metadata, whole=whole)
        if field.is_required():
            fields.append((name, kind))
        else:
            fields.append((name, kind, _default(field, kind)))
    return msgspec.defstruct(
        model.__name__,
        fields,
        frozen=True,
        kw_only=True,
        gc=False,
        forbid_unknown_fields=whole,
    )


def _default(field: FieldInfo, kind: Any) -> Any:
    value = field.get_default(call_default_factory=True, validated_data={})
    # In stored form, so that a default has the same type as a value that was read.
    text = msgspec.json.encode(_plain(value))
    decoder = msgspec.json.Decoder(kind, strict=False)
    same = decoder.decode(text)
    if isinstance(same, dict):
        return msgspec.field(default_factory=lambda: decoder.decode(text))
    return same  # It is immutable, so all can share it.


def _plain(value: Any) -> Any:
    return value.model_dump(mode="json") if isinstance(value, BaseModel) else value


_AWARE = Annotated[datetime, msgspec.Meta(tz=True)]


def _kind(annotation: Any, metadata: Sequence[Any] = (), *, whole: bool = False) -> Any:
    """Return the type that decodes to what pydantic gives for an annotation.

    Raises:
        TypeError: `whole` is set, and a rule of the annotation cannot be expressed.
    """
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _kind(arguments[0], [*arguments[1:], *metadata], whole=whole)
    bounds = _bounds(metadata, whole=whole)
    kind = _bare_kind(annotation, origin, arguments, whole=whole)
    return Annotated[kind, msgspec.Meta(**bounds)] if bounds else kind


def _bounds(metadata: Sequence[Any], *, whole: bool) -> dict[str, Any]:
    bounds: dict[str, Any] = {}
    for rule in metadata:
        match rule:
            case FieldInfo():
                bounds |= _bounds(rule.metadata, whole=whole)
            case Ge(ge=value):
                bounds["ge"] = value
            case Gt(gt=value):
                bounds["gt"] = value
            case Le(le=value):
                bounds["le"] = value
            case Lt(lt=value):
                bounds["lt"] = value
            case MinLen(min_length=value):
                bounds["min_length"] = value
            case MaxLen(max_length=value):
                bounds["max_length"] = value
            case str():
                pass  # A mark such as `ForeignText` has: it limits nothing.
            case _:
                if whole:
                    raise TypeError(f"no struct can have the rule {rule}")
    return bounds


def _bare_kind(annotation: Any, origin: Any, arguments: tuple[Any, ...], *, whole: bool) -> Any:
    if origin in (Union, types.UnionType):
        return Union[tuple(_kind(one, whole=whole) for one in arguments)]  # noqa: UP007
    if origin is tuple:
        # Built by a call: a type checker would read brackets as a type.
        kinds = tuple(one if one is ... else _kind(one, whole=whole) for one in arguments)
        return tuple.__class_getitem__(kinds)
    if origin is dict:
        key, value = (_kind(one, whole=whole) for one in arguments)
        return dict.__class_getitem__((key, value))
    if origin is Literal:
        return annotation
    if annotation in (str, int, float, bool, type(None), timedelta, UUID):
        return annotation
    if annotation is AwareDatetime:
        return _AWARE
    if issubclass(annotation, Enum):
        return annotation
    assert issubclass(annotation, BaseModel), f"no narrow type for {annotation}"
    return struct_of(annotation, whole=whole)
