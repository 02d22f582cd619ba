"""W&B automations through a relay; each fires at most once per run and day.

They only prompt a look at the run. W&B gives no delivery id, so the body and the hour replace it.
"""

from watchkeeper.adapters.signals.fields import Outside, Text, read_as
from watchkeeper.adapters.signals.making import Said, signal_of
from watchkeeper.adapters.signals.message import Message
from watchkeeper.domain.values.observation.signals import Parsed, Poison, SignalKind

SOURCE = "wandb"

_OURS = "watchkeeper/"


class _Template(Outside):
    """The fields that the automation's body is configured to hold."""

    event_type: Text = None
    event_author: Text = None
    entity_name: Text = None
    project_name: Text = None
    automation: Text = None
    expects_run: Text = None


def parse(message: Message) -> Parsed:
    """Read an automation's message."""
    template = read_as(_Template, message.body)
    if not template.event_type:
        return Poison(f"an automation of W&B without event_type {message.unreadable}".rstrip())
    event = template.event_type.upper()
    kind = SignalKind.OTHER
    if event.startswith("RUN_STATE"):
        kind = SignalKind.TRACKER_STATE
    elif event.startswith("RUN_METRIC"):
        kind = SignalKind.TRACKER_ALERT
    at = message.published_at or message.received_at
    automation = template.automation or ""
    named = automation.removeprefix(_OURS).partition("/")[0] if automation[:12] == _OURS else ""
    whose = template.expects_run or named or "a run"
    said = Said(
        source=SOURCE,
        key=(message.digest, at.replace(minute=0, second=0, microsecond=0)),
        kind=kind,
        subject=f"{whose}: {automation or event}",
        summary=f"W&B reports {event} for {whose} ({automation or 'no automation named'})",
        at=at,
        clues=[("tracker", template.expects_run), ("run", named)],
        facts={
            "event": event,
            "project": f"{template.entity_name or ''}/{template.project_name or ''}",
            "automation": automation,
            "author": template.event_author,
        },
    )
    return (signal_of(message, said),)
