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
    """Somebody asked for a guarded action; a human may consent to it. Agents may propose.

    Attributes:
        proposal: Its short name, such as `p-1`.
        action: Which guarded action, such as `stop`.
        target: What it would be done to, such as the instance.
        reason: The proposer's words.
        digest: SHA-256 over run, action, target and reason: what a consent is given to.
        direct: A human asked, consented and acted in one command.
    """

    topic: ClassVar[str] = "run.act_proposed.1"
    proposal: str
    action: str
    target: str
    reason: str
    digest: str
    direct: bool = False


class ProposalDeclined(Fact):
    """A human said no to a proposal.

    Attributes:
        proposal: Which one.
        reason: The human's words.
    """

    topic: ClassVar[str] = "run.proposal_declined.1"
    proposal: str
    reason: str


class ConsentUsed(Fact):
    """A guarded action used up the consent that permits it; recorded before the act itself.

    Attributes:
        consent: Which one.
        action: Which guarded action.
        target: What it is done to.
        digest: The proposal that was consented to.
    """

    topic: ClassVar[str] = "run.consent_used.1"
    consent: str
    action: str
    target: str
    digest: str


class ConsentRevoked(Fact):
    """A human took back a consent that was not used yet.

    Attributes:
        consent: Which one.
        reason: The human's words.
    """

    topic: ClassVar[str] = "run.consent_revoked.1"
    consent: str
    reason: str


# --- Approvals and waivers ------------------------------------------------------------------------


class ApprovalRevoked(Fact):
    """A human took back an approval: it covers nothing from here on. What runs goes on.

    Attributes:
        reason: The human's words.
    """

    topic: ClassVar[str] = "run.approval_revoked.1"
    approval: str
    reason: str


class WaiverGranted(Fact):
    """A human let one named block of the launch gate pass, for this run.

    Attributes:
        waiver: Its short name, such as `w-1`.
        rule: The launch rule, such as `L13`.
        waives: The block in its own words; a block that says something else is not waived.
        reason: The human's words.
        until: It is void from then on; none for as long as the run lasts.
    """

    topic: ClassVar[str] = "run.waiver_granted.1"
    waiver: str
    rule: str
    waives: str
    reason: str
    until: AwareDatetime | None = None


class WaiverRevoked(Fact):
    """A human took back a waiver.

    Attributes:
        waiver: Which one.
        reason: The human's words.
    """

    topic: ClassVar[str] = "run.waiver_revoked.1"
    waiver: str
    reason: str


class AttemptRefused(Fact):
    """Somebody who is no human tried what only a human may do; nothing came of it.

    Recorded once a day for one actor, command and target.

    Attributes:
        principal: Who tried.
        command: What was asked, such as `approve`.
        target: About what; empty for the run itself.
        rule: The refusal, such as `NOT_A_HUMAN`.
    """

    topic: ClassVar[str] = "run.attempt_refused.1"
    principal: str
    command: str
    target: str
    rule: str


# --- The stream `people`: what holds for no single run --------------------------------------------


class StandingWaiverGranted(Fact):
    """A human waived a launch rule ahead, for every launch of a lane that one principal asks for.

    Attributes:
        waiver: Its short name, such as `sw-1`.
        lane: The lane whose launches it covers.
        rule: The launch rule.
        requester: The principal whose launches it covers.
        reason: The human's words.
        until: It is void from then on.
    """

    topic: ClassVar[str] = "people.waiver_granted.1"
    waiver: str
    lane: Lane
    rule: str
    requester: str
    reason: str
    until: AwareDatetime


class StandingWaiverRevoked(Fact):
    """A human took back a standing waiver.

    Attributes:
        waiver: Which one.
        reason: The human's words.
    """

    topic: ClassVar[str] = "people.waiver_revoked.1"
    waiver: str
    reason: str


class StandingAttemptRefused(Fact):
    """Somebody who is no human tried to grant or revoke a standing waiver.

    Attributes:
        principal: Who tried.
        command: What was asked.
        target: About what.
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
        proposal: What was consented to; empty in records from before proposals.
        digest: The proposal's, so that nothing else is permitted.
        direct: A human asked, consented and acted in one command.
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
        also: Further identities that it covers: those of small fixes (R5).
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
        consent: The consent that it was given; empty without one.
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
    """A human's word that a named block of the gate may pass.

    Attributes:
        waives: The block in its own words; empty for whatever the rule says.
        until: None for as long as the run lasts.
        revoked: Taken back, or void since the contract was amended.
    """

    name: str
    rule: str
    waives: str
    reason: str
    by: str
    until: datetime | None = None
    revoked: bool = False


ATTEMPT_AGAIN = timedelta(days=1)
"""The same refused attempt is recorded again only after this time: a retry adds nothing."""


def attempt_key(principal: str, command: str, target: str) -> str:
    """Return what two attempts must share to count as the same."""
    return f"{principal} {command} {target}"


@dataclass(frozen=True, slots=True)
class PermitsState:
    """Everything that humans permitted for a run, or were asked to permit.

    Attributes:
        approvals: Approvals of launch plans under the current contract, oldest first.
        approvals_given: How many there ever were; this names the next one.
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
