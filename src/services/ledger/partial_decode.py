"""Reads stored events many times faster than their models do, by structs made from those models.

The pydantic models stay the only contract; a property test holds the structs equal to them.

- `read_check` reads every field of a check, and takes nothing that the model does not take:
  histories that are loaded or rebuilt are folded from it (`watchkeeper.services.ledger.fast_fold`).
- `NarrowReader` reads the fields that are needed and skips the rest of the bytes unseen, for audits
  of all events. Of what it reads only types and bounds are checked, so nothing is decided on it.

What a struct does not take, its model is asked for, which has the last word.
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
"""Names of an event's fields that are needed, by topic. Other topics are passed over unread."""


class PartialDecoder(msgspec.Struct, frozen=True, gc=False):
    """One event, of which only some fields were read.

    A struct, which is made in a quarter of a tuple's time.

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

    def read(self, recorded: Recorded) -> PartialDecoder | None:
        """Read one stored event; none when it is of a topic that is not asked for.

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
        """Read slowly: what this code no longer writes, by its upcast; or refuse it."""
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
    """Read one stored check as its model would, and what stands around it.

    Names that no model has, types, bounds and lengths are checked as the model checks them.

    Args:
        recorded: Of the topic of checks.

    Raises:
        Undecodable: The bytes do not fit it.
    """
    _, stream, version, topic, state, _ = recorded
    try:
        found = _check_decoder().decode(state)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        pass  # NaN is a text, for one thing.
    else:
        if _is_actor(bytes(found.actor)):
            return SeenCheck(version, found.occurred_at, found.data)
    event = decode(stream, version, topic, state)
    assert isinstance(event.data, CheckRecorded), f"{topic} is no check"
    return SeenCheck(version, event.at, event.data)


@cache
def _check_decoder() -> "msgspec.json.Decoder[Any]":
    around = {name: _kind(f.annotation, f.metadata, whole=True) for name, f in _AROUND.items()}
    # An actor has a pattern that is none of Python's, and there are few of them.
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
    """Return a struct with a model's fields, or those of them that are named.

    Args:
        model: A value without circles, so that the collector need not look for any.
        names: Of the fields; none for all.
        whole: It takes nothing that the model does not take.

    Raises:
        TypeError: That cannot be had.
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
    # As it would stand in the bytes, so that a default is of the same kind as what was read.
    text = msgspec.json.encode(_plain(value))
    decoder = msgspec.json.Decoder(kind, strict=False)
    same = decoder.decode(text)
    if isinstance(same, dict):
        return msgspec.field(default_factory=lambda: decoder.decode(text))
    return same  # It cannot be changed, so all have the same one.


def _plain(value: Any) -> Any:
    return value.model_dump(mode="json") if isinstance(value, BaseModel) else value


_AWARE = Annotated[datetime, msgspec.Meta(tz=True)]


def _kind(annotation: Any, metadata: Sequence[Any] = (), *, whole: bool = False) -> Any:
    """Return the type that decodes to what pydantic gives for an annotation.

    Raises:
        TypeError: `whole` is asked for, and a rule of the annotation cannot be had.
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
            case _:
                if whole:
                    raise TypeError(f"no struct can have the rule {rule}")
    return bounds


def _bare_kind(annotation: Any, origin: Any, arguments: tuple[Any, ...], *, whole: bool) -> Any:
    if origin in (Union, types.UnionType):
        return Union[tuple(_kind(one, whole=whole) for one in arguments)]  # noqa: UP007
    if origin is tuple:
        # Built by call: what stands in brackets is read as a type by a checker.
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
