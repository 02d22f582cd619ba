"""Folds proposals, consents, waivers and revocations into a run's state."""

from dataclasses import replace
from datetime import datetime
from typing import assert_never

from watchkeeper.domain.run.envelope import Event
from watchkeeper.domain.run.permits import (
    ATTEMPT_AGAIN,
    ActProposed,
    ApprovalRevoked,
    AttemptRefused,
    Consent,
    ConsentGiven,
    ConsentRevoked,
    ConsentUsed,
    PermitEvent,
    PermitsState,
    Proposal,
    ProposalDeclined,
    Waiver,
    WaiverGranted,
    WaiverRevoked,
    attempt_key,
)
from watchkeeper.domain.run.phases import Cleared, Draft
from watchkeeper.domain.run.run import InvalidTransition, Run


def permitted(run: Run, data: PermitEvent, event: Event) -> Run:
    """Apply one event of a permission.

    Raises:
        InvalidTransition: It names something that does not exist or is used up.
    """
    by, at = event.envelope.actor.principal, event.at
    match data:
        case ActProposed():
            proposal = Proposal(
                data.proposal, data.action, data.target, data.reason, data.digest, by, at
            )
            return replace(
                run, permits=replace(run.permits, proposals=(*run.permits.proposals, proposal))
            )
        case ProposalDeclined():
            _known(data.proposal, run.permits.proposals)
            declined = tuple(
                replace(one, declined=by) if one.name == data.proposal else one
                for one in run.permits.proposals
            )
            return replace(run, permits=replace(run.permits, proposals=declined))
        case ConsentGiven():
            return _given(run, data, by)
        case ConsentUsed():
            return _used(run, data)
        case ConsentRevoked():
            _known(data.consent, run.permits.consents)
            consents = tuple(
                replace(one, revoked=True) if one.name == data.consent else one
                for one in run.permits.consents
            )
            return replace(run, permits=replace(run.permits, consents=consents))
        case ApprovalRevoked():
            return _approval_revoked(run, data)
        case WaiverGranted():
            waiver = Waiver(data.waiver, data.rule, data.waives, data.reason, by, data.until)
            return replace(
                run, permits=replace(run.permits, waivers=(*run.permits.waivers, waiver))
            )
        case WaiverRevoked():
            _known(data.waiver, run.permits.waivers)
            waivers = tuple(
                replace(one, revoked=True) if one.name == data.waiver else one
                for one in run.permits.waivers
            )
            return replace(run, permits=replace(run.permits, waivers=waivers))
        case AttemptRefused():
            return _attempted(run, data, at)
        case _:
            assert_never(data)


def _known(name: str, among: tuple[Proposal | Consent | Waiver, ...]) -> None:
    if not any(one.name == name for one in among):
        raise InvalidTransition(f"there is no {name}")


def _given(run: Run, data: ConsentGiven, by: str) -> Run:
    consent = Consent(
        data.consent,
        data.action,
        data.target,
        data.expires_at,
        proposal=data.proposal,
        digest=data.digest,
        by=by,
    )
    if data.proposal:
        _known(data.proposal, run.permits.proposals)
    proposals = tuple(
        replace(one, consent=data.consent) if one.name == data.proposal else one
        for one in run.permits.proposals
    )
    return replace(
        run,
        permits=replace(
            run.permits, consents=(*run.permits.consents, consent), proposals=proposals
        ),
    )


def _used(run: Run, data: ConsentUsed) -> Run:
    found = next((one for one in run.permits.consents if one.name == data.consent), None)
    if found is None or found.used or found.revoked:
        raise InvalidTransition(f"{data.consent} permits nothing")
    if (found.action, found.target) != (data.action, data.target):
        raise InvalidTransition(f"{data.consent} is for {found.action} {found.target}")
    return replace(run, permits=with_used(run.permits, data.consent))


def with_used(permits: PermitsState, name: str) -> PermitsState:
    """Return permits in which a known consent is used up."""
    consents = (replace(one, used=True) if one.name == name else one for one in permits.consents)
    return replace(permits, consents=tuple(consents))


def _approval_revoked(run: Run, data: ApprovalRevoked) -> Run:
    if not any(one.name == data.approval for one in run.permits.approvals):
        raise InvalidTransition(f"there is no {data.approval}")
    approvals = tuple(
        replace(one, revoked=True) if one.name == data.approval else one
        for one in run.permits.approvals
    )
    lost = isinstance(run.phase, Cleared) and all(one.revoked for one in approvals)
    permits = replace(run.permits, approvals=approvals)
    return replace(run, permits=permits, phase=Draft() if lost else run.phase)


def _attempted(run: Run, data: AttemptRefused, at: datetime) -> Run:
    key = attempt_key(data.principal, data.command, data.target)
    try:
        since = at - ATTEMPT_AGAIN
    except OverflowError as error:
        raise InvalidTransition(f"{at.isoformat()} is at the start of the calendar") from error
    # Older attempts no longer limit anything.
    kept = {known: then for known, then in run.permits.refused_attempts.items() if then > since}
    return replace(run, permits=replace(run.permits, refused_attempts={**kept, key: at}))
