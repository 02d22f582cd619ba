"""W&B automations, by a relay: a doorbell. One fires at most once for a run in a day.

W&B gives no id of a delivery, so the body and the hour stand for it.
"""

from watchkeeper.adapters.signals.fields import Outside, Text, read_as
from watchkeeper.adapters.signals.making import Said, signal_of
from watchkeeper.adapters.signals.message import Message
from watchkeeper.domain.values.observation.signals import Parsed, Poison, SignalKind

SOURCE = "wandb"

_OURS = "watchkeeper/"


class _Template(Outside):
    """What the automation's body is told to hold."""

    event_type: Text = None
    event_author: Text = None
    entity_name: Text = None
    project_name: Text = None
    automation: Text = None
    expects_run: Text = None


def parse(message: Message) -> Parsed:
    """Read an automation's message."""
    told = read_as(_Template, message.body)
    if not told.event_type:
        return Poison(f"an automation of W&B without event_type {message.unreadable}".rstrip())
    event = told.event_type.upper()
    kind = SignalKind.OTHER
    if event.startswith("RUN_STATE"):
        kind = SignalKind.TRACKER_STATE
    elif event.startswith("RUN_METRIC"):
        kind = SignalKind.TRACKER_ALERT
    at = message.published_at or message.received_at
    automation = told.automation or ""
    named = automation.removeprefix(_OURS).partition("/")[0] if automation[:12] == _OURS else ""
    whose = told.expects_run or named or "a run"
    said = Said(
        source=SOURCE,
        key=(message.digest, at.replace(minute=0, second=0, microsecond=0)),
        kind=kind,
        subject=f"{whose}: {automation or event}",
        summary=f"W&B tells of {event} for {whose} ({automation or 'no automation named'})",
        at=at,
        clues=[("tracker", told.expects_run), ("run", named)],
        facts={
            "event": event,
            "project": f"{told.entity_name or ''}/{told.project_name or ''}",
            "automation": automation,
            "author": told.event_author,
        },
    )
    return (signal_of(message, said),)
