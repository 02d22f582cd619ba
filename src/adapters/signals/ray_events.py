"""Ray's exported events: often late, sent in batches, and repeated.

Ray's own processes report them. Their ids are base64 of raw bytes; in hex they are the ids of the
Jobs and State APIs. The node named with an event is its reporter and says nothing about its
subject.
"""

import hashlib
import json
import re
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from pydantic import JsonValue

from watchkeeper.adapters.signals.fields import read_as
from watchkeeper.adapters.signals.kubernetes import REASONS, object_clues
from watchkeeper.adapters.signals.making import Clue, Said, last_part, signal_of
from watchkeeper.adapters.signals.message import Message
from watchkeeper.adapters.signals.ray_jobs import cluster_of
from watchkeeper.adapters.signals.ray_shapes import Nested, RayEvent
from watchkeeper.domain.values.observation.signals import (
    Ignored,
    Parsed,
    Poison,
    Signal,
    SignalKind,
)

SOURCE = "ray_event"

_EVERYDAY = (
    "TASK_",
    "ACTOR_TASK_",
    "ACTOR_DEFINITION",
    "WORKER_DEFINITION",
    "PLACEMENT_GROUP_",
    "SUBMISSION_JOB_DEFINITION",
    "AUTOSCALER_SCALING_DECISION",
)
"""Events that say nothing about a run's health; tasks are reported by the million."""

_DEATHS = frozenset({"WORKER_DIED", "OWNER_DIED", "NODE_DIED"})
_EXITS = frozenset({"SYSTEM_ERROR", "USER_ERROR", "NODE_OUT_OF_MEMORY"})
_NODE_IN_TEXT = re.compile(r"[Nn]ode [Ii]d: ([0-9a-f]{56})\b")
_JOB_BYTES = 4
_ACTOR_BYTES = 16


@dataclass(frozen=True, slots=True)
class _Reported:
    """One event with its cluster and nested object."""

    cluster: str
    event: RayEvent
    nested: Nested

    def key(self, *parts: object) -> tuple[object, ...]:
        return (self.cluster, self.event.session_name, self.event.event_type, *parts)

    def job(self, name: str) -> Clue:
        # Each cluster counts its job ids from the start.
        return "job", f"{self.cluster}/{name}" if self.cluster and name else None


def parse(message: Message) -> Parsed:
    """Read one event or a batch of them; an unknown event is `other`."""
    events = message.body if isinstance(message.body, list) else [message.body]
    cluster = cluster_of(message.event) or message.attributes.get("ray-cluster-name", "")
    signals: dict[str, Signal] = {}
    for one in events:
        if not isinstance(one, dict):
            return Poison(f"no Ray event: {message.unreadable or 'not a JSON object'}")
        for said in _of_event(cluster, one):
            signal = signal_of(message, said)
            # The same transition can occur twice in one event, and in one batch.
            signals.setdefault(signal.key, signal)
    return tuple(signals.values()) or Ignored("everyday events of Ray")


def _of_event(cluster: str, body: dict[str, JsonValue]) -> Iterator[Said]:
    event = read_as(RayEvent, body)
    kind = event.event_type or ""
    if kind.startswith(_EVERYDAY):
        return
    reader = _READERS.get(kind)
    nested = read_as(Nested, body.get(_field_of(kind)))
    reported = _Reported(cluster, event, nested)
    if reader is not None:
        yield from reader(reported)
        return
    digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
    yield Said(
        source=SOURCE,
        key=reported.key(event.event_id or digest),
        kind=SignalKind.OTHER,
        subject=kind or "an event without a type",
        summary=f"Ray reports {kind or 'something without a type'}: {event.message or ''}",
        at=event.timestamp,
        facts={"type": kind},
    )


def _field_of(kind: str) -> str:
    """Return the name of the object that holds an event's details.

    >>> _field_of("NODE_LIFECYCLE_EVENT")
    'nodeLifecycleEvent'
    """
    first, *rest = kind.lower().split("_")
    return first + "".join(part.capitalize() for part in rest)


def _hex(encoded: str | None) -> str:
    """Return an id of raw bytes in hex; empty if it is not an id."""
    try:
        return b64decode(encoded or "", validate=True).hex()
    except (Base64Error, ValueError):
        return ""


def _node_defined(reported: _Reported) -> Iterator[Said]:
    nested = reported.nested
    node, instance = _hex(nested.node_id), nested.instance_id or ""
    if not node:
        return
    # RAY_CLOUD_INSTANCE_ID holds a number of Compute Engine, or a TPU node's name.
    clues: list[Clue] = [("node", node), ("instance", instance)]
    if not instance.isdecimal():
        clues.append(("tpu", instance))
    clues.append(("host", nested.hostname))
    yield Said(
        source=SOURCE,
        key=reported.key(node, "defined", nested.start_timestamp or reported.event.timestamp),
        kind=SignalKind.IDENTITY,
        subject=node,
        summary=f"Ray node {node[:12]} is {instance or nested.hostname or 'a machine'}",
        at=reported.event.timestamp,
        clues=clues,
        facts={"cluster": reported.cluster, "type": nested.instance_type_name},
    )


def _node_changed(reported: _Reported) -> Iterator[Said]:
    node = _hex(reported.nested.node_id)
    for step in reported.nested.state_transitions if node else ():
        reason = step.death_info.reason or ""
        if step.state == "DEAD":
            kind = _NODE_DEATHS.get(reason, SignalKind.NODE_LOST)
            says = f"is dead: {reason}: {step.death_info.reason_message or ''}"
        elif step.state == "ALIVE" and step.alive_sub_state == "DRAINING":
            kind, says = SignalKind.OTHER, "is being drained"
        else:
            up = step.state == "ALIVE"
            kind = SignalKind.NODE_UP if up else SignalKind.OTHER
            says = f"is {step.state or 'changed'}"
        at = step.timestamp or reported.event.timestamp
        yield Said(
            source=SOURCE,
            # The reason belongs to the state: a death is reported with one.
            key=reported.key(node, step.state, reason or step.alive_sub_state, at),
            kind=kind,
            subject=node,
            summary=f"Ray node {node[:12]} {says}",
            at=at,
            clues=[("node", node)],
            facts={"cluster": reported.cluster, "reason": reason},
        )


_NODE_DEATHS: Mapping[str, SignalKind] = MappingProxyType(
    {
        "AUTOSCALER_DRAIN_PREEMPTED": SignalKind.NODE_PREEMPTED,
        # Nothing ran there, and its removal was intended.
        "AUTOSCALER_DRAIN_IDLE": SignalKind.OTHER,
    }
)


def _driver_defined(reported: _Reported) -> Iterator[Said]:
    job, metadata = _hex(reported.nested.job_id), reported.nested.config.metadata
    if not job:
        return
    submission = metadata.get("job_submission_id")
    yield Said(
        source=SOURCE,
        key=reported.key(job, "defined", reported.event.timestamp),
        kind=SignalKind.IDENTITY,
        subject=f"job {reported.cluster}/{job}",
        summary=f"Ray job {job} is {submission or 'a driver that nobody submitted'}",
        at=reported.event.timestamp,
        clues=[("submission", submission), ("run", metadata.get("run")), reported.job(job)],
        facts={"cluster": reported.cluster},
    )


def _driver_changed(reported: _Reported) -> Iterator[Said]:
    job = _hex(reported.nested.job_id)
    for step in reported.nested.state_transitions if job else ():
        at = step.timestamp or reported.event.timestamp
        verdict = "; how, the Jobs API says" if step.state == "FINISHED" else ""
        yield Said(
            source=SOURCE,
            key=reported.key(job, step.state, at),
            kind=SignalKind.JOB_STATE,
            subject=f"job {reported.cluster}/{job}",
            summary=f"Ray job {job} is {step.state}{verdict}",
            at=at,
            clues=[reported.job(job)],
            facts={"status": step.state, "cluster": reported.cluster},
        )


def _submission_changed(reported: _Reported) -> Iterator[Said]:
    submission = reported.nested.submission_id
    for step in reported.nested.state_transitions if submission else ():
        at = step.timestamp or reported.event.timestamp
        yield Said(
            source=SOURCE,
            key=reported.key(submission, step.state, at),
            kind=SignalKind.JOB_STATE,
            subject=submission or "",
            summary=f"{submission} is {step.state}: {step.message or ''}",
            at=at,
            clues=[("submission", submission)],
            facts={
                "status": step.state,
                "error_type": step.error_type,
                "exit_code": step.driver_exit_code,
                "cluster": reported.cluster,
            },
        )


def _worker_changed(reported: _Reported) -> Iterator[Said]:
    worker, job = _hex(reported.nested.worker_id), _hex(reported.nested.job_id)
    for step in reported.nested.state_transitions if worker else ():
        if step.state != "DEAD":
            continue
        exit_type = step.death_info.exit_type or ""
        died = exit_type in _EXITS
        at = step.timestamp or reported.event.timestamp
        yield Said(
            source=SOURCE,
            key=reported.key(worker, step.state, at),
            kind=SignalKind.PROCESS_DIED if died else SignalKind.OTHER,
            # Workers that end as they should are one subject: there are thousands of them.
            subject=worker if died else f"workers of job {reported.cluster}/{job}",
            summary=f"a worker ended: {exit_type}: {step.death_info.exit_detail or ''}",
            at=at,
            clues=[reported.job(job)],
            facts={"exit_type": exit_type, "worker": worker, "cluster": reported.cluster},
        )


def _actor_changed(reported: _Reported) -> Iterator[Said]:
    actor = _hex(reported.nested.actor_id)
    # The last bytes of an actor's id are its job's.
    job = actor[-2 * _JOB_BYTES :] if len(actor) == 2 * _ACTOR_BYTES else ""
    for step in reported.nested.state_transitions if actor else ():
        died = step.death_cause.actor_died_error_context
        if died.reason not in _DEATHS:
            continue
        found = _NODE_IN_TEXT.search((died.error_message or "")[:4000])
        at = step.timestamp or reported.event.timestamp
        yield Said(
            source=SOURCE,
            key=reported.key(actor, step.state, at),
            kind=SignalKind.PROCESS_DIED,
            subject=f"actor {actor}",
            summary=f"actor {died.name or actor[:12]} is {step.state}: {died.reason}: "
            f"{died.node_death_info.reason or ''} {died.error_message or ''}",
            at=at,
            clues=[reported.job(job), ("node", found[1] if found else None)],
            facts={
                "reason": died.reason,
                "node_death": died.node_death_info.reason,
                "restart_reason": step.restart_reason,
                "cluster": reported.cluster,
            },
        )


def _platform(reported: _Reported) -> Iterator[Said]:
    nested = reported.nested
    what, name, reason = nested.object_kind or "", nested.object_name or "", nested.reason or ""
    if not what or not name:
        return
    yield Said(
        source=SOURCE,
        key=reported.key(reported.event.event_id, what, name, reason, reported.event.timestamp),
        kind=REASONS.get((what, reason), SignalKind.OTHER),
        subject=name,
        summary=f"{what.lower()} {name}: {reason}: {nested.message or ''}",
        at=reported.event.timestamp,
        clues=object_clues(what, nested.source.metadata.get("namespace"), name),
        facts={"reason": reason, "cluster": reported.cluster},
    )


def _provisioned(reported: _Reported) -> Iterator[Said]:
    for number, one in enumerate(reported.nested.allocated_instances):
        if one.instance_id:
            yield Said(
                source=SOURCE,
                key=reported.key(reported.event.event_id, "allocated", number, one.instance_id),
                kind=SignalKind.CAPACITY_GRANTED,
                subject=one.instance_id,
                summary=f"the autoscaler got {one.instance_id} ({one.instance_type_name})",
                at=reported.event.timestamp,
                clues=[("tpu", one.instance_id), ("instance", one.instance_id)],
                facts={"type": one.instance_type_name, "cluster": reported.cluster},
            )
    for number, one in enumerate(reported.nested.failed_instances):
        kind = last_part(one.instance_type_name)
        yield Said(
            source=SOURCE,
            key=reported.key(reported.event.event_id, "failed", number, kind),
            kind=SignalKind.CAPACITY_REFUSED,
            subject=kind,
            summary=f"the autoscaler got no {kind}: {one.reason or ''}",
            at=one.failed_ts or reported.event.timestamp,
            clues=[("pool", kind)],
            facts={"cluster": reported.cluster},
        )


_READERS: Mapping[str, Callable[[_Reported], Iterator[Said]]] = MappingProxyType(
    {
        "NODE_DEFINITION_EVENT": _node_defined,
        "NODE_LIFECYCLE_EVENT": _node_changed,
        "DRIVER_JOB_DEFINITION_EVENT": _driver_defined,
        "DRIVER_JOB_LIFECYCLE_EVENT": _driver_changed,
        "SUBMISSION_JOB_LIFECYCLE_EVENT": _submission_changed,
        "WORKER_LIFECYCLE_EVENT": _worker_changed,
        "ACTOR_LIFECYCLE_EVENT": _actor_changed,
        "PLATFORM_EVENT": _platform,
        "AUTOSCALER_NODE_PROVISIONING_EVENT": _provisioned,
    }
)
