"""Incidents of Cloud Monitoring; opening and closing come in any order, and openings repeat."""

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
    told = read_as(_Incident, body.get("incident"))
    state = (told.state or "").lower()
    if not told.incident_id or state not in ("open", "closed"):
        return Poison("an incident without incident_id, or neither open nor closed")
    closed = state == "closed"
    said = Said(
        source=SOURCE,
        key=(told.incident_id, state),
        kind=_kind(told, closed=closed),
        subject=told.incident_id,
        summary=f"{told.policy_name or told.condition_name or 'incident'} {state}: "
        f"{told.summary or ''}",
        at=after_epoch(told.ended_at if closed else told.started_at),
        clues=_clues(told),
        facts={
            "policy": told.policy_name,
            "condition": told.condition_name,
            "severity": told.severity,
            "observed": told.observed_value,
            "threshold": told.threshold_value,
            "resource": told.resource_display_name,
            "documentation": _documentation(body.get("incident")),
            "url": told.url,
        },
    )
    return (signal_of(message, said),)


def _kind(told: _Incident, *, closed: bool) -> SignalKind:
    """Return the kind: an uptime check says that a source is blind, not that a run is ill."""
    if (told.metric.type or "").startswith(_UPTIME) or told.resource.type == "uptime_url":
        return SignalKind.SOURCE_REACHABLE if closed else SignalKind.SOURCE_UNREACHABLE
    return SignalKind.INCIDENT_CLOSED if closed else SignalKind.INCIDENT_OPENED


def _clues(told: _Incident) -> list[Clue]:
    run = told.metadata.user_labels.get("run") or told.policy_user_labels.get("run")
    clues: list[Clue] = [
        ("run", run),
        ("instance", told.resource.labels.get("instance_id")),
        ("host", told.metadata.system_labels.get("name")),
    ]
    if any(name for _, name in clues):
        return clues
    # Whatever names a machine speaks of that machine; only the rest speaks of a whole cluster.
    return [("cluster", told.policy_user_labels.get("cluster"))]


def _documentation(incident: JsonValue) -> str | None:
    told = incident.get("documentation") if isinstance(incident, dict) else None
    if isinstance(told, dict):
        told = told.get("subject") or told.get("content")
    return told if isinstance(told, str) else None
