"""The events of permissions: proposals, consents, waivers, revocations."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import ClassVar

from pydantic import AwareDatetime

from watchkeeper.domain.run.fact import Fact
from watchkeeper.domain.values.contract.contract import Lane

# --- Guarded actions ------------------------------------------------------------------------------


class ActProposed(Fact):
    """A guarded action was proposed. A human may consent to it. Agents may propose, too.

    Attributes:
        proposal: Its short name, such as `p-1`.
        action: The guarded action, such as `stop`.
        target: The target of the action, such as the instance.
        reason: The proposer's words.
        digest: SHA-256 over run, action, target and reason. A consent names it.
        direct: Whether a human proposed, consented and acted in one command.
    """

    topic: ClassVar[str] = "run.act_proposed.1"
    proposal: str
    action: str
    target: str
    reason: str
    digest: str
    direct: bool = False


class ProposalDeclined(Fact):
    """A human declined a proposal.

    Attributes:
        proposal: The name.
        reason: The human's words.
    """

    topic: ClassVar[str] = "run.proposal_declined.1"
    proposal: str
    reason: str


class ConsentUsed(Fact):
    """A guarded action used up its consent. This is recorded before the act.

    Attributes:
        consent: The name.
        action: The guarded action.
        target: The target of the action.
        digest: The digest of the proposal.
    """

    topic: ClassVar[str] = "run.consent_used.1"
    consent: str
    action: str
    target: str
    digest: str


class ConsentRevoked(Fact):
    """A human revoked an unused consent.

    Attributes:
        consent: The name.
        reason: The human's words.
    """

    topic: ClassVar[str] = "run.consent_revoked.1"
    consent: str
    reason: str


# --- Approvals and waivers ------------------------------------------------------------------------


class ApprovalRevoked(Fact):
    """A human revoked an approval. It covers no later launch. A running job continues.

    Attributes:
        reason: The human's words.
    """

    topic: ClassVar[str] = "run.approval_revoked.1"
    approval: str
    reason: str


class WaiverGranted(Fact):
    """A human waived one block of the launch gate for this run.

    Attributes:
        waiver: Its short name, such as `w-1`.
        rule: The launch rule, such as `L13`.
        waives: The text of the block. A block with another text is not waived.
        reason: The human's words.
        until: When it expires; null if it lasts as long as the run.
    """

    topic: ClassVar[str] = "run.waiver_granted.1"
    waiver: str
    rule: str
    waives: str
    reason: str
    until: AwareDatetime | None = None


class WaiverRevoked(Fact):
    """A human revoked a waiver.

    Attributes:
        waiver: The name.
        reason: The human's words.
    """

    topic: ClassVar[str] = "run.waiver_revoked.1"
    waiver: str
    reason: str


class AttemptRefused(Fact):
    """An act that only a human may do was refused to another principal.

    Recorded once a day for one actor, command and target.

    Attributes:
        principal: The principal.
        command: The requested command, such as `approve`.
        target: The target of the command; empty for the run itself.
        rule: The refusal, such as `NOT_A_HUMAN`.
    """

    topic: ClassVar[str] = "run.attempt_refused.1"
    principal: str
    command: str
    target: str
    rule: str


# --- The stream `people`: what holds for no single run --------------------------------------------


class StandingWaiverGranted(Fact):
    """A human waived a launch rule in advance, for one principal's launches in a lane.

    Attributes:
        waiver: Its short name, such as `sw-1`.
        lane: The lane whose launches it covers.
        rule: The launch rule.
        requester: The principal whose launches it covers.
        reason: The human's words.
        until: When it expires.
    """

    topic: ClassVar[str] = "people.waiver_granted.1"
    waiver: str
    lane: Lane
    rule: str
    requester: str
    reason: str
    until: AwareDatetime


class StandingWaiverRevoked(Fact):
    """A human revoked a standing waiver.

    Attributes:
        waiver: The name.
        reason: The human's words.
    """

    topic: ClassVar[str] = "people.waiver_revoked.1"
    waiver: str
    reason: str


class StandingAttemptRefused(Fact):
    """A principal who is not a human tried to grant or revoke a standing waiver.

    Attributes:
        principal: The principal.
        command: The requested command.
        target: The target of the command.
        rule: The refusal.
    """

    topic: ClassVar[str] = "people.attempt_refused.1"
    principal: str
    command: str
    target: str
    rule: str


class ConsentGiven(Fact):
    """A human permitted one guarded action on one target, once.

    Attributes:
        action: Such as `stop`.
        target: Such as the instance.
        proposal: The name of the proposal; empty in old records.
        digest: The digest of the proposal, so that nothing else is permitted.
        direct: Whether a human proposed, consented and acted in one command.
    """

    topic: ClassVar[str] = "run.consent_given.1"
    consent: str
    action: str
    target: str
    expires_at: AwareDatetime
    note: str
    proposal: str = ""
    digest: str = ""
    direct: bool = False


PermitEvent = (
    ActProposed
    | ProposalDeclined
    | ConsentGiven
    | ConsentUsed
    | ConsentRevoked
    | ApprovalRevoked
    | WaiverGranted
    | WaiverRevoked
    | AttemptRefused
)

PeopleEvent = StandingWaiverGranted | StandingWaiverRevoked | StandingAttemptRefused


@dataclass(frozen=True, slots=True)
class Approval:
    """A human's permission to launch; a revoked one covers nothing.

    Attributes:
        also: Identities of small fixes that it also covers (R5).
    """

    name: str
    digest: str
    identity: str
    by: str
    revoked: bool = False
    also: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Consent:
    """A human's permission for one guarded action."""

    name: str
    action: str
    target: str
    expires_at: datetime
    used: bool = False
    proposal: str = ""
    digest: str = ""
    by: str = ""
    revoked: bool = False


@dataclass(frozen=True, slots=True)
class Proposal:
    """A guarded action that somebody asked for.

    Attributes:
        consent: The consent to it; empty without one.
        declined: Who declined it; empty if nobody did.
    """

    name: str
    action: str
    target: str
    reason: str
    digest: str
    by: str
    at: datetime
    consent: str = ""
    declined: str = ""


@dataclass(frozen=True, slots=True)
class Waiver:
    """A human's waiver of a named block of the gate.

    Attributes:
        waives: The text of the block; empty for any block of the rule.
        until: When it expires; `None` if it lasts as long as the run.
        revoked: Whether it was revoked, or is void since the contract was amended.
    """

    name: str
    rule: str
    waives: str
    reason: str
    by: str
    until: datetime | None = None
    revoked: bool = False


ATTEMPT_AGAIN = timedelta(days=1)
"""The same refused attempt is recorded again only after this time."""


def attempt_key(principal: str, command: str, target: str) -> str:
    """Return the key by which two attempts count as the same."""
    return f"{principal} {command} {target}"


@dataclass(frozen=True, slots=True)
class PermitsState:
    """Everything that humans permitted for a run, or were asked to permit.

    Attributes:
        approvals: Approvals of launch plans under the current contract, oldest first.
        approvals_given: How many approvals were ever given. It gives the next name.
        proposals: Guarded actions that somebody asked for, oldest first.
        consents: Permissions for guarded actions, oldest first.
        waivers: Waived blocks of the launch gate, oldest first.
        refused_attempts: When each refused attempt was recorded last, by `attempt_key`.
    """

    approvals: tuple[Approval, ...] = ()
    approvals_given: int = 0
    proposals: tuple[Proposal, ...] = ()
    consents: tuple[Consent, ...] = ()
    waivers: tuple[Waiver, ...] = ()
    refused_attempts: Mapping[str, datetime] = field(default_factory=dict[str, datetime])
