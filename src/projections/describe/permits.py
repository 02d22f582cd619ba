"""How proposals, consents, waivers, withdrawals and refusals read."""

from dataclasses import replace
from datetime import datetime

from watchkeeper.domain.run.envelope import Event
from watchkeeper.domain.run.permits import (
    ActProposed,
    ApprovalRevoked,
    AttemptRefused,
    ConsentGiven,
    ConsentRevoked,
    ConsentUsed,
    ProposalDeclined,
    StandingAttemptRefused,
    StandingWaiverGranted,
    StandingWaiverRevoked,
    WaiverGranted,
    WaiverRevoked,
)
from watchkeeper.domain.values.contract.plan import short
from watchkeeper.projections.describe.description import (
    Description,
    Headline,
    NoEntry,
    because,
    by,
    entry,
    other_stream,
    slug,
    words,
)
from watchkeeper.projections.logbook.state import (
    Logbook,
    clock_time,
)
from watchkeeper.projections.quoting import WORDS_MAX, code, prose


def _proposed(book: Logbook, data: ActProposed, event: Event) -> Logbook:
    if data.direct:
        return book  # The act that follows shows it.
    title = f"proposal {prose(data.proposal)}: {prose(data.action.replace('_', ' '))}"
    status = f"waits for a human's consent; proposed by {by(event)}"
    what = f"{code(data.target, WORDS_MAX)}, digest {prose(short(data.digest))}"
    evidence = f"of {what}; {words(data.reason)}"
    then = f"`watchkeeper permit consent {slug(event)} {prose(data.proposal)}`"
    return entry(book, event, title, status=status, evidence=evidence, then=then)


def _consented(book: Logbook, data: ConsentGiven, event: Event) -> Logbook:
    known = {**book.facts.approvals, data.consent: prose(event.envelope.actor.principal)}
    book = replace(book, facts=replace(book.facts, approvals=known))
    # Before proposals were recorded, each consent to a stop was direct.
    direct = data.action in ("stop", "relaunch", "rollback", "supersede") and not data.proposal
    if data.direct or direct:
        return book  # The act that follows shows it.
    title = f"consent {prose(data.consent)}:"
    note = data.note if data.note.strip() else ""
    if not data.proposal:
        until = clock_time(book, data.expires_at)
        title = f"{title} {prose(data.action)} {prose(data.target)}"
        status = f"given by {by(event)}, once, until {until}"
        return entry(
            book, event, title, status=status, evidence=code(note, WORDS_MAX) if note else ""
        )
    asked = f"to proposal {prose(data.proposal)}, once, {_until(book, data.expires_at)}"
    target = f"of {code(data.target, WORDS_MAX)}"
    title = f"{title} {prose(data.action.replace('_', ' '))}"
    status = f"given by {by(event)} {asked}"
    evidence = f"{target}; {words(note)}" if note else target
    return entry(book, event, title, status=status, evidence=evidence)


def _taken_back(book: Logbook, event: Event, what: str, status: str, reason: str) -> Logbook:
    status = f"{status} by {by(event)}"
    evidence = code(reason, WORDS_MAX) if reason.strip() else ""
    return entry(book, event, what, status=status, evidence=evidence)


def _declined(book: Logbook, data: ProposalDeclined, event: Event) -> Logbook:
    what = f"proposal {prose(data.proposal)} declined"
    return _taken_back(book, event, what, "declined", data.reason)


def _consent_revoked(book: Logbook, data: ConsentRevoked, event: Event) -> Logbook:
    what = f"consent {prose(data.consent)} revoked"
    return _taken_back(book, event, what, "permits nothing;", data.reason)


def _approval_revoked(book: Logbook, data: ApprovalRevoked, event: Event) -> Logbook:
    what = f"approval {prose(data.approval)} revoked"
    status = "covers nothing from here on, what runs goes on;"
    return _taken_back(book, event, what, status, data.reason)


def _waiver_revoked(book: Logbook, data: WaiverRevoked, event: Event) -> Logbook:
    what = f"waiver {prose(data.waiver)} revoked"
    return _taken_back(book, event, what, "blocks again;", data.reason)


def _waived(book: Logbook, data: WaiverGranted, event: Event) -> Logbook:
    until = "for as long as the run lasts" if data.until is None else _until(book, data.until)
    title = f"waiver {prose(data.waiver)} of {prose(data.rule)}"
    status = f"waived by {by(event)}, {until}"
    evidence = f"{prose(data.rule)} {prose(data.waives)}; {words(data.reason)}"
    then = "launch again: the waiver lifts this block, in these words"
    return entry(book, event, title, status=status, evidence=evidence, then=then)


def _until(book: Logbook, at: datetime) -> str:
    return f"until {at.astimezone(book.zone):%Y-%m-%d %H:%M}"


def _refused(book: Logbook, data: AttemptRefused, event: Event) -> Logbook:
    about = f" of {code(data.target)}" if data.target else ""
    status = f"{by(event)} tried {prose(data.command)}{about}; nothing came of it"
    title = f"refused attempt: {prose(data.command)}"
    evidence = f"rule {prose(data.rule)}: this needs a human"
    return entry(book, event, title, status=status, evidence=evidence)


def _refused_line(data: AttemptRefused) -> str:
    about = f" {data.target}" if data.target else ""
    return f"refused ({data.rule}): {data.command}{about} by {data.principal}"


def _standing_waiver_line(data: StandingWaiverGranted) -> str:
    whose = f"{data.lane.value} launches of {data.requester}"
    return f"{data.rule} waived as {data.waiver} for {whose}: {data.reason}"


EVENTS = (
    Description(
        ActProposed,
        Headline.PROPOSAL,
        lambda data: f"{data.proposal} proposes {data.action} {data.target}: {data.reason}",
        _proposed,
    ),
    Description(
        ProposalDeclined,
        Headline.REVOCATION,
        lambda data: because(f"{data.proposal} declined", data.reason),
        _declined,
    ),
    Description(
        ConsentGiven,
        Headline.CONSENT,
        lambda data: f"consent {data.consent} to {data.action} {data.target}: {data.note}",
        _consented,
    ),
    Description(
        ConsentUsed,
        Headline.CONSENT,
        lambda data: f"consent {data.consent} used for {data.action} {data.target}",
        NoEntry("The act that follows names it."),
    ),
    Description(
        ConsentRevoked,
        Headline.REVOCATION,
        lambda data: because(f"consent {data.consent} revoked", data.reason),
        _consent_revoked,
    ),
    Description(
        ApprovalRevoked,
        Headline.REVOCATION,
        lambda data: because(f"approval {data.approval} revoked", data.reason),
        _approval_revoked,
    ),
    Description(
        WaiverGranted,
        Headline.WAIVER,
        lambda data: f"{data.rule} waived as {data.waiver} ({data.waives}): {data.reason}",
        _waived,
    ),
    Description(
        WaiverRevoked,
        Headline.REVOCATION,
        lambda data: because(f"waiver {data.waiver} revoked", data.reason),
        _waiver_revoked,
    ),
    Description(AttemptRefused, Headline.ATTEMPT, _refused_line, _refused),
    other_stream(StandingWaiverGranted, _standing_waiver_line),
    other_stream(
        StandingWaiverRevoked,
        lambda data: because(f"standing waiver {data.waiver} revoked", data.reason),
    ),
    other_stream(
        StandingAttemptRefused,
        lambda data: f"refused ({data.rule}): {data.command} {data.target} by {data.principal}",
    ),
)
