"""Signals as rows: received by a run, unassigned, or unreadable."""

import hashlib
from collections.abc import Iterable, Sequence
from datetime import datetime

from watchkeeper.domain.run.envelope import Event
from watchkeeper.domain.run.signals import SignalCameLate, SignalReceived
from watchkeeper.domain.run.unbound_signals import UnboundSignals, signal_name
from watchkeeper.domain.values.observation.signals import Signal

Row = dict[str, object]

SIGNAL_TOPICS = frozenset({SignalReceived.topic, SignalCameLate.topic})
"""Topics of the events that make rows; others need not be read."""

_DIGITS = 8


def short_name(name: str) -> str:
    """Return a short name that a person can type for a kept signal.

    >>> short_name("gcs/bucket|object|1")
    's-14fe9592'
    """
    return f"s-{hashlib.sha256(name.encode()).hexdigest()[:_DIGITS]}"


def meant(box: UnboundSignals, text: str) -> list[str]:
    """Return the names of kept signals that match a full or short name."""
    if text in box.kept:
        return [text]
    return [name for name in box.kept if short_name(name) == text]


def signal_rows(run: str, events: Iterable[Event]) -> list[Row]:
    """Return a row for each signal in a run's history, and for each that came after its end.

    Args:
        run: The run.
        events: The events of its history and its effects.
    """
    rows: list[Row] = []
    for event in events:
        match event.data:
            case SignalReceived(signal=signal, bound_by=by, instance=instance, coalesced=number):
                late = False
            case SignalCameLate(signal=signal, bound_by=by):
                late, instance, number = True, "", 0
            case _:
                continue
        recorded = event.envelope.recorded_at
        more: Row = {"run": run, "instance": instance, "bound_by": by, "late": late}
        more["coalesced"] = number
        rows.append({**_signal(signal), **more, "recorded_at": recorded.isoformat()})
    return rows


def newest(rows: Sequence[Row], last: int) -> list[Row]:
    """Return the most recently recorded rows, oldest first."""
    return sorted(rows, key=_recorded)[-last:]


def kept_rows(box: UnboundSignals) -> list[Row]:
    """Return a row for each unassigned signal, oldest first."""
    return [
        {
            "id": short_name(name),
            **_signal(kept.signal),
            "why": kept.why,
            "candidates": ", ".join(kept.candidates),
            "clues": list(kept.signal.clues),
        }
        for name, kept in box.kept.items()
    ]


def quarantine_rows(box: UnboundSignals) -> list[Row]:
    """Return a row for each unreadable message, oldest first."""
    return [
        {
            "quarantine": name,
            "transport": message.transport,
            "message_id": message.message_id,
            "size_bytes": message.size,
            "reason": message.reason,
            "attributes": dict(message.attributes),
            "digest": message.digest,
        }
        for name, message in box.quarantined.items()
    ]


def _signal(signal: Signal) -> Row:
    return {
        "signal": signal_name(signal),
        "source": signal.source,
        "kind": signal.kind.value,
        "subject": signal.subject,
        "summary": signal.summary,
        "occurred_at": signal.occurred_at.isoformat(),
        "published_at": signal.published_at.isoformat() if signal.published_at else None,
        "received_at": signal.received_at.isoformat(),
        "late_s": round((signal.received_at - signal.occurred_at).total_seconds(), 3),
    }


def _recorded(row: Row) -> datetime:
    return datetime.fromisoformat(str(row["recorded_at"]))
