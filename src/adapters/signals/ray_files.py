"""Ray's event files on the head, as the agent ships them.

They come in three shapes with two types of time.
"""

import re
from collections.abc import Mapping
from typing import Annotated

from pydantic import JsonValue

from watchkeeper.adapters.signals.fields import PART, Names, Outside, Text, Whole, read_as, text_of
from watchkeeper.adapters.signals.log_base import SOURCE, LogLine
from watchkeeper.adapters.signals.making import Said, signal_of
from watchkeeper.adapters.signals.message import Message
from watchkeeper.domain.values.observation.signals import Ignored, Parsed, Poison, SignalKind

_STATUS = re.compile(r"with a status ([A-Z]{1,20})\b")
_SOURCES = frozenset({"GCS", "JOBS", "EXPORT_SUBMISSION_JOB"})


class _Job(Outside):
    submission_job_id: Text = None
    status: Text = None
    message: Text = None
    error_type: Text = None
    driver_exit_code: Whole = None
    metadata: Names = {}


class _FileEvent(Outside):
    source_type: Text = None
    label: Text = None
    message: Text = None
    custom_fields: Names = {}
    event_data: Annotated[_Job, PART] = _Job()


def is_event(payload: Mapping[str, JsonValue]) -> bool:
    """Return whether a log entry holds a line of a Ray event file."""
    return text_of(payload.get("source_type")) in _SOURCES and "event_id" in payload


def parse(message: Message, line: LogLine, payload: JsonValue) -> Parsed:
    """Read a line of `event_GCS.log`, `event_JOBS.log` or of the exported submissions.

    The head wrote it: the entry's machine is no clue.
    """
    event = read_as(_FileEvent, payload)
    if event.label == "RAY_NODE_REMOVED":
        return _of_node(message, line, event)
    if event.source_type == "JOBS":
        found = _STATUS.search((event.message or "")[:4000])
        if found is None:
            return Ignored("a line of Ray's jobs without a status")
        job = _Job(
            submission_job_id=event.custom_fields.get("submission_id"),
            status=found[1],
            message=event.message,
        )
        return _of_job(message, line, job)
    if event.source_type == "EXPORT_SUBMISSION_JOB":
        return _of_job(message, line, event.event_data)
    return Ignored("another line of Ray's event files")


def _of_node(message: Message, line: LogLine, event: _FileEvent) -> Parsed:
    node = event.custom_fields.get("node_id")
    if not node:
        return Poison("RAY_NODE_REMOVED without node_id")
    said = Said(
        source=SOURCE,
        key=line.key,
        kind=SignalKind.NODE_LOST,
        subject=node,
        summary=f"Ray removed node {node[:12]}: {event.message or ''}",
        at=line.at,
        clues=[("node", node)],
        facts={"cluster": line.cluster, "address": event.custom_fields.get("ip")},
    )
    return (signal_of(message, said),)


def _of_job(message: Message, line: LogLine, job: _Job) -> Parsed:
    if not job.submission_job_id or not job.status:
        return Poison("a job of Ray's event files without submission id or status")
    said = Said(
        source=SOURCE,
        key=line.key,
        kind=SignalKind.JOB_STATE,
        subject=job.submission_job_id,
        summary=f"{job.submission_job_id} is {job.status}: {job.message or ''}",
        at=line.at,
        clues=[("submission", job.submission_job_id), ("run", job.metadata.get("run"))],
        facts={
            "status": job.status,
            "error_type": job.error_type,
            "exit_code": job.driver_exit_code,
        },
    )
    return (signal_of(message, said),)
