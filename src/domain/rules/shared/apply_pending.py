"""Applies pending events to a run before they are recorded.

So later rules of a decision see the events of earlier rules.
"""

from collections.abc import Iterable
from uuid import UUID

from watchkeeper.domain.rules.shared.command import Command
from watchkeeper.domain.run.envelope import Envelope, Event
from watchkeeper.domain.run.events import RunEvent
from watchkeeper.domain.run.evolve.evolve import evolve
from watchkeeper.domain.run.run import Run

_NOT_RECORDED = UUID(int=0)
"""Event id of envelopes that are never stored."""


def apply_pending(run: Run, events: Iterable[RunEvent], command: Command) -> Run:
    """Return the run as it will be once the events are recorded."""
    for data in events:
        envelope: Envelope[RunEvent] = Envelope(
            event_id=_NOT_RECORDED,
            occurred_at=command.now,
            recorded_at=command.now,
            actor=command.actor,
            cause=None,
            correlation=run.slug,
            key=None,
            data=data,
        )
        after = evolve(run, Event(f"run/{run.slug}", run.version + 1, envelope))
        assert isinstance(after, Run), f"decided an event that does not fit: {after}"
        run = after
    return run
