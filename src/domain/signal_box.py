"""The box of signals that stand in no run's history: kept for later, and put aside unread."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from watchkeeper.domain.envelope import Event
from watchkeeper.domain.events import (
    MessageQuarantined,
    QuarantineReplayed,
    SignalBound,
    SignalKept,
)
from watchkeeper.domain.signals import Signal

SIGNALS = "signals"
"""The name of the one stream."""

REPLAYED_AWAY = frozenset({"recorded", "known", "kept", "counted", "late"})
"""Outcomes after which a quarantined message needs nobody any more."""


@dataclass(frozen=True, slots=True)
class SignalBox:
    """What is in the box, folded from its stream.

    Attributes:
        kept: Signals that no run has yet, by `<source>/<key>`, oldest first.
        quarantined: Messages that nobody could read so far, by name.
        put_aside: How many messages were ever quarantined; names the next one.
    """

    version: int = 0
    kept: Mapping[str, SignalKept] = field(default_factory=lambda: MappingProxyType({}))
    quarantined: Mapping[str, MessageQuarantined] = field(
        default_factory=lambda: MappingProxyType({})
    )
    put_aside: int = 0


def signal_name(signal: Signal) -> str:
    """Return a signal's name among all: source and natural key."""
    return f"{signal.source}/{signal.key}"


def evolve_box(box: SignalBox, event: Event) -> SignalBox:
    """Apply one event of the stream."""
    now = replace(box, version=event.version)
    match event.data:
        case SignalKept() as data:
            if data.why == "inventory":
                return now  # It is there for binding others, and waits for nothing.
            return replace(now, kept={**box.kept, signal_name(data.signal): data})
        case SignalBound(signal=name):
            return replace(now, kept={k: v for k, v in box.kept.items() if k != name})
        case MessageQuarantined() as data:
            aside = {**box.quarantined, data.quarantine: data}
            return replace(now, quarantined=aside, put_aside=box.put_aside + 1)
        case QuarantineReplayed(quarantine=name, outcome=outcome):
            if outcome not in REPLAYED_AWAY:
                return now
            left = {k: v for k, v in box.quarantined.items() if k != name}
            return replace(now, quarantined=left)
        case _:
            return now
