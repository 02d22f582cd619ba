"""Kubernetes events of pods and nodes, and GKE's upgrade notices.

The events come from the log or from Ray.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated

from pydantic import JsonValue
from pydantic_core import from_json

from watchkeeper.adapters.signals.fields import PART, Moment, Names, Outside, Text, Whole, read_as
from watchkeeper.adapters.signals.log_base import LogLine, pod_of
from watchkeeper.adapters.signals.making import Clue, Said, last_part, signal_of
from watchkeeper.adapters.signals.message import Message
from watchkeeper.domain.values.observation.signals import Ignored, Parsed, Poison, SignalKind

SOURCE = "kubernetes"
GKE = "gke"

REASONS: Mapping[tuple[str, str], SignalKind] = MappingProxyType(
    {
        ("Pod", "Evicted"): SignalKind.PROCESS_DIED,
        ("Pod", "OOMKilling"): SignalKind.PROCESS_DIED,
        ("Pod", "OOMKilled"): SignalKind.PROCESS_DIED,
        ("Pod", "Preempting"): SignalKind.PROCESS_DIED,
        ("Pod", "Preempted"): SignalKind.PROCESS_DIED,
        ("Pod", "FailedScheduling"): SignalKind.CAPACITY_WAITING,
        ("Node", "NodeNotReady"): SignalKind.NODE_LOST,
        ("Node", "NodeReady"): SignalKind.NODE_UP,
        ("Node", "OOMKilling"): SignalKind.PROCESS_DIED,
        ("Node", "SystemOOM"): SignalKind.PROCESS_DIED,
    }
)
"""The meaning of a reason, by the kind of object; warnings with another reason are `other`."""

_UPGRADE = "UpgradeEvent"


class _Object(Outside):
    kind: Text = None
    namespace: Text = None
    name: Text = None


class _Meta(Outside):
    uid: Text = None


class _Host(Outside):
    host: Text = None


class _Event(Outside):
    metadata: Annotated[_Meta, PART] = _Meta()
    involved_object: Annotated[_Object, PART] = _Object()
    source: Annotated[_Host, PART] = _Host()
    labels: Names = {}
    reason: Text = None
    message: Text = None
    type: Text = None
    count: Whole = None
    last_timestamp: Moment = None


class _Upgrade(Outside):
    resource_type: Text = None
    operation: Text = None
    operation_start_time: Moment = None
    current_version: Text = None
    target_version: Text = None
    resource: Text = None


def is_event(payload: Mapping[str, JsonValue]) -> bool:
    """Return whether a log entry holds an event of Kubernetes."""
    return payload.get("kind") == "Event" and "involvedObject" in payload


def parse(message: Message, line: LogLine, payload: JsonValue) -> Parsed:
    """Read an event that GKE logged; its count moves when it happens again."""
    event = read_as(_Event, payload)
    about = event.involved_object
    if not (about.kind and about.name and event.reason):
        return Poison("an event of Kubernetes without object or reason")
    if (about.kind, event.reason) not in REASONS and event.type != "Warning":
        return Ignored("an everyday event of Kubernetes")
    key = (event.metadata.uid, event.count) if event.metadata.uid else line.key
    said = Said(
        source=SOURCE,
        key=key,
        kind=REASONS.get((about.kind, event.reason), SignalKind.OTHER),
        subject=about.name,
        summary=f"{about.kind.lower()} {about.name}: {event.reason}: {event.message or ''}",
        at=event.last_timestamp or line.at,
        clues=[
            *object_clues(about.kind, about.namespace, about.name),
            ("run", line.labels.get("k8s-pod/run")),
        ],
        facts={
            "reason": event.reason,
            "count": event.count,
            "node": event.source.host,
            "cluster": line.resource.get("cluster_name"),
        },
    )
    return (signal_of(message, said),)


def object_clues(kind: str, namespace: str | None, name: str) -> list[Clue]:
    """Return the clues for an object; a node only for events of the node itself.

    Pods of many runs may share a node, so a pod's event teaches nothing about its node.
    """
    if kind == "Pod":
        return [("pod", pod_of(namespace, name))]
    return [("host", name)] if kind == "Node" else []


def parse_gke(message: Message) -> Parsed:
    """Read a cluster's notice: its JSON is the attribute `payload`, its data a sentence."""
    around = message.attributes
    if not around.get("type_url", "").endswith(f".{_UPGRADE}"):
        return Ignored("another notice of GKE")
    try:
        upgrade = read_as(_Upgrade, from_json(around.get("payload", "")))
    except ValueError:
        return Poison("a notice of GKE whose attribute `payload` is no JSON")
    if not upgrade.operation:
        return Poison("an upgrade by GKE without `operation`")
    cluster, pool = around.get("cluster_name", ""), last_part(upgrade.resource)
    what = f"node pool {pool}" if upgrade.resource_type == "NODE_POOL" else "control plane"
    said = Said(
        source=GKE,
        key=(around.get("project_id"), around.get("cluster_location"), cluster, upgrade.operation),
        kind=SignalKind.MAINTENANCE_PLANNED,
        subject=f"{cluster}/{pool}",
        summary=f"GKE upgrades {what} of {cluster} from {upgrade.current_version} "
        f"to {upgrade.target_version}: its hosts are drained",
        at=upgrade.operation_start_time,
        clues=[("cluster", cluster)],
        facts={"resource": upgrade.resource, "operation": upgrade.operation},
    )
    return (signal_of(message, said),)
