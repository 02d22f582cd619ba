"""Derives from the record which acts are due for a run.

The policy requests an act, `decide` accepts it, and an adapter carries it out.
"""

from datetime import datetime
from enum import StrEnum

from watchkeeper.domain.run.effects import EffectRejected
from watchkeeper.domain.run.ends import Action
from watchkeeper.domain.run.outbox.effects import Effects
from watchkeeper.domain.run.phases import (
    Abandoned,
    Finished,
    Interrupted,
    Launching,
    Running,
    Stabilizing,
)
from watchkeeper.domain.run.run import Run, contract_of, end_asked
from watchkeeper.domain.run.seal import MilestoneVerified
from watchkeeper.domain.run.unverified_checkpoints import awaits_metadata
from watchkeeper.domain.values.contract.contract import seals_itself


class Act(StrEnum):
    """One act. Acts that can fail have the names in `effects.EFFECTS`."""

    SUBMIT = "submit"
    STOP = "stop"
    CHECK = "check"
    RELAUNCH = "relaunch"
    VERIFY = "seal"
    LOGBOOK = "logbook"
    TAG = "tag"
    MILESTONE = "milestone"
    CLOSE = "close"


OUTBOUND = (Act.SUBMIT, Act.STOP, Act.LOGBOOK, Act.TAG, Act.MILESTONE)
"""Acts that change something outside. The other acts only read and record."""

JOB_ACTS = frozenset({Act.SUBMIT, Act.STOP, Act.CHECK, Act.RELAUNCH, Act.VERIFY})
"""Acts on a job, one after another; the other acts concern git."""


def due_acts(run: Run, effects: Effects, now: datetime) -> list[Act]:
    """Return what is due for a run, in the order in which it should be done.

    Args:
        run: The run as recorded. Due acts are derived from it, so they survive any crash.
        effects: The results of its effects. A failed effect waits for its retry.
        now: The time.
    """
    return [act for act in wanted_acts(run, effects, now) if not waits(effects, act, now)]


def wanted_acts(run: Run, effects: Effects, now: datetime | None = None) -> list[Act]:
    """Return the acts that the record requests, including those that wait for a retry.

    Args:
        run: The run as recorded.
        effects: The results of its effects.
        now: The time, for checks; `None` leaves them out.
    """
    return _job_acts(run, now) + _git_acts(run, effects)


def waits(effects: Effects, act: Act, now: datetime) -> bool:
    """Return whether an act failed and its next try is not due yet."""
    failed = effects.failing.get(act.value)
    return failed is not None and failed.retry_at > now


def _is_checked(run: Run) -> bool:
    # A watch that has ended only checks for an end that a human requested since.
    if run.watch.ended and not end_asked(run, run.instances[-1].plan.instance):
        return False
    if isinstance(run.phase, Interrupted):
        waits = run.phase.decision is None and run.instances[-1].end is not None
        return waits or awaits_metadata(run)
    return isinstance(run.phase, Stabilizing | Running)


def _job_acts(run: Run, now: datetime | None) -> list[Act]:
    match run.phase:
        case Launching():
            return [Act.SUBMIT]
        case Stabilizing(plan=plan) | Running(plan=plan):
            stop = [Act.STOP] if end_asked(run, plan.instance) else []
            return stop + _check(run, now)
        case Interrupted(decision=decision):
            if decision is None or awaits_metadata(run):
                return _check(run, now)
            return [Act.RELAUNCH] if decision.action is Action.RELAUNCH else []
        case Finished(verified=None) if seals_itself(contract_of(run)):
            return [Act.VERIFY]
        case _:
            return []


def _check(run: Run, now: datetime | None) -> list[Act]:
    due = run.watch.next_due
    if now is None or due is None or due > now:
        return []
    return [Act.CHECK] if _is_checked(run) else []


def _git_acts(run: Run, effects: Effects) -> list[Act]:
    if run.version == 0 or not is_public(run):
        return []
    current = effects.pushed is not None and effects.pushed.version >= run.version
    acts: list[Act] = [] if current or _is_given_up(run, effects) else [Act.LOGBOOK]
    if isinstance(run.phase, Finished) and run.phase.verified is not None:
        if effects.tag is not None:
            acts.append(Act.CLOSE)
        elif current:
            # The logbook with the verification is on the remote before the tag names it.
            acts.append(Act.TAG)
    if current and milestone_waiting(run, effects):
        # The logbook that names it is on the remote before the tag is.
        acts.append(Act.MILESTONE)
    return acts


def _is_given_up(run: Run, effects: Effects) -> bool:
    """Return whether a human gave up the run, and with it a logbook that the remote refuses."""
    name = Act.LOGBOOK.value
    refused = name in effects.closed or isinstance(effects.failing.get(name), EffectRejected)
    return isinstance(run.phase, Abandoned) and refused


def is_public(run: Run) -> bool:
    """Return whether a run's logbook may be pushed: only after an approval or waiver.

    An amended contract voids both.
    """
    approved = any(not one.revoked for one in run.permits.approvals)
    waived = any(one.rule == "L11" and not one.revoked for one in run.permits.waivers)
    return bool(run.instances) or approved or waived


def milestone_waiting(run: Run, effects: Effects) -> MilestoneVerified | None:
    """Return the oldest verified milestone whose tag is not on the remote yet."""
    verified = run.seal.milestones.values()
    return next((one for one in verified if one.tag not in effects.milestones), None)
