"""A stand-in for a bucket that sends notifications about its objects.

Run it as `python -m watchkeeper.adapters.demo.bucket`. It follows a folder of checkpoints, and
publishes the notifications of a Cloud Storage bucket with the same objects: OBJECT_FINALIZE for
each new or changed object, and OBJECT_DELETE for each deleted object.
"""

import argparse
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from google.cloud import pubsub_v1

from watchkeeper import clock

LOOK_EVERY = timedelta(milliseconds=100)
PUBLISH_LIMIT_S = 10.0


@dataclass(frozen=True, slots=True)
class Object:
    """An object, as found in the folder.

    Attributes:
        name: Its name in the bucket.
        generation: Time of the last change in nanoseconds. It grows with each write.
        size: Size in bytes.
    """

    name: str
    generation: int
    size: int


def look(folder: Path, prefix: str) -> dict[str, Object]:
    """Return a folder's objects by name. Objects that are being renamed or removed are left out."""
    return {found.name: found for found in _objects(folder, prefix)}


def _objects(folder: Path, prefix: str) -> Iterator[Object]:
    for path in folder.glob("step-*/**/*"):
        try:
            seen = path.stat()
        except FileNotFoundError:
            continue  # Removed after the listing.
        if path.is_dir() or path.name.startswith("."):
            continue
        name = f"{prefix}/{path.relative_to(folder).as_posix()}"
        yield Object(name, seen.st_mtime_ns, seen.st_size)


def changes(before: Mapping[str, Object], now: Mapping[str, Object]) -> list[tuple[str, Object]]:
    """Return a bucket's notifications between two listings, as event types with their objects."""
    gone = [("OBJECT_DELETE", one) for name, one in before.items() if name not in now]
    new = [("OBJECT_FINALIZE", one) for name, one in now.items() if before.get(name) != one]
    # The commit object is written last, so its notification comes last.
    new.sort(key=lambda change: change[1].name.endswith("/metadata.json"))
    return gone + new


def message(bucket: str, event: str, one: Object) -> tuple[bytes, dict[str, str]]:
    """Return data and attributes of a notification, as Cloud Storage documents them."""
    at = datetime.fromtimestamp(one.generation / 1e9, UTC)
    when = (at if event == "OBJECT_FINALIZE" else clock.now()).isoformat()
    attributes = {
        "notificationConfig": f"projects/_/buckets/{bucket}/notificationConfigs/1",
        "eventType": event,
        "payloadFormat": "JSON_API_V1",
        "bucketId": bucket,
        "objectId": one.name,
        "objectGeneration": str(one.generation),
        "eventTime": when,
    }
    resource = {
        "kind": "storage#object",
        "name": one.name,
        "bucket": bucket,
        "generation": str(one.generation),
        "size": str(one.size),
        "updated": when,
    }
    return json.dumps(resource).encode(), attributes


def main(arguments: Sequence[str] | None = None) -> int:
    """Follow a folder until the parent process ends."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--folder", required=True, type=Path)
    parser.add_argument("--bucket", required=True)
    parser.add_argument("--prefix", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--parent-pid", required=True, type=int)
    options = parser.parse_args(arguments)
    client: Any = pubsub_v1.PublisherClient()
    known = look(options.folder, options.prefix)
    while os.getppid() == options.parent_pid:
        now = look(options.folder, options.prefix)
        sent = [
            client.publish(options.topic, data, **attributes)
            for event, one in changes(known, now)
            for data, attributes in [message(options.bucket, event, one)]
        ]
        for future in sent:
            future.result(timeout=PUBLISH_LIMIT_S)
        known = now
        clock.sleep(LOOK_EVERY)
    return 0


if __name__ == "__main__":
    sys.exit(main())
