"""Reads the log files of a Ray job's dead workers.

Ray copies what workers write into the driver's log while both live. When a worker is killed, its
last lines may not be copied yet. A driver may also disable copying. The node still has the file.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from ray.job_submission import JobSubmissionClient

from watchkeeper.adapters.ray.dashboard import HttpRefusal, get_text, listed
from watchkeeper.services import time_limit

logger = logging.getLogger(__name__)

WORKERS_MAX = 4
"""Maximum workers whose files are read: the first that failed, as they are the cause."""

LINES_MAX = 40
"""Lines read of each of their files."""

FILE_SECONDS = 3
"""How long the dashboard waits for one file; a lost node does not answer."""

_MARKS = (":job_id:", ":actor_name:", ":task_name:")
"""Lines by which Ray's own log monitor knows whose file it reads."""

_ROWS_MAX = 200
_WELL = frozenset({"OUT_OF_SCOPE", "REF_DELETED", "RAY_KILL"})
"""Intended ends of actors."""


def last_words(
    client: JobSubmissionClient, job: str, known: Sequence[str], lines_max: int
) -> tuple[str, ...]:
    """Return the last output of a job's failed workers that the driver's log lacks.

    Args:
        client: Ray's client.
        job: Ray's own id of the job.
        known: The lines of the driver's log.
        lines_max: The most lines.

    Returns:
        Lines, each with the name of who wrote it.
    """
    shown = "\n".join(known)
    found: list[str] = []
    for name, query in _failed(client, job)[:WORKERS_MAX]:
        for suffix in ("out", "err"):
            lines = time_limit.tail(_file(client, query, suffix), LINES_MAX)
            # Ray copies a line behind the name of its worker.
            new = [one for one in lines if one.strip() and one not in shown]
            found += [f"({name}) {one}" for one in new if not one.startswith(_MARKS)]
    return tuple(line[: time_limit.LINE_LENGTH_MAX] for line in found[-lines_max:])


def _failed(client: JobSubmissionClient, job: str) -> list[tuple[str, dict[str, Any]]]:
    """Return failed actors and tasks by name, first failures first, and how their file is found."""
    tasks = listed(client, "tasks", _ROWS_MAX, {"job_id": job, "state": "FAILED"})
    tasks.sort(key=lambda row: float(row.get("end_time_ms") or 0))
    actors = listed(client, "actors", _ROWS_MAX, {"job_id": job, "state": "DEAD"})
    found = [
        (str(row.get("name") or row["class_name"]), {"actor_id": row["actor_id"]})
        for row in actors
        if _died(row)
    ]
    return found + [
        (
            str(row["name"]),
            {"task_id": row["task_id"], "attempt_number": int(row.get("attempt_number") or 0)},
        )
        for row in tasks
        if row.get("type") == "NORMAL_TASK"
    ]


def _died(row: Mapping[str, Any]) -> bool:
    cause: dict[str, dict[str, Any]] = row.get("death_cause") or {}
    reasons = {str(context.get("reason") or "").upper() for context in cause.values()}
    return bool(cause) and not reasons & _WELL


def _file(client: JobSubmissionClient, query: Mapping[str, Any], suffix: str) -> str:
    """Return the end of one file; empty if its node or the file is gone."""
    options = {**query, "suffix": suffix, "lines": LINES_MAX, "timeout": FILE_SECONDS}
    try:
        return get_text(client, f"/api/v0/logs/file?{urlencode(options)}")
    except HttpRefusal as refusal:
        # This is an extra of the log: the driver's part is useful without it.
        logger.info("no file of %s: %s", query, " ".join(refusal.text.split())[:200])
        return ""
