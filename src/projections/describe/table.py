"""The description of every event, by its type."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from watchkeeper.domain.run.envelope import Event
from watchkeeper.domain.run.fact import Fact
from watchkeeper.projections.describe import (
    effects,
    ends,
    health,
    launch,
    operator,
    permits,
    questions,
    seal,
    signals,
    watch,
)
from watchkeeper.projections.describe.description import Description, Headline, NoEntry, Reason
from watchkeeper.projections.logbook.state import Logbook

ALL: tuple[Description[Any], ...] = (
    *launch.EVENTS,
    *watch.EVENTS,
    *health.EVENTS,
    *ends.EVENTS,
    *questions.EVENTS,
    *permits.EVENTS,
    *operator.EVENTS,
    *signals.EVENTS,
    *seal.EVENTS,
    *effects.EVENTS,
)
"""A test shows that each event of the registry has one description."""

DESCRIPTIONS: Mapping[type[Fact], Description[Any]] = MappingProxyType(
    {one.event: one for one in ALL}
)


def line(data: Fact) -> str:
    """Describe an event in one line, which may hold outside text as it came."""
    return DESCRIPTIONS[type(data)].line(data)


def headline(event: Event) -> Headline | None:
    """Return the headline of an event; None if the logbook does not show it by itself."""
    found = DESCRIPTIONS[type(event.data)].headline
    return found if found is None or isinstance(found, Headline) else found(event.data)


def reason(data: Fact) -> Reason:
    """Return what `why` says of an event by the event alone; empty for most events."""
    found = DESCRIPTIONS[type(data)].why
    return Reason() if found is None else found(data)


def block_until(data: Fact) -> tuple[type[Fact], ...]:
    """Return the events that end the block that an event is; empty if it blocks nothing."""
    found = DESCRIPTIONS[type(data)]
    return found.block_until if found.why is None or found.why(data).evidence else ()


def with_entry(book: Logbook, event: Event) -> Logbook:
    """Add an event's entry to the logbook, if it has one."""
    write = DESCRIPTIONS[type(event.data)].logbook
    return book if isinstance(write, NoEntry) else write(book, event.data, event)
