"""Audit records of Cloud Logging: TPU operations and Compute Engine events."""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated

from pydantic import JsonValue

from watchkeeper.adapters.signals.fields import PART, Flag, Outside, Text, Whole, read_as
from watchkeeper.adapters.signals.log_base import SOURCE, LogLine
from watchkeeper.adapters.signals.making import Clue, Said, last_part, signal_of
from watchkeeper.adapters.signals.message import Message
from watchkeeper.domain.values.observation.signals import Ignored, Parsed, Poison, SignalKind

# Methods appear as google.cloud.tpu.v1, v2 and v2alpha1.
_TPU = re.compile(r"(?:.*\.)?Tpu\.(Create|Delete|Start|Stop|Update)(Node|QueuedResource)")
_GCE = re.compile(r"(?:.*\.)?compute\.instances\.([A-Za-z]{1,64})")
_METHOD_MAX = 256
_ERRORS = frozenset({"ERROR", "CRITICAL", "ALERT", "EMERGENCY", "500", "600", "700", "800"})
_EXHAUSTED = 8
_DONE = MappingProxyType(
    {
        "Create": "created",
        "Delete": "deleted",
        "Start": "started",
        "Stop": "stopped",
        "Update": "updated",
    }
)
_NO_ROOM = ("no more capacity", "stockout", "resource_exhausted", "quota")

_EFFECTS: Mapping[tuple[str, str], tuple[SignalKind, str]] = MappingProxyType(
    {
        ("Create", "Node"): (SignalKind.NODE_UP, "was created"),
        ("Start", "Node"): (SignalKind.NODE_UP, "was started"),
        ("Stop", "Node"): (SignalKind.NODE_LOST, "was stopped"),
        ("Delete", "Node"): (SignalKind.NODE_LOST, "was deleted"),
        ("Create", "QueuedResource"): (SignalKind.CAPACITY_WAITING, "was asked for"),
        ("Delete", "QueuedResource"): (SignalKind.CAPACITY_LOST, "was deleted"),
    }
)

_SYSTEM: Mapping[str, tuple[SignalKind, str]] = MappingProxyType(
    {
        "preempted": (SignalKind.NODE_PREEMPTED, "was preempted"),
        "baremetalCaretakerPreempted": (SignalKind.NODE_PREEMPTED, "was preempted"),
        "hostError": (SignalKind.HARDWARE_FAILED, "had a host error"),
        "terminateOnHostMaintenance": (
            SignalKind.MAINTENANCE_STARTED,
            "was stopped for maintenance of its host",
        ),
        "migrateOnHostMaintenance": (SignalKind.OTHER, "was migrated to another host"),
        "automaticRestart": (SignalKind.NODE_STARTING, "is restarted by Compute Engine"),
        "guestTerminate": (SignalKind.NODE_LOST, "was shut down from inside"),
    }
)
_UPCOMING = frozenset({"upcomingMaintenance", "upcomingInfraMaintenance"})
_OVER = "Maintenance window has completed"


class _Status(Outside):
    code: Whole = None
    message: Text = None


class _Who(Outside):
    principal_email: Text = None


class Maintenance(Outside):
    """Planned or current maintenance, as Compute Engine and TPUs report it."""

    type: Text = None
    maintenance_status: Text = None
    window_start_time: Text = None
    window_end_time: Text = None
    latest_window_start_time: Text = None
    can_reschedule: Text = None


class _Operation(Outside):
    id: Text = None
    first: Flag = False
    last: Flag = False


class _Audit(Outside):
    method_name: Text = None
    resource_name: Text = None
    status: Annotated[_Status, PART] = _Status()
    authentication_info: Annotated[_Who, PART] = _Who()
    metadata: Annotated[Maintenance, PART] = Maintenance()


def parse(message: Message, line: LogLine, payload: JsonValue) -> Parsed:
    """Read an audit record; operations of other services say nothing of a run."""
    record = read_as(_Audit, payload)
    method = (record.method_name or "")[:_METHOD_MAX]
    if not method or not record.resource_name:
        return Poison("an audit record without methodName or resourceName")
    tpu = _TPU.fullmatch(method)
    if tpu:
        return _of_tpu(message, line, record, tpu[1], tpu[2])
    gce = _GCE.fullmatch(method)
    if gce and (gce[1] in _SYSTEM or gce[1] in _UPCOMING):
        return _of_machine(message, line, record, gce[1])
    return Ignored("an audit record of another operation")


def _of_tpu(message: Message, line: LogLine, record: _Audit, verb: str, what: str) -> Parsed:
    name = last_part(record.resource_name)
    body = message.body if isinstance(message.body, dict) else {}
    operation = read_as(_Operation, body.get("operation"))
    thing = "TPU node" if what == "Node" else "queued resource"
    # A long-running operation has two entries. One without an operation, as Eventarc's, is whole.
    begun = operation.first and not operation.last
    failed = line.severity in _ERRORS or record.status.code not in (None, 0)
    if failed:
        refused = verb in ("Create", "Start") and _no_room(record.status)
        kind = SignalKind.CAPACITY_REFUSED if refused else SignalKind.OTHER
        says = f"could not be {_DONE[verb]}: {record.status.message or record.status.code}"
    elif begun:
        starting = (verb, what) in {("Create", "Node"), ("Start", "Node")}
        kind = SignalKind.NODE_STARTING if starting else SignalKind.OTHER
        says = f"is to be {_DONE[verb]}"
    elif (verb, what) in _EFFECTS:
        kind, says = _EFFECTS[(verb, what)]
    else:
        kind, says = SignalKind.OTHER, "was updated"
    who = record.authentication_info.principal_email
    said = Said(
        source=SOURCE,
        key=line.key,
        kind=kind,
        subject=name,
        summary=f"{thing} {name} {says}" + (f", by {who}" if who and not failed else ""),
        at=line.at,
        clues=[("tpu" if what == "Node" else "pool", name)],
        facts={
            "method": record.method_name,
            "resource": record.resource_name,
            "by": who,
            "operation": operation.id,
        },
    )
    return (signal_of(message, said),)


def _no_room(status: _Status) -> bool:
    text = (status.message or "").lower()
    return status.code == _EXHAUSTED or any(words in text for words in _NO_ROOM)


def _of_machine(message: Message, line: LogLine, record: _Audit, event: str) -> Parsed:
    host = last_part(record.resource_name)
    status = record.status.message or ""
    if event in _UPCOMING:
        kind, says = maintenance_kind(record.metadata, over=_OVER in status)
    else:
        kind, says = _SYSTEM[event]
    clues: list[Clue] = [("instance", line.resource.get("instance_id")), ("host", host)]
    said = Said(
        source=SOURCE,
        key=line.key,
        kind=kind,
        subject=host,
        summary=f"{host} {says}",
        at=line.at,
        clues=clues,
        facts={
            "method": record.method_name,
            "status": status,
            "zone": line.resource.get("zone"),
            **maintenance_facts(record.metadata),
        },
    )
    return (signal_of(message, said),)


def maintenance_kind(planned: Maintenance, *, over: bool = False) -> tuple[SignalKind, str]:
    """Return the kind of a maintenance signal, and its description."""
    if over:
        return SignalKind.MAINTENANCE_OVER, "is through with its maintenance"
    if (planned.maintenance_status or "").upper() == "ONGOING":
        return SignalKind.MAINTENANCE_STARTED, "is under maintenance"
    window = f" from {planned.window_start_time}" if planned.window_start_time else ""
    return SignalKind.MAINTENANCE_PLANNED, f"will be under maintenance{window}"


def maintenance_facts(planned: Maintenance) -> dict[str, object]:
    """Return the details of maintenance."""
    return {
        "maintenance": planned.type,
        "maintenance_status": planned.maintenance_status,
        "window_start": planned.window_start_time,
        "window_end": planned.window_end_time,
        "latest_start": planned.latest_window_start_time,
        "can_reschedule": planned.can_reschedule,
    }
