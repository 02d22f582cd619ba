"""Follows the event files that a Ray head writes.

    <session>/logs/export_events/event_EXPORT_SUBMISSION_JOB.log    RAY_enable_export_api_write=1
    <session>/logs/events/event_*.log                               always

The first holds the states of submitted jobs, the second events of the cluster; both hold one JSON
object a line. A file is identified by its first line, whose id is random; its name and inode do not
matter. It is therefore followed through a rotation, and a new file under an old name counts as new.
The lines read and the position are stored in one transaction. A file is its own spool.
"""

import hashlib
import json
import logging
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from watchkeeper import clock
from watchkeeper.adapters.ray.messages import UNREADABLE, Message, Worth, Writer, is_object
from watchkeeper.adapters.ray.spool import Spool
from watchkeeper.domain.values.json_text import parse_json

CHUNK_BYTES = 4_000_000
"""Bytes read at once. A longer line is not Ray's: its messages have at most 20,000 characters."""

_QUOTED_CHARS = 500
"""Of a line that cannot be read."""

_CURSOR = "cursor/"
_JOBS = "EXPORT_SUBMISSION_JOB"
_BEGINS = '{"event_id"'
"""The start of each line of the export log, to find the next line after a torn one."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Followed:
    """The result of one read of the files.

    Attributes:
        kept: Messages that were new.
        unreadable: Lines that are no JSON object.
        full: There was no room in the spool; the rest stays in the files.
    """

    kept: int
    unreadable: int
    full: bool


def follow(session: Path, spool: Spool, writer: Writer) -> Followed:
    """Read the new lines in all files of a session and of earlier sessions.

    Args:
        session: Ray's folder of a session; usually `/tmp/ray/session_latest`, a link that leads to
            another folder once the head was restarted.
        spool: Stores the messages and how far each file was read.
        writer: Writes the messages.

    Raises:
        SpoolProblem: The spool cannot be written.
        OSError: A file cannot be read.
    """
    cursors: dict[str, dict[str, Any]] = {
        name: json.loads(value) for name, value in spool.notes(_CURSOR).items()
    }
    now = session.resolve()
    # A head that was restarted leaves the last lines of its old session behind the link's back.
    sessions = {Path(cursor["session"]) for cursor in cursors.values()} | {now}
    gone = [name for name, cursor in cursors.items() if not Path(cursor["session"]).is_dir()]
    if gone:
        spool.offer((), dict.fromkeys(gone))
    kept = unreadable = 0
    for folder in sorted(sessions, key=lambda each: (each == now, each)):
        for path in _files(folder):
            read = _follow_file(path, folder, cursors, spool, writer)
            kept, unreadable = kept + read.kept, unreadable + read.unreadable
            if read.full:
                return Followed(kept, unreadable, True)
    return Followed(kept, unreadable, False)


def unreadable(session: Path) -> str:
    """Return why the files of a session cannot be followed; empty if they can."""
    logs = session / "logs"
    if not logs.is_dir():
        return f"{logs} does not exist"
    for folder in (logs, logs / "export_events", logs / "events"):
        if folder.is_dir() and not os.access(folder, os.R_OK | os.X_OK):
            return f"{folder} may not be read by this user"
    return ""


def _files(session: Path) -> list[Path]:
    """Return the files of a session, in the order in which they were written."""
    found: list[tuple[float, Path]] = []
    for pattern in (f"export_events/event_{_JOBS}.log*", "events/event_*.log*"):
        for path in (session / "logs").glob(pattern):
            try:
                found.append((path.stat().st_mtime, path))
            except FileNotFoundError:
                continue  # Rotated away just now; the next look finds it by its first line.
    return [path for _, path in sorted(found)]


def _follow_file(
    path: Path,
    session: Path,
    cursors: Mapping[str, Mapping[str, Any]],
    spool: Spool,
    writer: Writer,
) -> Followed:
    kept = unreadable = 0
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return Followed(0, 0, False)
    with file:
        first = file.readline(CHUNK_BYTES)
        if not first.endswith(b"\n"):
            return Followed(0, 0, False)
        name = _CURSOR + hashlib.sha256(first).hexdigest()[:32]
        offset = int(cursors.get(name, {}).get("offset", 0))
        size = file.seek(0, 2)
        # Shorter than what was read: it was truncated. Read again, as ids show what is new.
        offset = 0 if offset > size else offset
        file.seek(offset)
        while chunk := file.read(CHUNK_BYTES):
            whole = chunk.rfind(b"\n") + 1
            if not whole:
                if len(chunk) < CHUNK_BYTES:
                    break  # A line that is being written.
                whole = len(chunk)
            messages = list(_messages(chunk[:whole], path, writer))
            offset += whole
            cursor = json.dumps({"offset": offset, "session": str(session)})
            offered = spool.offer(messages, {name: cursor}, all_of=Worth.DETAIL)
            if offered.refused:
                return Followed(kept, unreadable, True)
            kept += offered.taken
            unreadable += sum(message.type == UNREADABLE for message in messages)
            file.seek(offset)
    return Followed(kept, unreadable, False)


def _messages(chunk: bytes, path: Path, writer: Writer) -> Iterator[Message]:
    for raw in chunk.split(b"\n"):
        line = raw.decode("utf-8", "replace").strip()
        if not line:
            continue
        found = _record(line)
        # A writer that died in the middle of a line leaves its beginning before the next one.
        torn, whole = line, found
        if found is None and (at := line.rfind(_BEGINS)) > 0:
            torn, whole = line[:at], _record(line[at:])
        if found is None:
            logger.warning("%s: a line that is not a JSON object: %r", path, torn[:80])
            yield _unreadable(torn, path, writer)
        if whole is not None:
            yield _message(whole, writer)


def _record(line: str) -> dict[str, Any] | None:
    try:
        found = parse_json(line)
    except ValueError:
        return None
    return found if is_object(found) else None


def _message(record: Mapping[str, Any], writer: Writer) -> Message:
    at = _time(record.get("timestamp"))
    event = record.get("event_data")
    if record.get("source_type") == _JOBS and is_object(event):
        return writer.job(job_of(event), at, "export_log")
    return writer.cluster_event(record, at)


def _unreadable(line: str, path: Path, writer: Writer) -> Message:
    digest = hashlib.sha256(line.encode("utf-8", "replace")).hexdigest()
    details = {"file": path.name, "sha256": digest, "begins": line[:_QUOTED_CHARS]}
    return writer.note(UNREADABLE, clock.now(), details, path.name, digest)


def job_of(event: Mapping[str, Any]) -> dict[str, Any]:
    """Return the Jobs API row that matches a line of the export log.

    The export log writes numbers of 64 bits as texts, leaves out what is not set, and holds the
    runtime environment as a text; the rest is the same.
    """
    try:
        runtime_env = parse_json(event.get("runtime_env_json") or "{}")
    except ValueError:
        runtime_env = event.get("runtime_env_json")
    return {
        "type": "SUBMISSION",
        "job_id": None,
        "submission_id": event.get("submission_job_id"),
        "driver_info": None,
        "status": event.get("status"),
        "entrypoint": event.get("entrypoint"),
        "message": event.get("message"),
        "error_type": event.get("error_type"),
        "start_time": _integer(event.get("start_time")),
        "end_time": _integer(event.get("end_time")),
        "metadata": event.get("metadata") or {},
        "runtime_env": runtime_env,
        "driver_agent_http_address": event.get("driver_agent_http_address"),
        "driver_node_id": event.get("driver_node_id"),
        "driver_exit_code": event.get("driver_exit_code"),
    }


def _integer(value: object) -> int | None:
    return int(value) if isinstance(value, str | int) and str(value).isdigit() else None


def _time(seconds: object) -> datetime:
    """Return the time of a line; the two kinds of files write it as a number and as a text."""
    number = _integer(seconds)
    return clock.now() if number is None else datetime.fromtimestamp(number, UTC)
