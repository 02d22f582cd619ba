"""Cloud Monitoring incidents: opened and closed in any order, with repeats."""

from typing import Annotated

from pydantic import JsonValue

from watchkeeper.adapters.signals.fields import (
    PART,
    Flag,
    Names,
    Outside,
    Text,
    after_epoch,
    read_as,
)
from watchkeeper.adapters.signals.making import Clue, Said, signal_of
from watchkeeper.adapters.signals.message import Message
from watchkeeper.domain.values.observation.signals import Parsed, Poison, SignalKind

SOURCE = "monitoring"

_UPTIME = "monitoring.googleapis.com/uptime_check/"


class _Labelled(Outside):
    type: Text = None
    labels: Names = {}


class _Meta(Outside):
    system_labels: Names = {}
    user_labels: Names = {}


class _Incident(Outside):
    incident_id: Text = None
    state: Text = None
    started_at: Text = None
    ended_at: Text = None
    summary: Text = None
    severity: Text = None
    renotify: Flag = False
    policy_name: Text = None
    condition_name: Text = None
    observed_value: Text = None
    threshold_value: Text = None
    url: Text = None
    resource_display_name: Text = None
    resource: Annotated[_Labelled, PART] = _Labelled()
    metric: Annotated[_Labelled, PART] = _Labelled()
    metadata: Annotated[_Meta, PART] = _Meta()
    policy_user_labels: Names = {}


def parse(message: Message) -> Parsed:
    """Read an incident's opening or closing."""
    body = message.body if isinstance(message.body, dict) else {}
    incident = read_as(_Incident, body.get("incident"))
    state = (incident.state or "").lower()
    if not incident.incident_id or state not in ("open", "closed"):
        return Poison("an incident without incident_id, or neither open nor closed")
    closed = state == "closed"
    said = Said(
        source=SOURCE,
        key=(incident.incident_id, state),
        kind=_kind(incident, closed=closed),
        subject=incident.incident_id,
        summary=f"{incident.policy_name or incident.condition_name or 'incident'} {state}: "
        f"{incident.summary or ''}",
        at=after_epoch(incident.ended_at if closed else incident.started_at),
        clues=_clues(incident),
        facts={
            "policy": incident.policy_name,
            "condition": incident.condition_name,
            "severity": incident.severity,
            "observed": incident.observed_value,
            "threshold": incident.threshold_value,
            "resource": incident.resource_display_name,
            "documentation": _documentation(body.get("incident")),
            "url": incident.url,
        },
    )
    return (signal_of(message, said),)


def _kind(incident: _Incident, *, closed: bool) -> SignalKind:
    """Return the kind: a failed uptime check concerns a source, not a run."""
    if (incident.metric.type or "").startswith(_UPTIME) or incident.resource.type == "uptime_url":
        return SignalKind.SOURCE_REACHABLE if closed else SignalKind.SOURCE_UNREACHABLE
    return SignalKind.INCIDENT_CLOSED if closed else SignalKind.INCIDENT_OPENED


def _clues(incident: _Incident) -> list[Clue]:
    run = incident.metadata.user_labels.get("run") or incident.policy_user_labels.get("run")
    clues: list[Clue] = [
        ("run", run),
        ("instance", incident.resource.labels.get("instance_id")),
        ("host", incident.metadata.system_labels.get("name")),
    ]
    if any(name for _, name in clues):
        return clues
    # An incident that names a machine concerns that machine; others concern the whole cluster.
    return [("cluster", incident.policy_user_labels.get("cluster"))]


def _documentation(incident: JsonValue) -> str | None:
    text = incident.get("documentation") if isinstance(incident, dict) else None
    if isinstance(text, dict):
        text = text.get("subject") or text.get("content")
    return text if isinstance(text, str) else None
