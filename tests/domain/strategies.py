"""Hypothesis strategies for every event, built from the models' own fields."""

import types
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta, timezone
from enum import Enum
from functools import cache
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin

import annotated_types
from hypothesis import strategies as st
from pydantic import AwareDatetime, BaseModel, StringConstraints
from pydantic.fields import FieldInfo

from tests.domain.samples import contract
from watchkeeper.domain.run.events import RunEvent
from watchkeeper.domain.run.fact import Fact
from watchkeeper.domain.values.contract.contract import Contract
from watchkeeper.domain.values.observation.sources import MetricHistory

Strategy = st.SearchStrategy[Any]

ZONES = (UTC, timezone(timedelta(hours=-8)), timezone(timedelta(hours=5, minutes=30)))

CONTRACTS = (
    contract(),
    contract(lane="hero", env={"LR": "3e-4"}, watch={"cadence": "90s"}),
    contract(tracker={"resume": "never"}, retries={"budget": 0}, timezone="Asia/Tokyo"),
)

_INTEGER_MAX = 2**63

INSTANCES = ("i1", "i2")
QUESTIONS = ("q-1", "q-2")
"""Few names, so that events meet each other."""

NAMED: Mapping[str, Strategy] = {
    "instance": st.sampled_from(INSTANCES),
    "question": st.sampled_from(QUESTIONS),
    "kind": st.sampled_from(("pending", "resume_mismatch")),
    "path": st.sampled_from(("gs://b/checkpoints/step-1", "gs://b/checkpoints/step-2")),
}


@cache
def times(latest: datetime) -> st.SearchStrategy[datetime]:
    """Aware times from 1970 on, in several zones."""
    naive = st.datetimes(datetime(1970, 1, 2), latest.replace(tzinfo=None))
    return st.builds(_in_zone, naive, st.sampled_from(ZONES))


def _in_zone(at: datetime, zone: timezone) -> datetime:
    return at.replace(tzinfo=zone)


def _integers(metadata: list[Any]) -> Strategy:
    least = -_INTEGER_MAX
    for constraint in metadata:
        if isinstance(constraint, annotated_types.Ge):
            least = max(least, cast(int, constraint.ge))
        if isinstance(constraint, annotated_types.Gt):
            least = max(least, cast(int, constraint.gt) + 1)
    return st.integers(least, _INTEGER_MAX) | st.integers(least, max(least, 3))


def _union(arguments: tuple[Any, ...], latest: datetime) -> Strategy:
    return st.one_of([of(argument, [], latest) for argument in arguments])


def _tuples(arguments: tuple[Any, ...], latest: datetime) -> Strategy:
    if Ellipsis not in arguments:
        return st.tuples(*(of(argument, [], latest) for argument in arguments))
    return st.lists(of(arguments[0], [], latest), max_size=3).map(tuple)


def _mappings(arguments: tuple[Any, ...], latest: datetime) -> Strategy:
    key, value = (of(argument, [], latest) for argument in arguments)
    return st.dictionaries(key, value, max_size=3)


_GENERIC: dict[Any, Callable[[tuple[Any, ...], datetime], Strategy]] = {
    Union: _union,
    types.UnionType: _union,
    tuple: _tuples,
    dict: _mappings,
    Literal: lambda arguments, _: st.sampled_from(arguments),
}


def _history(values: list[float]) -> MetricHistory:
    """Return a history as long as its one column."""
    return MetricHistory(steps=tuple(range(len(values))), columns={"loss": tuple(values)})


_PLAIN: dict[Any, Strategy] = {
    bool: st.booleans(),
    str: st.text(max_size=12),
    float: st.floats(),
    type(None): st.none(),
    timedelta: st.timedeltas(timedelta(0), timedelta(days=400)),
    Contract: st.sampled_from(CONTRACTS),
    MetricHistory: st.lists(st.floats(), max_size=3).map(_history),
}


def _text(metadata: list[Any]) -> Strategy:
    """Return a strategy for texts that are constrained by a pattern or a least length."""
    limits = [one for one in metadata if isinstance(one, StringConstraints)]
    patterns = [one.pattern for one in limits if one.pattern is not None]
    if patterns:
        return st.from_regex(patterns[0], fullmatch=True)
    least = max((one.min_length or 0 for one in limits), default=0)
    return st.text(min_size=least, max_size=12)


def of(annotation: Any, metadata: list[Any], latest: datetime) -> Strategy:
    """Return a strategy for a field's type and its constraints."""
    if get_origin(annotation) is Annotated:
        inner, *more = get_args(annotation)
        spread = [part for one in more for part in _constraints(one)]
        return of(inner, [*metadata, *spread], latest)
    if get_origin(annotation) in _GENERIC:
        return _GENERIC[get_origin(annotation)](get_args(annotation), latest)
    if annotation is AwareDatetime:
        return times(latest)
    if annotation is int:
        return _integers(metadata)
    if annotation in _PLAIN:
        return _text(metadata) if annotation is str else _PLAIN[annotation]
    if issubclass(annotation, Enum):
        return st.sampled_from(annotation)
    assert issubclass(annotation, BaseModel), annotation
    return models(annotation, latest)


def _constraints(one: Any) -> list[Any]:
    return list(one.metadata) if isinstance(one, FieldInfo) else [one]


# Hypothesis checks a strategy once: made anew for each example, that takes longer than to draw it.
@cache
def models(model: type[BaseModel], latest: datetime) -> Strategy:
    """Return a strategy for a model's instances."""
    fields = {
        name: NAMED[name]
        if name in NAMED and field.annotation is str
        else of(field.annotation, list(field.metadata), latest)
        for name, field in model.model_fields.items()
    }
    return st.fixed_dictionaries(fields).map(model.model_validate)


def events(kind: type[Fact], latest: datetime = datetime(2100, 1, 1)) -> Strategy:
    """Return a strategy for one kind of event."""
    return models(kind, latest)


RUN_EVENTS: tuple[type[Fact], ...] = get_args(RunEvent)
