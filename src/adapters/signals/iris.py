"""Iris jobs as a poller saw them: a job's state may stay while tasks change."""

from datetime import datetime
from typing import Annotated

from watchkeeper.adapters.signals.fields import (
    PART,
    PARTS,
    Flag,
    Moment,
    Names,
    Outside,
    Text,
    Whole,
    after_epoch,
    read_as,
)
from watchkeeper.adapters.signals.making import Clue, Said, signal_of
from watchkeeper.adapters.signals.message import CloudEvent, Message
from watchkeeper.domain.values.observation.signals import Parsed, Poison, SignalKind

SOURCE = "iris"

_PARTS_MAX = 8
_SIBLING = "COSCHED_FAILED"


class _Time(Outside):
    epoch_ms: Whole = None


class _Attempt(Outside):
    attempt_uid: Text = None
    worker_id: Text = None
    state: Text = None
    exit_code: Whole = None
    error: Text = None
    is_worker_failure: Flag = False
    finished_at: Annotated[_Time, PART] = _Time()


class _Thing(Outside):
    """A job or a task."""

    job_id: Text = None
    task_id: Text = None
    state: Text = None
    exit_code: Whole = None
    error: Text = None
    failure_count: Whole = None
    preemption_count: Whole = None
    task_state_counts: Names = {}
    pending_reason: Text = None
    current_attempt_id: Whole = None
    worker_id: Text = None
    started_at: Annotated[_Time, PART] = _Time()
    finished_at: Annotated[_Time, PART] = _Time()
    attempts: Annotated[tuple[_Attempt, ...], PARTS] = ()


class _Seen(Outside):
    observed_at: Moment = None
    job: Annotated[_Thing, PART] = _Thing()
    task: Annotated[_Thing, PART] = _Thing()


def parse_job(message: Message, event: CloudEvent) -> Parsed:
    """Read a job: its counters show retries that its state does not show."""
    seen = read_as(_Seen, message.body)
    job = seen.job
    name, state = job.job_id or event.subject, _plain(job.state)
    if not name or not state:
        return Poison("an Iris job without id or state")
    counters = (job.failure_count or 0, job.preemption_count or 0)
    why = job.error or job.pending_reason or ""
    # A job that was retried has changed since it began.
    began = None if any(counters) else _began(job)
    said = Said(
        source=SOURCE,
        key=(event.source, name, state, *counters),
        kind=SignalKind.JOB_STATE,
        subject=name,
        summary=f"{name} is {state}, {counters[0]} failures, {counters[1]} preemptions: {why}",
        at=_ended(job) or began or seen.observed_at or event.time,
        clues=_job_clues(name),
        facts={
            "status": state,
            "failures": counters[0],
            "preemptions": counters[1],
            "tasks": ", ".join(f"{one} {n}" for one, n in sorted(job.task_state_counts.items())),
            "pending": job.pending_reason,
            "error": job.error,
            "exit_code": job.exit_code,
        },
    )
    return (signal_of(message, said),)


def parse_task(message: Message, event: CloudEvent) -> Parsed:
    """Read a task: the outcome of its last attempt is in its attempts, not in its state."""
    seen = read_as(_Seen, message.body)
    task = seen.task
    name, state = task.task_id or event.subject, _plain(task.state)
    if not name or not state:
        return Poison("an Iris task without id or state")
    last = task.attempts[-1] if task.attempts else _Attempt()
    attempt = _plain(last.state)
    says = f"{name} is {state}"
    if attempt:
        says += f" after an attempt that is {attempt}"
    if state == _SIBLING or attempt == _SIBLING:
        says += "; it was well, a sibling failed"
    why = task.error or last.error or task.pending_reason or ""
    worker = last.worker_id or task.worker_id
    clues: list[Clue] = [*_job_clues(name), ("worker", worker)]
    ended = after_epoch(last.finished_at.epoch_ms, milliseconds=True)
    said = Said(
        source=SOURCE,
        key=(event.source, name, last.attempt_uid, state, attempt, task.current_attempt_id),
        kind=SignalKind.TASK_STATE,
        subject=name,
        summary=f"{says}: {why}" if why else says,
        at=_ended(task) or ended or seen.observed_at or event.time,
        clues=clues,
        facts={
            "status": state,
            "attempt": last.attempt_uid,
            "attempt_state": attempt,
            "worker": worker,
            "worker_failed": "yes" if last.is_worker_failure else None,
            "exit_code": last.exit_code if attempt else task.exit_code,
            "pending": task.pending_reason,
        },
    )
    return (signal_of(message, said),)


def _plain(state: str | None) -> str:
    return (state or "").removeprefix("JOB_STATE_").removeprefix("TASK_STATE_")


def _ended(thing: _Thing) -> datetime | None:
    return after_epoch(thing.finished_at.epoch_ms, milliseconds=True)


def _began(thing: _Thing) -> datetime | None:
    return after_epoch(thing.started_at.epoch_ms, milliseconds=True)


def _job_clues(name: str) -> list[Clue]:
    """Return the job and those above it: what runs on the machines is a child of what was launched.

    >>> _job_clues("/ada/run/train/3")
    [('submission', '/ada/run/train'), ('submission', '/ada/run')]
    """
    parts = [part for part in name.split("/") if part][:_PARTS_MAX]
    # A last part in digits is a task.
    jobs = parts[:-1] if parts and parts[-1].isdecimal() else parts
    return [("submission", "/" + "/".join(jobs[:end])) for end in range(len(jobs), 1, -1)]
