"""The closed registry of topics, and the pure upcasts of retired versions."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, get_args

from watchkeeper.domain.run.events import EffectEvent, RunEvent
from watchkeeper.domain.run.fact import Fact
from watchkeeper.domain.run.launch import RootEvent
from watchkeeper.domain.run.permits import PeopleEvent
from watchkeeper.domain.run.signals import SignalBoxEvent

type_of: Mapping[str, type[Fact]] = MappingProxyType(
    {
        model.topic: model
        for union in (RunEvent, RootEvent, EffectEvent, PeopleEvent, SignalBoxEvent)
        for model in get_args(union)
    }
)
"""The event model of each current topic. Nothing is ever imported by its name."""

Upcast = Callable[[dict[str, Any]], tuple[str, dict[str, Any]]]
"""Turns the data of a retired topic into the next topic and its data."""

UPCASTS: Mapping[str, Upcast] = MappingProxyType({})
"""One upcast for each retired topic; none is retired yet."""

_UPCASTS_MAX = 100
"""More steps than this mean a cycle."""


class UnknownTopic(Exception):
    """A topic that this code does not know: newer than the code, or foreign."""


def current(
    topic: str, data: dict[str, Any], upcasts: Mapping[str, Upcast] = UPCASTS
) -> tuple[str, dict[str, Any]]:
    """Convert the data of a retired topic to the current version.

    Args:
        topic: As stored.
        data: As stored; not changed.
        upcasts: The table to use.

    Returns:
        The current topic and its data.

    Raises:
        UnknownTopic: The topic is neither current nor retired.
    """
    for _ in range(_UPCASTS_MAX):
        if topic in type_of:
            return topic, data
        if topic not in upcasts:
            break
        topic, data = upcasts[topic](dict(data))
    raise UnknownTopic(_why_unknown(topic))


def _why_unknown(topic: str) -> str:
    name, _, version = topic.rpartition(".")
    known = [t for t in type_of if t.rpartition(".")[0] == name]
    if known and version.isdigit():
        return f"{topic} is newer than this code, which writes {known[0]}: upgrade watchkeeper"
    return f"{topic} is not an event of watchkeeper"
