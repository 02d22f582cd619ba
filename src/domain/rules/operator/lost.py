"""How a run continues after a job that the orchestrator lost.

The orchestrator does not know the job's fate, and nothing proves that it ended. A human must
declare that no process of it lives. Metrics and checkpoints must also have been silent for two
checks.
"""

from itertools import pairwise

from watchkeeper.domain.rules.operator.commands import RequestRelaunch
from watchkeeper.domain.rules.permits.guarded import (
    GuardedAction,
    live_consent,
    lost_target,
    open_proposals,
)
from watchkeeper.domain.rules.permits.permissions import permit
from watchkeeper.domain.rules.shared.refusals import Refusal, Refused
from watchkeeper.domain.run.events import RunEvent
from watchkeeper.domain.run.health import DRIFTED, UNACCOUNTED
from watchkeeper.domain.run.launch import InstanceEnded
from watchkeeper.domain.run.open_questions import cleared
from watchkeeper.domain.run.operator import RelaunchRequested
from watchkeeper.domain.run.phases import Running, Stabilizing
from watchkeeper.domain.run.run import Run
from watchkeeper.domain.values.earlier import PastCheck

SILENT_CHECKS = 2
"""Consecutive checks without any progress before a lost job counts as over."""


def is_lost(run: Run) -> bool:
    """Say whether the orchestrator cannot account for the job of a live instance."""
    return isinstance(run.phase, Stabilizing | Running) and UNACCOUNTED in run.health.findings


def lost_job_commands(run: Run) -> str:
    """Return the commands by which a human continues after a lost job."""
    return f"{lost_command(run)}, then `watchkeeper relaunch {run.slug} --reason '...'`"


def lost_command(run: Run) -> str:
    """Return the command by which a human declares a job lost, with the next step."""
    target = lost_target(run)
    waiting = next((one.name for one in open_proposals(run) if one.target == target), "")
    action = GuardedAction.DECLARE_LOST
    consent = f"permit propose {run.slug} {action} {target} --reason '...' --agree"
    consent = f"permit consent {run.slug} {waiting}" if waiting else consent
    return f"if you have checked that no process of {target} lives: `watchkeeper {consent}`"


def end_lost(run: Run, command: RequestRelaunch) -> list[RunEvent] | Refused:
    """End a lost instance on a human's consent, once it showed no progress."""
    target, newest = lost_target(run), run.instances[-1]
    given = live_consent(run, GuardedAction.DECLARE_LOST, target, command.now)
    if given is None:
        return Refused(Refusal.JOB_LOST, lost_job_commands(run))
    moving = _may_live(run)
    if moving:
        return Refused(Refusal.JOB_MAY_LIVE, moving)
    leave = permit(run, GuardedAction.DECLARE_LOST, target, "", command, consent=given.name)
    if isinstance(leave, Refused):
        return leave
    name = newest.plan.instance
    assert run.watch.last_check is not None, "a lost job was checked"
    job = run.watch.last_check.event.job
    assert job is not None, "the newest check says that the job is lost"
    return [
        *leave.events,
        RelaunchRequested(instance=name, reason=command.reason.strip(), consent=leave.consent),
        InstanceEnded(
            instance=name, job=job, step=newest.step_best, step_uncertainty=newest.step_uncertainty
        ),
        *(
            cleared(run, found.kind, found.rule, f"{name} was declared lost")
            for found in run.health.findings.values()
            if found.kind != DRIFTED
        ),
    ]


def _may_live(run: Run) -> str:
    """Return evidence that a lost job may be live; empty if it was silent long enough."""
    name = run.instances[-1].plan.instance
    seen = [one for one in run.watch.recent_checks if one.instance == name][-SILENT_CHECKS - 1 :]
    if len(seen) <= SILENT_CHECKS:
        return f"{name} has {len(seen)} checks so far"
    for one in seen:
        if not (one.tracked and one.listed):
            return f"{_at(one)} the tracker or the checkpoints' store gave no answer"
    for before, now in pairwise(seen):
        if not now.lost:
            return f"{_at(now)} the orchestrator gave no answer, or it knew the job"
        if _shown(before) != _shown(now) or set(now.new_steps) - set(before.new_steps):
            return f"{_at(now)} metrics or checkpoints had moved"
    return ""


def _at(check: PastCheck) -> str:
    return f"at the check of {check.at:%Y-%m-%d %H:%M} UTC"


def _shown(check: PastCheck) -> tuple[object, ...]:
    return (check.step, dict(check.metrics), check.left, check.incomplete, check.clocks)
