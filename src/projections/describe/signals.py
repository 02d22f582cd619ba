"""Signals as text: one line for tables, and a logbook entry."""

from typing import assert_never

from watchkeeper.domain.run.envelope import Event
from watchkeeper.domain.run.signal_box import signal_name
from watchkeeper.domain.run.signals import (
    MessageQuarantined,
    QuarantineReplayed,
    SignalBound,
    SignalBoxEvent,
    SignalKept,
    SignalReceived,
    SignalsDismissed,
)
from watchkeeper.domain.values.observation.signals import NOTABLE, Signal
from watchkeeper.projections.figures import stamp
from watchkeeper.projections.logbook.state import Key, Kind, Logbook, opened, said
from watchkeeper.projections.quoting import WORDS_MAX, code, prose


def said_by(signal: Signal) -> str:
    """Describe a signal's claim and its source in one line."""
    return f"{signal.source} says {signal.kind.value}: {signal.summary}"


def box_summary(data: SignalBoxEvent) -> str:
    """Describe an event of the signal box in one line."""
    match data:
        case SignalKept():
            whose = f" ({', '.join(data.candidates)})" if data.candidates else ""
            return f"kept as {data.why}{whose}: {said_by(data.signal)}"
        case SignalBound():
            return f"{data.signal} bound to {data.run} by {data.by}"
        case MessageQuarantined():
            return f"{data.quarantine}: {data.size} bytes from {data.transport}: {data.reason}"
        case QuarantineReplayed():
            why = f": {data.reason}" if data.reason else ""
            return f"{data.quarantine} replayed, {data.outcome}{why}"
        case SignalsDismissed():
            what = ", ".join(data.names) or f"all of {data.source}"
            return f"{what} dismissed: {data.reason}"
        case _:
            assert_never(data)


def counted(data: SignalReceived) -> str:
    """Say how many signals a signal counts for; empty for one."""
    return f" (the newest of {data.coalesced} beyond the limit)" if data.coalesced else ""


def signalled(book: Logbook, data: SignalReceived, event: Event) -> Logbook:
    """Write the entry of a signal if it deserves one."""
    signal = data.signal
    if signal.kind not in NOTABLE:
        return book
    title = f"signal: {signal.kind.value.replace('_', ' ')}"
    book = opened(book, Kind.COMPLETE, event.envelope.recorded_at, title)
    at = stamp(signal.occurred_at, book.zone)
    status = f"{prose(signal.source)} says so, of {at}; a claim (event {event.version})"
    status += counted(data)
    book = said(book, Key.STATUS, status)
    book = said(book, Key.EVIDENCE, code(signal.summary, WORDS_MAX))
    return said(book, Key.NEXT, f"the sources are asked; bound by {code(data.bound_by, WORDS_MAX)}")


def late_summary(signal: Signal) -> str:
    """Say in one line that a signal came after the run was over."""
    return f"came after the run was over: {said_by(signal)} ({signal_name(signal)})"
