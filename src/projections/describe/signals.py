"""How messages from outside read."""

from watchkeeper.domain.run.envelope import Event
from watchkeeper.domain.run.signals import (
    MessageQuarantined,
    QuarantineReplayed,
    SignalBound,
    SignalCameLate,
    SignalKept,
    SignalReceived,
    SignalsDismissed,
)
from watchkeeper.domain.run.unbound_signals import signal_name
from watchkeeper.domain.values.observation.signals import NOTABLE, Signal
from watchkeeper.projections.describe.description import (
    Description,
    Headline,
    because,
    entry,
    other_stream,
    words,
)
from watchkeeper.projections.figures import stamp
from watchkeeper.projections.logbook.state import Logbook
from watchkeeper.projections.quoting import code, prose


def _received(book: Logbook, data: SignalReceived, event: Event) -> Logbook:
    signal = data.signal
    if signal.kind not in NOTABLE:
        return book
    said_at = stamp(signal.occurred_at, book.zone)
    status = f"claimed by {prose(signal.source)}, for {said_at}{_counted(data)}"
    title = f"signal: {signal.kind.value.replace('_', ' ')}"
    evidence = [words(signal.summary), f"about this run by {code(data.bound_by)}"]
    then = "the sources are asked now"
    at = event.envelope.recorded_at
    return entry(book, event, title, status=status, evidence=evidence, then=then, at=at)


def _counted(data: SignalReceived) -> str:
    """Say how many signals a signal counts for; empty for one."""
    return f" (the newest of {data.coalesced} beyond the limit)" if data.coalesced else ""


def _claim(signal: Signal) -> str:
    return f"{signal.source} says {signal.kind.value}: {signal.summary}"


def _late_line(data: SignalCameLate) -> str:
    signal = data.signal
    return f"too late, the run is over: {_claim(signal)} ({signal_name(signal)})"


def _kept_line(data: SignalKept) -> str:
    whose = f" ({', '.join(data.candidates)})" if data.candidates else ""
    return f"kept as {data.why}{whose}: {_claim(data.signal)}"


def _quarantined_line(data: MessageQuarantined) -> str:
    return f"{data.quarantine}: {data.size} bytes from {data.transport}: {data.reason}"


def _dismissed_line(data: SignalsDismissed) -> str:
    what = ", ".join(data.names) or f"all of {data.source}"
    return f"{what} dismissed: {data.reason}"


EVENTS = (
    Description(
        SignalReceived,
        lambda data: Headline.SIGNAL if data.signal.kind in NOTABLE else None,
        lambda data: _claim(data.signal) + _counted(data),
        _received,
    ),
    other_stream(SignalCameLate, _late_line),
    other_stream(SignalKept, _kept_line),
    other_stream(SignalBound, lambda data: f"{data.signal} bound to {data.run} by {data.by}"),
    other_stream(MessageQuarantined, _quarantined_line),
    other_stream(
        QuarantineReplayed,
        lambda data: because(f"{data.quarantine} replayed, {data.outcome}", data.reason),
    ),
    other_stream(SignalsDismissed, _dismissed_line),
)
