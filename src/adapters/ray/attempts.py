"""The outcome of a Ray job's tasks and actors, from the dashboard's answers."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from ray.job_submission import JobSubmissionClient

from watchkeeper.adapters.ray.dashboard import listed
from watchkeeper.domain.values.basic import JobFacts, JobState
from watchkeeper.domain.values.observation.sources import ATTEMPTS_MAX, AttemptFacts, AttemptState

ROWS_MAX = 1_000
"""Maximum rows of one list; more failed tasks than this add no information."""

MESSAGE_MAX = 2_000
"""Characters kept of Ray's sentence: its end, which holds the error of a traceback."""

DRIVER = "driver"
"""The task name for a job's entrypoint."""

_JOB = {
    JobState.PENDING: AttemptState.PENDING,
    JobState.RUNNING: AttemptState.RUNNING,
    JobState.SUCCEEDED: AttemptState.SUCCEEDED,
    JobState.FAILED: AttemptState.FAILED,
    JobState.STOPPED: AttemptState.KILLED,
}
_ACTOR = {
    "ALIVE": AttemptState.RUNNING,
    "PENDING_CREATION": AttemptState.PENDING,
    "DEPENDENCIES_UNREADY": AttemptState.PENDING,
    "RESTARTING": AttemptState.PENDING,
}
_DEAD = {
    "OUT_OF_SCOPE": AttemptState.SUCCEEDED,
    "REF_DELETED": AttemptState.SUCCEEDED,
    "RAY_KILL": AttemptState.KILLED,
    "NODE_DIED": AttemptState.WORKER_FAILED,
}
"""Why an actor ended, by Ray's own reason; every other one is a failure."""

_NODE_LOST = frozenset({"NODE_DIED", "LOCAL_RAYLET_DIED", "NODE_PREEMPTED"})
_MEMORY = frozenset({"OUT_OF_MEMORY", "NODE_OUT_OF_MEMORY"})
_CANCELLED = frozenset({"TASK_CANCELLED", "ACTOR_CANCELLED"})


def read_attempts(client: JobSubmissionClient, job: JobFacts) -> tuple[AttemptFacts, ...]:
    """Return the outcome of a job's entrypoint, tasks and actors.

    Tasks that succeeded are left out: a data pipeline has millions.

    Args:
        client: Ray's client.
        job: Ray's description of the job.
    """
    driver = [driver_of(job)] if job.state in _JOB else []
    ray_job = client.get_job_info(job.submission_id).job_id
    if not ray_job:
        # Without a driver of Ray's there are no tasks of Ray's.
        return tuple(driver)
    names = node_names(listed(client, "nodes", ROWS_MAX, {}))
    actors = listed(client, "actors", ROWS_MAX, {"job_id": ray_job})
    tasks = [
        row
        for state in ("FAILED", "RUNNING", "PENDING_NODE_ASSIGNMENT")
        for row in listed(client, "tasks", ROWS_MAX, {"job_id": ray_job, "state": state})
    ]
    return ordered([*driver, *actors_of(actors, names), *tasks_of(tasks, actors, names)])


def driver_of(job: JobFacts) -> AttemptFacts:
    """Return the attempt of a job's entrypoint."""
    return AttemptFacts(
        task=DRIVER,
        state=_JOB[job.state],
        started_at=job.started_at,
        ended_at=job.ended_at,
        exit_code=job.exit_code,
        signal=job.signal,
        message=job.message[-MESSAGE_MAX:],
    )


def node_names(rows: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return the display name of each node: its name and the beginning of its id."""
    return {str(row["node_id"]): node_name(row) for row in rows}


def node_name(row: Mapping[str, Any]) -> str:
    """Return the display name of a node; several may share a machine and so a name.

    >>> node_name({"node_id": "05b735c9a23b", "node_name": "10.0.0.1"})
    '10.0.0.1 (05b735c9)'
    """
    return f"{row.get('node_name') or row.get('node_ip') or 'node'} ({str(row['node_id'])[:8]})"


def actors_of(rows: Iterable[Mapping[str, Any]], names: Mapping[str, str]) -> list[AttemptFacts]:
    """Return the actors of a job; one that Ray restarted has a later attempt.

    Ray reports no times for actors.
    """
    found: list[AttemptFacts] = []
    for row in rows:
        cause: dict[str, dict[str, Any]] = row.get("death_cause") or {}
        kind = next(iter(cause), "")
        context = cause.get(kind, {})
        reason = str(context.get("reason") or "").upper()
        memory = kind == "oom_context" or reason in _MEMORY
        lost = reason in _NODE_LOST or kind == "node_died_error_context"
        state = _ACTOR.get(str(row["state"]), AttemptState.UNKNOWN)
        if row["state"] == "DEAD":
            state = _DEAD.get(reason, AttemptState.FAILED if cause else AttemptState.SUCCEEDED)
        if context.get("preempted"):
            state = AttemptState.PREEMPTED
        found.append(
            AttemptFacts(
                task=_actor_name(row),
                attempt=int(row.get("num_restarts") or 0),
                state=state,
                oom=True if memory else None,
                node=names.get(str(row.get("node_id") or ""), ""),
                worker_failure=True if lost else None,
                message=_end(str(context.get("error_message") or "")),
            )
        )
    return found


def tasks_of(
    rows: Iterable[Mapping[str, Any]],
    actors: Iterable[Mapping[str, Any]],
    names: Mapping[str, str],
) -> list[AttemptFacts]:
    """Return the attempts of tasks; an actor's method is named with its actor."""
    known = {row["actor_id"]: _actor_name(row) for row in actors}
    found: list[AttemptFacts] = []
    for row in rows:
        if row.get("type") == "ACTOR_CREATION_TASK" and row["state"] != "FAILED":
            continue  # The actor itself says so.
        error = str(row.get("error_type") or "").upper()
        actor = known.get(row.get("actor_id") or "", "")
        own = f"{row['name']} ({str(row['task_id'])[:8]})"
        found.append(
            AttemptFacts(
                task=f"{actor}: {row['name']}" if actor else own,
                attempt=int(row.get("attempt_number") or 0),
                state=_task_state(str(row["state"]), error),
                started_at=_time(row.get("start_time_ms")),
                ended_at=_time(row.get("end_time_ms")),
                oom=True if error in _MEMORY else None,
                memory_asked_bytes=_memory(row.get("required_resources") or {}),
                node=names.get(str(row.get("node_id") or ""), ""),
                worker_failure=True if error in _NODE_LOST else None,
                message=_end(f"{error}: {row.get('error_message') or ''}" if error else ""),
            )
        )
    return found


def _task_state(state: str, error: str) -> AttemptState:
    if state == "FAILED":
        if error in _CANCELLED:
            return AttemptState.KILLED
        return AttemptState.WORKER_FAILED if error in _NODE_LOST else AttemptState.FAILED
    if state == "FINISHED":
        return AttemptState.SUCCEEDED
    if state.startswith("PENDING"):
        return AttemptState.PENDING
    return AttemptState.RUNNING if state.startswith("RUNNING") else AttemptState.UNKNOWN


def ordered(found: Sequence[AttemptFacts]) -> tuple[AttemptFacts, ...]:
    """Return attempts in time order, those without a time last; what failed first stays."""
    never = datetime.max.replace(tzinfo=UTC)

    def when(one: AttemptFacts) -> datetime:
        return one.ended_at or one.started_at or never

    alive = (AttemptState.RUNNING, AttemptState.PENDING, AttemptState.SUCCEEDED)
    by_worth = sorted(found, key=lambda one: (one.state in alive, when(one)))
    return tuple(sorted(by_worth[:ATTEMPTS_MAX], key=when))


def _actor_name(row: Mapping[str, Any]) -> str:
    name = str(row.get("name") or row.get("class_name") or "actor")
    return name if row.get("name") else f"{name} ({str(row['actor_id'])[:8]})"


def _end(text: str) -> str:
    return text.strip()[-MESSAGE_MAX:]


def _memory(resources: Mapping[str, Any]) -> int | None:
    asked = resources.get("memory")
    return int(asked) if isinstance(asked, int | float) else None


def _time(milliseconds: object) -> datetime | None:
    if not isinstance(milliseconds, int | float) or milliseconds <= 0:
        return None
    return datetime.fromtimestamp(milliseconds / 1000, UTC)
