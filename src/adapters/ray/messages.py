"""Messages that the bridge publishes: scrubbed CloudEvents with fixed ids.

They are in CloudEvents' binary mode. An id is a digest of the fact's natural key, never of our
clock or of a counter. Two sources may report one fact, or a bridge may die between publishing and
deleting it. Both copies then have the same id, so readers count the fact once.
"""

import base64
import binascii
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import IntEnum
from typing import Any, TypeGuard

from pydantic import JsonValue

from watchkeeper.domain.values.secrets.scrubbing import Scrubber, scrub, scrub_json

DATA_BYTES_MAX = 9_000_000
"""Maximum bytes of a message; Pub/Sub refuses a request above 10 MB, including attributes."""

ATTRIBUTE_BYTES_MAX = 1_024
"""Maximum bytes of an attribute's value; Pub/Sub's own limit."""

_EVENT_ID_BYTES_MAX = 64
"""Ray's have 28."""

TYPE = "dev.watchkeeper.ray."

JOB_OBSERVED = TYPE + "job.observed"
JOB_UNKNOWN = TYPE + "job.unknown"
NODE_OBSERVED = TYPE + "node.observed"
NODE_UNKNOWN = TYPE + "node.unknown"
EVENT = TYPE + "event"
CLUSTER_EVENT = TYPE + "cluster.event"
UNREACHABLE = TYPE + "cluster.unreachable"
REACHABLE = TYPE + "cluster.reachable"
ALIVE = TYPE + "bridge.observed"
OVERFLOWED = TYPE + "bridge.spool_overflowed"
UNREADABLE = TYPE + "bridge.line_unreadable"

ENDED = frozenset({"SUCCEEDED", "FAILED", "STOPPED"})
"""States of a job after which no other comes."""


class Worth(IntEnum):
    """The value of a message: the least valuable are dropped first from a full spool."""

    END = 0
    STATE = 1
    DETAIL = 2


_WORTH = {
    "NODE_LIFECYCLE_EVENT": Worth.END,
    "DRIVER_JOB_LIFECYCLE_EVENT": Worth.END,
    "SUBMISSION_JOB_LIFECYCLE_EVENT": Worth.END,
    "NODE_DEFINITION_EVENT": Worth.STATE,
    "DRIVER_JOB_DEFINITION_EVENT": Worth.STATE,
    "SUBMISSION_JOB_DEFINITION_EVENT": Worth.STATE,
    "ACTOR_LIFECYCLE_EVENT": Worth.STATE,
    "PLATFORM_EVENT": Worth.STATE,
}
"""By Ray's type; the rest is detail, of which a busy cluster makes thousands a second."""


@dataclass(frozen=True, slots=True)
class Reported:
    """A state of a polled object, kept so that it is reported once.

    Attributes:
        part: The kind of object: `job` or `node`.
        subject: Its name.
        state: Its state, in Ray's words.
        life: When it began, for a name that a restarted head takes a second time.
    """

    part: str
    subject: str
    state: str
    life: str = ""


@dataclass(frozen=True, slots=True)
class Message:
    """One message, ready to be published: its bytes are fixed and hold no secret.

    Attributes:
        data: The body, JSON.
        attributes: Of the CloudEvent; `ce-source` and `ce-id` together name the fact.
        worth: Its importance.
        told: Set if the source is polled again.
    """

    data: bytes
    attributes: Mapping[str, str]
    worth: Worth
    reported: Reported | None = None

    @property
    def type(self) -> str:
        """The CloudEvent's type."""
        return self.attributes["ce-type"]

    @property
    def identity(self) -> tuple[str, str]:
        """Source and id of the CloudEvent."""
        return self.attributes["ce-source"], self.attributes["ce-id"]


@dataclass(frozen=True, slots=True)
class Writer:
    """Writes the messages of one cluster.

    Args:
        cluster: Its name, as the contracts of its runs call it.
        scrubber: Takes secrets out of everything that is written.
    """

    cluster: str
    scrubber: Scrubber

    @property
    def source(self) -> str:
        """The `ce-source` of the bridge's own observations."""
        return f"//ray/{self.cluster}"

    def identity(self, kind: str, *key: JsonValue) -> str:
        """Return the id of a fact by its kind and natural key; secret or not, it is a digest."""
        text = json.dumps([kind, self.cluster, *key], sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]

    def job_id(self, job: Mapping[str, Any]) -> str:
        """Return the id of a job's state, the same from a poll and from the export log.

        The start is a part of it: a restarted head takes a submission id for a second job.
        """
        return self.identity(
            JOB_OBSERVED,
            job_subject(job),
            job.get("start_time"),
            job.get("status"),
            # Ray shows 0 for a driver that still runs.
            job.get("end_time") or None,
            job.get("driver_exit_code"),
        )

    def node_id(self, node: Mapping[str, Any]) -> str:
        """Return the id of a node's state."""
        return self.identity(
            NODE_OBSERVED, node.get("node_id"), node.get("state"), node.get("end_time_ms") or None
        )

    def job(self, job: Mapping[str, Any], at: datetime, via: str) -> Message:
        """Write that a job was seen in a state.

        Args:
            job: As Ray's Jobs API shows it.
            at: When it was seen.
            via: `poll` or `export_log`.
        """
        status = _text(job.get("status"))
        subject = job_subject(job)
        return self._message(
            JOB_OBSERVED,
            self.job_id(job),
            subject,
            at,
            {"observed_at": stamp(at), "via": via, "job": dict(job)},
            Worth.END if status in ENDED else Worth.STATE,
            Reported("job", subject, status, job_life(job)),
        )

    def node(self, node: Mapping[str, Any], at: datetime) -> Message:
        """Write that a node was seen in a state."""
        state, subject = _text(node.get("state")), _text(node.get("node_id"))
        return self._message(
            NODE_OBSERVED,
            self.node_id(node),
            subject,
            at,
            {"observed_at": stamp(at), "node": dict(node)},
            Worth.END if state == "DEAD" else Worth.STATE,
            Reported("node", subject, state),
        )

    def unknown(self, last: Reported, at: datetime, ids: Sequence[str]) -> Message:
        """Build the message that a cluster answers but no longer lists an object.

        Args:
            last: Its last reported state.
            at: When it was missing.
            ids: The ids of all its reports, so that a second loss is another fact.
        """
        kind = JOB_UNKNOWN if last.part == "job" else NODE_UNKNOWN
        data: dict[str, Any] = {
            "observed_at": stamp(at),
            last.part: last.subject,
            "last_state": last.state,
            "start_time": int(last.life) if last.life.isdigit() else None,
            "reason": "the cluster answers and no longer lists it, as after a restart of its head;"
            " whether and how it ended is unknown",
        }
        identity = self.identity(kind, last.subject, *sorted(ids))
        return self._message(kind, identity, last.subject, at, data, Worth.END)

    def reach(self, part: str, since: datetime, at: datetime, reason: str) -> Message:
        """Write that a part of the cluster stopped answering, or answers again.

        Args:
            part: What is asked for: `jobs` or `nodes`.
            since: When it stopped answering.
            at: When that was seen; for an answer, when it came.
            reason: Why there is no answer; empty when there is one.
        """
        kind = UNREACHABLE if reason else REACHABLE
        data: dict[str, Any] = {
            "observed_at": stamp(at), "part": part, "unreachable_since": stamp(since),
        }  # fmt: skip
        if reason:
            data["reason"] = reason
        identity = self.identity(kind, part, stamp(since))
        return self._message(kind, identity, self.cluster, at, data, Worth.END)

    def cluster_event(self, line: Mapping[str, Any], at: datetime) -> Message:
        """Write a line of a file of events that the head keeps, such as a removed node."""
        fields = line.get("custom_fields")
        named = fields if is_object(fields) else {}
        subject = named.get("submission_id") or named.get("node_id") or line.get("label")
        loud = line.get("severity") in ("ERROR", "FATAL") or line.get("label") == "RAY_NODE_REMOVED"
        return self._message(
            CLUSTER_EVENT,
            self.identity(CLUSTER_EVENT, line.get("event_id") or canonical(line)),
            str(subject or line.get("source_type") or self.cluster),
            at,
            {"observed_at": stamp(at), "event": dict(line)},
            Worth.END if loud else Worth.STATE,
        )

    def exported(self, event: Mapping[str, Any], received: datetime) -> Message:
        """Write one event that a cluster's aggregator sent, as it is.

        Its id is Ray's own, in hexadecimal digits, and its source names Ray's session.
        """
        kind = str(event.get("eventType") or "UNKNOWN")
        session = str(event.get("sessionName") or "")
        identity = _hexadecimal(event.get("eventId")) or self.identity(EVENT, canonical(event))
        at = event.get("timestamp")
        return self._message(
            EVENT,
            identity,
            kind,
            at if isinstance(at, str) and at else received,
            dict(event),
            _WORTH.get(kind, Worth.DETAIL),
            source=f"{self.source}/{session}" if session else self.source,
        )

    def note(self, kind: str, at: datetime, data: Mapping[str, Any], *key: str) -> Message:
        """Build a message of the bridge about itself."""
        whole: dict[str, Any] = {"observed_at": stamp(at), **data}
        # That it lives is said again soon; that something was lost is said once.
        worth = Worth.DETAIL if kind == ALIVE else Worth.END
        return self._message(kind, self.identity(kind, *key), self.cluster, at, whole, worth)

    def _message(
        self,
        kind: str,
        identity: str,
        subject: str,
        at: datetime | str,
        data: Mapping[str, Any],
        worth: Worth,
        reported: Reported | None = None,
        *,
        source: str = "",
    ) -> Message:
        body = self._body(data)
        if len(body) > DATA_BYTES_MAX:
            # Named all the same: that it happened matters more than its words.
            digest = hashlib.sha256(body).hexdigest()
            body = _encoded({"too_long_bytes": len(body), "sha256": digest})
        attributes = {
            "ce-specversion": "1.0",
            "ce-id": identity,
            "ce-type": kind,
            "ce-source": self._short(source or self.source),
            "ce-time": self._short(at if isinstance(at, str) else stamp(at)),
            "content-type": "application/json; charset=utf-8",
            "ce-subject": self._short(subject),
        }
        return Message(body, attributes, worth, reported)

    def _body(self, data: Mapping[str, Any]) -> bytes:
        try:
            clean, _ = scrub_json(self.scrubber, dict(data))
        except (ValueError, TypeError, RecursionError) as error:
            # Nested too deeply to be searched for secrets: nothing of it leaves.
            return _encoded({"not_scrubbed": type(error).__name__})
        return _encoded(clean)

    def _short(self, text: str) -> str:
        clean = scrub(self.scrubber, text).text.encode("utf-8", "replace")
        return clean[:ATTRIBUTE_BYTES_MAX].decode("utf-8", "ignore")


def is_object(value: object) -> TypeGuard[dict[str, Any]]:
    """Return whether something that was read from JSON is an object."""
    return isinstance(value, dict)


def is_array(value: object) -> TypeGuard[list[Any]]:
    """Return whether something that was read from JSON is an array."""
    return isinstance(value, list)


def job_subject(job: Mapping[str, Any]) -> str:
    """Return the name of a job: its submission id, or the job id of an unsubmitted driver."""
    return _text(job.get("submission_id") or job.get("job_id") or "unnamed")


def job_life(job: Mapping[str, Any]) -> str:
    """Return a job's start in milliseconds, which distinguishes jobs with the same name."""
    return str(job.get("start_time") or "")


def stamp(at: datetime) -> str:
    """Return a time as CloudEvents writes it.

    >>> stamp(datetime(2026, 11, 20, 23, 59, 45, tzinfo=UTC))
    '2026-11-20T23:59:45Z'
    """
    return at.astimezone(UTC).isoformat().removesuffix("+00:00") + "Z"


def canonical(value: JsonValue | Mapping[str, Any]) -> str:
    """Return one text for equal structures; those nested beyond all reason share one."""
    try:
        return json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)
    except RecursionError:
        return "nested too deeply"


def _text(value: object) -> str:
    # Half a surrogate pair is no character, and can be in JSON all the same.
    return str(value).encode("utf-8", "replace").decode()


def _encoded(value: JsonValue) -> bytes:
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except ValueError:
        # NaN and infinities are no JSON; as texts they are.
        value = json.loads(json.dumps(value), parse_constant=str)
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "replace")


def _hexadecimal(event_id: object) -> str:
    if not isinstance(event_id, str):
        return ""
    try:
        found = base64.b64decode(event_id, validate=True)
    except (binascii.Error, ValueError):
        return ""
    return found.hex() if len(found) <= _EVENT_ID_BYTES_MAX else ""
