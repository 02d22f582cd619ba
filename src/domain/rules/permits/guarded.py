"""The register of guarded actions, which only a human may allow.

A guarded action is proposed. A human consents to it, and the consent is used once. A consent is
limited to one run, action and target. It names the digest of the proposal that the human read, and
it expires.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from types import MappingProxyType

from watchkeeper.domain.run.health import UNACCOUNTED
from watchkeeper.domain.run.permits import ActProposed, Consent, Proposal
from watchkeeper.domain.run.phases import (
    Cleared,
    Draft,
    Finished,
    Interrupted,
    Launching,
    Phase,
    Running,
    Stabilizing,
    Stopped,
)
from watchkeeper.domain.run.run import Run


class GuardedAction(StrEnum):
    """Actions that need a human's consent. Other acts are not guarded."""

    STOP = "stop"
    DIRTY_LAUNCH = "dirty_launch"
    LINEAGE_CHANGE = "lineage_change"
    SEAL_WAIVER = "seal_waiver"
    NODE_DELETION = "node_deletion"
    HOST_CLEANUP = "host_cleanup"
    DECLARE_LOST = "declare_lost"


@dataclass(frozen=True, slots=True)
class Guard:
    """One row of the register.

    Attributes:
        does: What the act does, in words.
        target: What a proposal must name.
        life: How long a consent is valid by default.
        life_max: The longest validity that a human may give.
        phases: The phases in which the act makes sense; in other phases a proposal is not shown as
            waiting.
    """

    does: str
    target: str
    life: timedelta
    life_max: timedelta
    phases: tuple[type[Phase], ...]


CONSENT_LIFE = timedelta(hours=1)
"""Default time after which an unused consent is void."""

_DAY = timedelta(days=1)

REGISTER: Mapping[GuardedAction, Guard] = MappingProxyType(
    {
        GuardedAction.STOP: Guard(
            "end the live job, so that nothing relaunches it",
            "the instance, such as i1",
            CONSENT_LIFE,
            _DAY,
            (Launching, Stabilizing, Running),
        ),
        GuardedAction.DIRTY_LAUNCH: Guard(
            "launch from a tree with changes that are in no commit",
            "the commit and the patch identity, as the launch gate prints them",
            CONSENT_LIFE,
            _DAY,
            (Draft, Cleared, Interrupted),
        ),
        GuardedAction.LINEAGE_CHANGE: Guard(
            "go on from another checkpoint, or under another identity, than the rules choose",
            "the checkpoint's path, or the new run's slug",
            CONSENT_LIFE,
            _DAY,
            (Launching, Stabilizing, Running, Interrupted),
        ),
        # A seal is not urgent, and its sources may take a while to answer.
        GuardedAction.SEAL_WAIVER: Guard(
            "seal although something is missing",
            "what is missing, in the words of `watchkeeper run seal`",
            _DAY,
            timedelta(days=14),
            (Finished, Stopped),
        ),
        # People do all work on machines; watchkeeper never does it.
        GuardedAction.NODE_DELETION: Guard(
            "delete a bad machine, so that the cluster replaces it; a human runs the command",
            "the machine's name",
            CONSENT_LIFE,
            _DAY,
            (Launching, Stabilizing, Running, Interrupted),
        ),
        GuardedAction.HOST_CLEANUP: Guard(
            "delete files on a machine whose disk is full; a human runs the command",
            "the machine and the path, such as host-3:/tmp",
            CONSENT_LIFE,
            _DAY,
            (Launching, Stabilizing, Running, Interrupted),
        ),
        GuardedAction.DECLARE_LOST: Guard(
            "end an instance that the orchestrator cannot account for, and relaunch the run",
            "the instance and its job, such as i1:my-run-i1-home",
            CONSENT_LIFE,
            _DAY,
            (Stabilizing, Running),
        ),
    }
)
"""The guarded actions and their requirements."""


def proposal_digest(run: str, action: str, target: str, reason: str) -> str:
    """Return the identity of a proposal: a SHA-256, in hex, over its canonical text."""
    said = {"action": action, "reason": reason, "run": run, "target": target}
    text = json.dumps(said, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def proposal_of(
    run: Run, action: GuardedAction, target: str, reason: str, *, direct: bool = False
) -> ActProposed:
    """Return a proposal under the next free name."""
    return ActProposed(
        proposal=f"p-{len(run.permits.proposals) + 1}",
        action=action.value,
        target=target,
        reason=reason,
        digest=proposal_digest(run.slug, action, target, reason),
        direct=direct,
    )


def is_live(consent: Consent, now: datetime) -> bool:
    """Say whether a consent can still be used."""
    return not consent.used and not consent.revoked and now < consent.expires_at


def live_consent(run: Run, action: GuardedAction, target: str, now: datetime) -> Consent | None:
    """Return the newest consent that permits an act on a target now, or `None`."""
    for consent in reversed(run.permits.consents):
        if (consent.action, consent.target) == (action, target) and is_live(consent, now):
            return consent
    return None


def used_consent(run: Run, action: GuardedAction, target: str) -> str:
    """Return the newest consent that was used for an act on a target; empty if none."""
    used = [
        c.name for c in run.permits.consents if c.used and (c.action, c.target) == (action, target)
    ]
    return used[-1] if used else ""


def is_open(run: Run, proposal: Proposal) -> bool:
    """Say whether a proposal waits for a human and still makes sense."""
    if proposal.consent or proposal.declined:
        return False
    return is_possible(run, proposal.action, proposal.target)


def is_possible(run: Run, action: str, target: str) -> bool:
    """Say whether an act is possible in a run's current state."""
    if action not in set(GuardedAction):
        return False  # A later release recorded this action.
    if not isinstance(run.phase, REGISTER[GuardedAction(action)].phases):
        return False
    if action == GuardedAction.STOP:
        return run.instances[-1].plan.instance == target
    if action == GuardedAction.DECLARE_LOST:
        return UNACCOUNTED in run.health.findings and target == lost_target(run)
    return not (isinstance(run.phase, Finished) and run.phase.verified is not None)


def lost_target(run: Run) -> str:
    """Return the target of a declaration that the newest instance is lost."""
    plan = run.instances[-1].plan
    return f"{plan.instance}:{plan.submission_id}"


def open_proposals(run: Run) -> tuple[Proposal, ...]:
    """Return the proposals that wait for a human, oldest first."""
    return tuple(proposal for proposal in run.permits.proposals if is_open(run, proposal))
