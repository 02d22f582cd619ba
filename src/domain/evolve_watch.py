"""Folds what a watch saw, and who held it, into a run's state."""

from dataclasses import replace
from typing import assert_never

from watchkeeper.domain.envelope import Event
from watchkeeper.domain.events import (
    CheckpointRejected,
    CheckpointValidated,
    CheckRecorded,
    FindingCleared,
    FindingOpened,
    FindingRaised,
    HistoryLimitPassed,
    TrackerAnnounced,
    WatchEvent,
    WatchReleased,
    WatchTaken,
)
from watchkeeper.domain.evolve_judgement import gained
from watchkeeper.domain.evolve_manoeuvres import with_rejection
from watchkeeper.domain.misfit import Misfit, last_instance_or_misfit
from watchkeeper.domain.phases import (
    Running,
    Stabilizing,
)
from watchkeeper.domain.replacing import copied
from watchkeeper.domain.state import (
    CHECKPOINTS_KEPT,
    Checkpoint,
    LastCheck,
    Run,
    Watch,
    is_moving,
)
from watchkeeper.domain.state_metrics import with_losses
from watchkeeper.domain.state_trail import past_check, with_check


def evolve_watch(run: Run, data: WatchEvent, event: Event) -> Run:
    """Apply one event of a watch.

    Raises:
        Misfit: It names another instance than the newest, or its token was given before.
    """
    match data:
        case CheckRecorded():  # The most frequent event comes first.
            return _checked(run, data, event)
        case WatchTaken():
            if data.token <= run.watch.token:
                raise Misfit(f"token {data.token} was given before")
            watch = Watch(data.holder, data.token, data.lease_until, data.next_due)
            return replace(run, watch=watch)
        case WatchReleased():
            return replace(run, watch=replace(run.watch, holder=None, lease_until=None))
        case TrackerAnnounced():
            links = {**run.tracker_links, data.link.tracker_id: data.link}
            return replace(run, tracker_links=links)
        case FindingOpened():
            return replace(run, findings={**run.findings, data.kind: data})
        case FindingRaised():
            return replace(run, findings={**run.findings, data.kind: _louder(data)})
        case FindingCleared():
            left = {kind: found for kind, found in run.findings.items() if kind != data.kind}
            return replace(run, findings=left)
        case CheckpointValidated():
            checkpoint = Checkpoint(data.step, data.path, data.kind, event.version, data.written_at)
            kept = {**run.checkpoints, data.step: checkpoint}
            newest = sorted(kept)[-CHECKPOINTS_KEPT:]
            # Written anew after a rollback, a path stands for the new lineage.
            rejected = {path: why for path, why in run.rejected.items() if path != data.path}
            return replace(
                run,
                checkpoints={s: kept[s] for s in newest},
                rejected=rejected,
                restarts=gained(run, data),
            )
        case CheckpointRejected():
            left_over = {s: c for s, c in run.checkpoints.items() if c.path != data.path}
            rejected = {**run.rejected, data.path: data.reason}
            aside = with_rejection(run.manoeuvres, data)
            return replace(run, checkpoints=left_over, rejected=rejected, manoeuvres=aside)
        case HistoryLimitPassed():
            return replace(run, history_limit=data.limit)
        case _:
            assert_never(data)


def _louder(data: FindingRaised) -> FindingOpened:
    """Return a finding as it stands from here on."""
    return FindingOpened(
        kind=data.kind,
        rule=data.rule,
        severity=data.severity,
        summary=data.summary,
        evidence=data.evidence,
        about=data.about,
    )


def _checked(run: Run, data: CheckRecorded, event: Event) -> Run:
    instance = last_instance_or_misfit(run)
    if data.instance != instance.plan.instance:
        raise Misfit(f"{data.instance} is not the newest instance")
    seen = instance
    if data.progress is not None:
        shown, uncertainty = data.progress.step, data.progress.uncertainty
        known = instance.step_best
        # Of two readings of one step, the closer one counts.
        closer = shown == known and uncertainty < instance.step_uncertainty
        if known is None or shown > known or closer:
            seen = copied(instance, step_best=shown, step_uncertainty=uncertainty)
    if data.job is not None and data.job.attempts_failed > seen.attempts_failed:
        seen = copied(seen, attempts_failed=data.job.attempts_failed)
    phase = run.phase
    if isinstance(phase, Stabilizing) and is_moving(instance.plan, data.progress):
        phase = Running(phase.plan, phase.launched_at)
    last = LastCheck(data, event.at, event.version)
    return copied(
        run,
        phase=phase,
        instances=(*run.instances[:-1], seen),
        health=data.health,
        progress=data.progress or run.progress,
        last_check=last,
        trail=with_check(run.trail, past_check(data, event.at, event.version)),
        losses=with_losses(run.losses, data),
        watch=copied(run.watch, lease_until=data.lease_until, next_due=data.next_due),
    )
