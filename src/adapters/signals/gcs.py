"""Cloud Storage messages: objects written, replaced and deleted.

A checkpoint is committed when its `metadata.json` is written, after all its data.
"""

import re
from dataclasses import dataclass
from datetime import datetime, timedelta

from watchkeeper.adapters.signals.fields import Moment, Outside, Text, moment_of, read_as
from watchkeeper.adapters.signals.making import Said, signal_of
from watchkeeper.adapters.signals.message import Message
from watchkeeper.domain.values.observation.signals import Ignored, Parsed, Poison, SignalKind

SOURCE = "gcs"
COMMIT = "metadata.json"

_NAME_MAX = 1024
_STEP = re.compile(r"(?:(?P<root>.*)/)?(?P<step>step-[0-9]{1,18})/(?P<rest>.+)", re.DOTALL)
_NUMBER = re.compile(r"[0-9]{1,20}")
_TYPES = {
    "google.cloud.storage.object.v1.finalized": "OBJECT_FINALIZE",
    "google.cloud.storage.object.v1.deleted": "OBJECT_DELETE",
    "google.cloud.storage.object.v1.archived": "OBJECT_ARCHIVE",
    "google.cloud.storage.object.v1.metadataUpdated": "OBJECT_METADATA_UPDATE",
}


class _Resource(Outside):
    name: Text = None
    bucket: Text = None
    generation: Text = None
    updated: Moment = None
    time_deleted: Moment = None
    size: Text = None
    overwrote_generation: Text = None
    overwritten_by_generation: Text = None


@dataclass(frozen=True, slots=True)
class _Notice:
    what: str
    bucket: str
    name: str
    generation: str
    at: datetime | None
    size: str | None
    overwrote: str | None
    overwritten_by: str | None


def parse(message: Message) -> Parsed:
    """Read a bucket's notification, with or without a payload."""
    around = message.attributes
    resource = read_as(_Resource, message.body)
    if around.get("payloadFormat") != "NONE" and message.unreadable:
        return Poison(f"payloadFormat is not NONE, and the data is {message.unreadable}")
    pairs = (
        (resource.bucket, around.get("bucketId")),
        (resource.name, around.get("objectId")),
        (resource.generation, around.get("objectGeneration")),
    )
    if any(inside and outside and inside != outside for inside, outside in pairs):
        return Poison("attributes and payload name different objects")
    bucket, name, generation = (outside or inside or "" for inside, outside in pairs)
    return _judged(
        message,
        _Notice(
            what=around.get("eventType", ""),
            bucket=bucket,
            name=name,
            generation=generation,
            at=moment_of(around.get("eventTime")) or resource.time_deleted or resource.updated,
            size=resource.size,
            overwrote=around.get("overwroteGeneration"),
            overwritten_by=around.get("overwrittenByGeneration"),
        ),
    )


def parse_cloud_event(message: Message) -> Parsed:
    """Read the same fact from Eventarc."""
    event = message.event
    assert event is not None, "routed by the event's type"
    resource = read_as(_Resource, message.body)
    named = event.subject.removeprefix("objects/") if event.subject.startswith("objects/") else ""
    if resource.name and named and resource.name != named:
        return Poison("subject and data name different objects")
    return _judged(
        message,
        _Notice(
            what=_TYPES.get(event.type, event.type),
            bucket=resource.bucket or event.more.get("bucket", ""),
            name=resource.name or named,
            generation=resource.generation or "",
            at=event.time or resource.time_deleted or resource.updated,
            size=resource.size,
            overwrote=resource.overwrote_generation or event.more.get("overwrotegeneration"),
            overwritten_by=resource.overwritten_by_generation
            or event.more.get("overwrittenbygeneration"),
        ),
    )


def _judged(message: Message, notice: _Notice) -> Parsed:
    if not (notice.what and notice.bucket and notice.name):
        return Poison("no eventType, bucket or object name")
    if len(notice.name) > _NAME_MAX or not _NUMBER.fullmatch(notice.generation):
        return Poison("an object name or generation that cannot be")
    if notice.what not in _TYPES.values():
        return Ignored("an unknown event of an object")
    if notice.what == "OBJECT_METADATA_UPDATE":
        return Ignored("attributes of an object changed")
    found = _STEP.fullmatch(notice.name)
    if found is None:
        return Ignored("an object of no checkpoint")
    url = f"gs://{notice.bucket}/{notice.name}"
    folder = url[: len(url) - len(found["rest"]) - 1]
    if found["rest"] == COMMIT:
        return (signal_of(message, _of_commit(notice, url, folder, found["step"])),)
    if notice.what == "OBJECT_FINALIZE":
        return Ignored("part of a checkpoint")
    if notice.overwritten_by:
        return Ignored("part of a checkpoint was replaced")
    return (signal_of(message, _of_part(message, notice, url, folder, found["step"])),)


def _of_commit(notice: _Notice, url: str, folder: str, step: str) -> Said:
    if notice.what == "OBJECT_FINALIZE":
        kind, says = SignalKind.CHECKPOINT_WRITTEN, "is committed"
        if notice.overwrote:
            says = f"is committed again, over generation {notice.overwrote}"
    elif notice.overwritten_by:
        kind, says = SignalKind.CHECKPOINT_REPLACED, f"was replaced by {notice.overwritten_by}"
    else:
        kind, says = SignalKind.CHECKPOINT_GONE, "is complete no more: its metadata was deleted"
    return Said(
        source=SOURCE,
        key=(notice.bucket, notice.name, notice.generation, notice.what),
        kind=kind,
        subject=folder,
        summary=f"{step} {says}",
        # Eventarc reports milliseconds: both ways must give the same time.
        at=notice.at and notice.at.replace(microsecond=notice.at.microsecond // 1000 * 1000),
        clues=[("object", url)],
        facts={
            "step": step.removeprefix("step-"),
            "generation": notice.generation,
            "replaces": notice.overwrote,
            "replaced_by": notice.overwritten_by,
            "size": notice.size,
        },
    )


def _of_part(message: Message, notice: _Notice, url: str, folder: str, step: str) -> Said:
    """Report deleted checkpoint data once a minute: one delete is thousands of messages.

    Nothing in it may depend on which object came first. Its time is the minute's end, since the
    last of them may have gone then.
    """
    at = notice.at or message.published_at or message.received_at
    minute = at.replace(second=0, microsecond=0)
    return Said(
        source=SOURCE,
        key=(folder, "parts deleted", minute),
        kind=SignalKind.CHECKPOINT_GONE,
        subject=folder,
        summary=f"objects of {step} were deleted in the minute of {minute:%Y-%m-%d %H:%M} UTC",
        at=minute + timedelta(minutes=1),
        clues=[("object", url)],
        facts={"step": step.removeprefix("step-"), "first_seen": url},
    )
