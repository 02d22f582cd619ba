"""Changes of TPU nodes, queued resources and hosts.

A poller or a watcher on the machine reports them. No audit record says that a TPU node was
preempted, so these messages are part of the evidence. Compute Engine instances are read here, too,
when Cloud Asset Inventory reports them.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated

from watchkeeper.adapters.signals.audit import Maintenance, maintenance_facts, maintenance_kind
from watchkeeper.adapters.signals.fields import (
    PART,
    PARTS,
    Flag,
    Moment,
    Names,
    Outside,
    Text,
    read_as,
)
from watchkeeper.adapters.signals.making import Clue, Said, last_part, signal_of
from watchkeeper.adapters.signals.message import CloudEvent, Message
from watchkeeper.domain.values.observation.signals import (
    Ignored,
    Parsed,
    Poison,
    Signal,
    SignalKind,
)

NODE = "tpu_node"
QUEUED = "tpu_queued_resource"
HOST = "host"
ASSET = "asset_feed"

STATES: Mapping[str, SignalKind] = MappingProxyType(
    {
        "CREATING": SignalKind.NODE_STARTING,
        "STARTING": SignalKind.NODE_STARTING,
        "RESTARTING": SignalKind.NODE_STARTING,
        "REIMAGING": SignalKind.NODE_STARTING,
        "READY": SignalKind.NODE_UP,
        "REPAIRING": SignalKind.HARDWARE_FAILED,
        "STOPPING": SignalKind.NODE_LOST,
        "STOPPED": SignalKind.NODE_LOST,
        "DELETING": SignalKind.NODE_LOST,
        "HIDING": SignalKind.NODE_LOST,
        "HIDDEN": SignalKind.NODE_LOST,
        "TERMINATED": SignalKind.NODE_LOST,
        "PREEMPTED": SignalKind.NODE_PREEMPTED,
    }
)
"""The signal of each TPU node state; any other state is `other`."""

QUEUES: Mapping[str, SignalKind] = MappingProxyType(
    {
        "CREATING": SignalKind.CAPACITY_WAITING,
        "ACCEPTED": SignalKind.CAPACITY_WAITING,
        "WAITING_FOR_RESOURCES": SignalKind.CAPACITY_WAITING,
        "PROVISIONING": SignalKind.CAPACITY_WAITING,
        "ACTIVE": SignalKind.CAPACITY_GRANTED,
        "FAILED": SignalKind.CAPACITY_REFUSED,
        "SUSPENDING": SignalKind.CAPACITY_LOST,
        "SUSPENDED": SignalKind.CAPACITY_LOST,
        "DELETING": SignalKind.CAPACITY_LOST,
    }
)

_MACHINES: Mapping[str, SignalKind] = MappingProxyType(
    {
        "PROVISIONING": SignalKind.NODE_STARTING,
        "STAGING": SignalKind.NODE_STARTING,
        "RUNNING": SignalKind.NODE_UP,
        "REPAIRING": SignalKind.HARDWARE_FAILED,
        "STOPPING": SignalKind.NODE_LOST,
        "SUSPENDED": SignalKind.NODE_LOST,
        "TERMINATED": SignalKind.NODE_LOST,
    }
)
_QUIET = "NONE"
_NO_MAINTENANCE = Maintenance()


class _Node(Outside):
    name: Text = None
    state: Text = None
    health: Text = None
    health_description: Text = None
    accelerator_type: Text = None
    create_time: Moment = None
    upcoming_maintenance: Annotated[Maintenance, PART] = _NO_MAINTENANCE


class _NodeSeen(Outside):
    observed_at: Moment = None
    previous_state: Text = None
    node: Annotated[_Node, PART] = _Node()


class _State(Outside):
    state: Text = None
    state_initiator: Text = None


class _Spec(Outside):
    node_id: Text = None


class _Tpu(Outside):
    node_spec: Annotated[tuple[_Spec, ...], PARTS] = ()


class _Queued(Outside):
    name: Text = None
    state: Annotated[_State, PART] = _State()
    tpu: Annotated[_Tpu, PART] = _Tpu()


class _QueuedSeen(Outside):
    observed_at: Moment = None
    previous_state: Text = None
    queued_resource: Annotated[_Queued, PART] = _Queued()


class _Data(Outside):
    id: Text = None
    name: Text = None
    state: Text = None
    status: Text = None


class _Resource(Outside):
    data: Annotated[_Data, PART] = _Data()


class _Asset(Outside):
    name: Text = None
    asset_type: Text = None
    update_time: Moment = None
    resource: Annotated[_Resource, PART] = _Resource()


class _Window(Outside):
    start_time: Moment = None


class _Temporal(Outside):
    asset: Annotated[_Asset, PART] = _Asset()
    prior_asset: Annotated[_Asset, PART] = _Asset()
    deleted: Flag = False
    window: Annotated[_Window, PART] = _Window()


def parse_node(message: Message, event: CloudEvent) -> Parsed:
    """Read a TPU node's change; a node that is no longer listed has no state."""
    seen = read_as(_NodeSeen, message.body)
    parent = event.source.removeprefix("//tpu.googleapis.com/")
    named = seen.node.name or f"{parent}/{event.subject}"
    name = last_part(named)
    if not name or not (seen.node.state or seen.previous_state):
        return Poison("a TPU node without name or state")
    signals: list[Signal] = []
    changed = seen.node.state != seen.previous_state
    planned = seen.node.upcoming_maintenance
    at = seen.observed_at or event.time
    if planned != _NO_MAINTENANCE:
        kind, says = maintenance_kind(planned)
        key = (event.source, named, planned.maintenance_status, planned.window_start_time, at)
        said = Said(
            source=NODE,
            key=key,
            kind=kind,
            subject=name,
            summary=f"TPU node {name} {says}",
            at=at,
            clues=[("tpu", name)],
            facts=maintenance_facts(planned),
        )
        signals.append(signal_of(message, said))
    if changed or not signals:
        state = seen.node.state or "gone from the list"
        kind = STATES.get(state, SignalKind.OTHER) if seen.node.state else SignalKind.NODE_LOST
        before = f" after {seen.previous_state}" if seen.previous_state else ""
        said = Said(
            source=NODE,
            key=(event.source, named, seen.previous_state, seen.node.state, at),
            kind=kind,
            subject=name,
            summary=f"TPU node {name} is {state}{before}",
            at=at,
            clues=[("tpu", name)],
            facts={
                "health": seen.node.health,
                "health_description": seen.node.health_description,
                "type": seen.node.accelerator_type,
                "created": seen.node.create_time,
            },
        )
        signals.append(signal_of(message, said))
    return tuple(signals)


def parse_queued(message: Message, event: CloudEvent) -> Parsed:
    """Read a queued resource's change; it names its nodes, which are learnt."""
    seen = read_as(_QueuedSeen, message.body)
    queued = seen.queued_resource
    name, state = last_part(queued.name or event.subject), queued.state.state
    if not name or not state:
        return Poison("a queued resource without name or state")
    at = seen.observed_at or event.time
    clues: list[Clue] = [("pool", name), *(("tpu", one.node_id) for one in queued.tpu.node_spec)]
    by = f" by {queued.state.state_initiator}" if queued.state.state_initiator else ""
    said = Said(
        source=QUEUED,
        key=(event.source, queued.name or event.subject, seen.previous_state, state, at),
        kind=QUEUES.get(state, SignalKind.OTHER),
        subject=name,
        summary=f"queued resource {name} is {state}{by}",
        at=at,
        clues=clues,
        facts={"previous": seen.previous_state, "by": queued.state.state_initiator},
    )
    return (signal_of(message, said),)


def parse_host(message: Message, event: CloudEvent) -> Parsed:
    """Read what a machine's own metadata server says: seconds of warning, best effort."""
    body = message.body if isinstance(message.body, dict) else {}
    texts = {name: value for name, value in body.items() if isinstance(value, str)}
    host = texts.get("hostname") or event.subject or last_part(event.source)
    flag, preempted = texts.get("maintenance-event", ""), texts.get("preempted", "")
    if not host or not (flag or preempted):
        return Poison("a host's warning without hostname, or that warns of nothing")
    planned = read_as(Maintenance, body.get("upcoming-maintenance"))
    at = read_as(_ReadAt, message.body).read_at or event.time
    if preempted.upper() == "TRUE":
        kind, says = SignalKind.NODE_PREEMPTED, "is being preempted"
    elif flag in ("", _QUIET):
        kind, says = SignalKind.MAINTENANCE_OVER, "has no maintenance ahead"
    else:
        kind, says = maintenance_kind(planned)
    said = Said(
        source=HOST,
        key=(event.source, host, flag, preempted, planned.maintenance_status, at),
        kind=kind,
        subject=host,
        summary=f"{host} {says}" + (f": {flag}" if flag not in ("", _QUIET) else ""),
        at=at,
        clues=[("host", host), ("host", last_part(event.source))],
        facts={"maintenance_event": flag, **maintenance_facts(planned)},
    )
    return (signal_of(message, said),)


class _ReadAt(Outside):
    read_at: Moment = None


def parse_asset(message: Message) -> Parsed:
    """Read a change in Cloud Asset Inventory: minutes late, a third source."""
    change = read_as(_Temporal, message.body)
    asset = change.asset
    names: Names = {"tpu.googleapis.com/Node": "tpu", "compute.googleapis.com/Instance": "host"}
    space = names.get(asset.asset_type or "")
    if not asset.name or not asset.update_time:
        return Poison("an asset without name or updateTime")
    if space is None:
        return Ignored("an asset of another type")
    data, before = asset.resource.data, change.prior_asset.resource.data
    state = data.state or data.status or ""
    kinds = STATES if space == "tpu" else _MACHINES
    kind = SignalKind.NODE_LOST if change.deleted else kinds.get(state, SignalKind.OTHER)
    name = last_part(asset.name)
    says = "was deleted" if change.deleted else f"is {state or 'changed'}"
    said = Said(
        source=ASSET,
        key=(asset.name, asset.update_time),
        kind=kind,
        subject=name,
        summary=f"{name} {says}, says the asset inventory",
        at=change.window.start_time or asset.update_time,
        clues=[(space, name), ("instance", data.id if space == "host" else None)],
        facts={"previous": before.state or before.status, "type": asset.asset_type},
    )
    return (signal_of(message, said),)
