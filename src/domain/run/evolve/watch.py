"""Folds checks and holders of the watch into a run's state."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple, assert_never

from watchkeeper.domain.run.bad_numbers import nan_since
from watchkeeper.domain.run.check_history import RECENT_CHECKS_MAX, past_check, with_checks
from watchkeeper.domain.run.checkpoints import (
    CHECKPOINTS_KEPT,
    Checkpoint,
    CheckpointEvent,
    CheckpointRejected,
    CheckpointsState,
    CheckpointValidated,
)
from watchkeeper.domain.run.envelope import Event
from watchkeeper.domain.run.evolve.ends import seen_unverified_at, with_progress_gained
from watchkeeper.domain.run.evolve.operator import with_rejection
from watchkeeper.domain.run.health import (
    FindingCleared,
    FindingEvent,
    FindingOpened,
    FindingRaised,
    HealthState,
)
from watchkeeper.domain.run.losses import with_losses
from watchkeeper.domain.run.open_questions import asked_again, closed, with_finding_cleared
from watchkeeper.domain.run.phases import Running, Stabilizing
from watchkeeper.domain.run.retries import with_retries, with_tries
from watchkeeper.domain.run.run import InvalidTransition, Run, last_instance_or_invalid
from watchkeeper.domain.run.watch import (
    CheckRecorded,
    HistoryLimitPassed,
    LastCheck,
    TrackerAnnounced,
    WatchEvent,
    WatchReleased,
    WatchTaken,
    with_holder,
)
from watchkeeper.domain.values.basic import JobState
from watchkeeper.domain.values.instance import is_moving
from watchkeeper.domain.values.observation.sources import TrainingPhase
from watchkeeper.domain.values.replacing import copied

Watched = WatchEvent | FindingEvent | CheckpointEvent
"""The events of checks and of the watch's holder."""


class SeenCheck(NamedTuple):
    """A check at its place in a run's history.

    Attributes:
        version: From 1.
        at: When it was true outside.
        data: The check, or an object with the same fields and values.
    """

    version: int
    at: datetime
    data: CheckRecorded


def evolve_watch(run: Run, data: Watched, event: Event) -> Run:
    """Apply one event of a watch.

    Raises:
        InvalidTransition: It names an instance other than the newest, or its token was used before.
    """
    match data:
        case CheckRecorded():
            return checked(run, (SeenCheck(event.version, event.at, data),))
        case WatchTaken():
            if data.token <= run.watch.token:
                raise InvalidTransition(f"token {data.token} was given before")
            watch = with_holder(
                run.watch,
                holder=data.holder,
                token=data.token,
                lease_until=data.lease_until,
                next_due=data.next_due,
            )
            return replace(run, watch=watch)
        case WatchReleased():
            return replace(run, watch=replace(run.watch, holder=None, lease_until=None))
        case TrackerAnnounced():
            links = {**run.watch.tracker_links, data.link.tracker_id: data.link}
            return replace(run, watch=replace(run.watch, tracker_links=links))
        case FindingOpened():
            findings = {**run.health.findings, data.kind: data}
            return asked_again(_with_findings(run, findings), data.kind)
        case FindingRaised():
            findings = {**run.health.findings, data.kind: _louder(data)}
            return asked_again(_with_findings(run, findings), data.kind)
        case FindingCleared():
            left = {kind: found for kind, found in run.health.findings.items() if kind != data.kind}
            run = closed(_with_findings(run, left), data.closes, event.version)
            return with_finding_cleared(run, data.kind, event.at)
        case CheckpointValidated():
            came = seen_unverified_at(run, data) or event.at
            checkpoint = Checkpoint(
                data.step, data.path, data.kind, event.version, data.written_at, came
            )
            kept = {**run.checkpoints.validated, data.step: checkpoint}
            newest = sorted(kept)[-CHECKPOINTS_KEPT:]
            # After a rollback a rewritten path belongs to the new lineage.
            rejected = {
                path: why for path, why in run.checkpoints.rejected.items() if path != data.path
            }
            return replace(
                run,
                checkpoints=CheckpointsState(
                    validated={s: kept[s] for s in newest},
                    rejected=rejected,
                    unverified=_without(run.checkpoints.unverified, data.path),
                ),
                ends=replace(run.ends, restarts=with_progress_gained(run, data)),
            )
        case CheckpointRejected():
            rejected = {**run.checkpoints.rejected, data.path: data.reason}
            return replace(
                run,
                checkpoints=CheckpointsState(
                    validated=_without(run.checkpoints.validated, data.path),
                    rejected=rejected,
                    unverified=_with_unverified(run, data, event),
                ),
                operator=with_rejection(run.operator, data),
            )
        case HistoryLimitPassed():
            return replace(run, watch=replace(run.watch, history_limit=data.limit))
        case _:
            assert_never(data)


def _without(known: Mapping[int, Checkpoint], path: str) -> Mapping[int, Checkpoint]:
    return {step: one for step, one in known.items() if one.path != path}


def _with_findings(run: Run, findings: Mapping[str, FindingOpened]) -> Run:
    return replace(run, health=replace(run.health, findings=findings))


def _with_unverified(run: Run, data: CheckpointRejected, event: Event) -> Mapping[int, Checkpoint]:
    """Remember checkpoints that were refused only because their metadata step is unknown."""
    left = _without(run.checkpoints.unverified, data.path)
    found = run.watch.last_check.event.new_checkpoints if run.watch.last_check is not None else ()
    for one in found:
        if one.path == data.path and one.complete and one.metadata_step is None:
            seen = Checkpoint(one.step, one.path, one.kind, event.version, one.written_at, event.at)
            kept = {**left, one.step: seen}
            return {step: kept[step] for step in sorted(kept)[-CHECKPOINTS_KEPT:]}
    return left


def _louder(data: FindingRaised) -> FindingOpened:
    """Return a finding after it was raised."""
    return FindingOpened(
        kind=data.kind,
        rule=data.rule,
        severity=data.severity,
        summary=data.summary,
        evidence=data.evidence,
        about=data.about,
    )


def _trained_since(known: datetime | None, check: CheckRecorded, at: datetime) -> datetime | None:
    """Return since when an instance trains, across the orchestrator's retries.

    While it waits for machines no checkpoint is due.
    """
    phase, since = check.liveness.phase, check.liveness.phase_since
    if phase is TrainingPhase.NOT_STARTED:
        return None
    return known or ((since or at) if phase is TrainingPhase.TRAINING else None)


def checked(run: Run, checks: Sequence[SeenCheck]) -> Run:
    """Apply consecutive checks; at least one.

    Raises:
        InvalidTransition: A check is of an instance other than the newest, or a check between them
            is missing.
    """
    instance = last_instance_or_invalid(run)
    name, plan = instance.plan.instance, instance.plan
    best, slack, failed = instance.step_best, instance.step_uncertainty, instance.attempts_failed
    retried, unsure, nan_from = instance.retried, instance.unsure, instance.nan_from
    tries, trained = instance.tries, instance.trained_since
    looked = run.watch.last_check.at if run.watch.last_check is not None else None
    phase, since, progress = run.phase, run.since, run.watch.progress
    for _, at, data in checks:
        if data.instance != name:
            raise InvalidTransition(f"{data.instance} is not the newest instance")
        shown, job = data.progress, data.job
        tries = with_tries(tries, failed, data, at, progress)
        trained = _trained_since(trained, data, at)
        if shown is not None:
            progress = shown
            # Of two readings of one step, the more precise one counts.
            closer = shown.step == best and shown.uncertainty < slack
            if best is None or shown.step > best or closer:
                best, slack = shown.step, shown.uncertainty
            if isinstance(phase, Stabilizing) and is_moving(plan, shown):
                phase, since = Running(phase.plan, phase.launched_at), at
        nan_from = nan_since(nan_from, data)
        retried, looked = with_retries(retried, failed, data, looked), at
        if job is not None:
            failed, unsure = max(failed, job.attempts_failed), job.state is JobState.UNKNOWN
    version = checks[-1].version
    if version != run.version + len(checks):
        raise InvalidTransition("an event is missing between checks")
    newest = checks[-1].data
    seen = instance
    if best != instance.step_best or slack != instance.step_uncertainty:
        seen = copied(seen, step_best=best, step_uncertainty=slack)
    if failed != seen.attempts_failed:
        seen = copied(seen, attempts_failed=failed)
    if retried is not seen.retried or unsure is not seen.unsure:
        seen = copied(seen, retried=retried, unsure=unsure)
    if tries is not seen.tries or trained != seen.trained_since:
        seen = copied(seen, tries=tries, trained_since=trained)
    if nan_from != seen.nan_from:
        seen = copied(seen, nan_from=nan_from)
    return copied(
        run,
        version=version,
        since=since,
        phase=phase,
        instances=(*run.instances[:-1], seen),
        health=HealthState(newest.health, run.health.findings),
        watch=copied(
            run.watch,
            lease_until=newest.lease_until,
            next_due=newest.next_due,
            last_check=LastCheck(newest, checks[-1].at, version),
            progress=progress,
            # Older ones would be dropped again at once.
            recent_checks=with_checks(
                run.watch.recent_checks,
                [past_check(data, at, place) for place, at, data in checks[-RECENT_CHECKS_MAX:]],
            ),
            losses=with_losses(run.watch.losses, [one.data for one in checks]),
        ),
    )
