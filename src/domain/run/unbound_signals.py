"""Signals that are not bound to a run yet, and quarantined messages."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType

from watchkeeper.domain.run.envelope import Event
from watchkeeper.domain.run.signals import (
    MessageQuarantined,
    QuarantineReplayed,
    SignalBound,
    SignalKept,
    SignalsDismissed,
)
from watchkeeper.domain.values.observation.signals import Heard, Signal, hear

KEPT_MAX = 10_000
"""How many of the newest kept signals are retried when more is known. A person must look at older
signals."""

SIGNALS = "signals"
"""The name of the one stream."""

REPLAYED_AWAY = frozenset({"recorded", "known", "kept", "counted", "late"})
"""Outcomes after which a quarantined message needs no more attention."""


@dataclass(frozen=True, slots=True)
class UnboundSignals:
    """The kept signals and quarantined messages, folded from their stream.

    Attributes:
        kept: Signals that are not bound to a run yet, by `<source>/<key>`, oldest first.
        quarantined: Messages that could not be read so far, by name.
        put_aside: How many messages were ever quarantined. It gives the next name.
        heard: How many signals of each source were kept in its newest minute.
    """

    version: int = 0
    kept: Mapping[str, SignalKept] = field(default_factory=lambda: MappingProxyType({}))
    quarantined: Mapping[str, MessageQuarantined] = field(
        default_factory=lambda: MappingProxyType({})
    )
    quarantined_total: int = 0
    heard: Heard = field(default_factory=dict[str, tuple[datetime, int]])


def signal_name(signal: Signal) -> str:
    """Return a signal's unique name: source and natural key."""
    return f"{signal.source}/{signal.key}"


def evolve_unbound(box: UnboundSignals, events: Iterable[Event]) -> UnboundSignals:
    """Apply events of the stream in one pass, since the state may be very large."""
    version, quarantined_total, heard = box.version, box.quarantined_total, box.heard
    kept, quarantined = dict(box.kept), dict(box.quarantined)
    for event in events:
        version = event.version
        match event.data:
            # An inventory signal only helps to bind others and does not wait.
            case SignalKept() as data if data.why != "inventory":
                kept[signal_name(data.signal)] = data
                heard = hear(heard, data.signal.source, event.envelope.recorded_at)
            case SignalBound(signal=name):
                kept.pop(name, None)
            case MessageQuarantined() as data:
                quarantined[data.quarantine] = data
                quarantined_total += 1
            case QuarantineReplayed(quarantine=name, outcome=outcome):
                if outcome in REPLAYED_AWAY:
                    quarantined.pop(name, None)
            case SignalsDismissed(names=names, source=source):
                of_source = [n for n, one in kept.items() if one.signal.source == source and source]
                for name in (*names, *of_source):
                    kept.pop(name, None)
                    quarantined.pop(name, None)
            case _:
                pass
    return UnboundSignals(version, kept, quarantined, quarantined_total, heard)
