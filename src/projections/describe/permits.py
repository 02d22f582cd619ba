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
from watchkeeper.projections.logbook.state import Logbook
from watchkeeper.projections.quoting import TITLE_MAX, code, prose


def _proposed(book: Logbook, data: ActProposed, event: Event) -> Logbook:
    if data.direct:
        return book  # The act that follows shows it.
    action = prose(data.action.replace("_", " "), TITLE_MAX)
    title = f"proposal {prose(data.proposal, TITLE_MAX)}: {action}"
    status = f"proposed by {by(event)}; it waits for a human's consent"
    what = f"{action} {code(data.target)}, digest {prose(short(data.digest))}"
    evidence = [what, words(data.reason)]
    then = code(f"watchkeeper permit consent {slug(event)} {data.proposal}")
    return entry(book, event, title, status=status, evidence=evidence, then=then)


def _consented(book: Logbook, data: ConsentGiven, event: Event) -> Logbook:
    known = {**book.facts.approvals, data.consent: prose(event.envelope.actor.principal)}
    book = replace(book, facts=replace(book.facts, approvals=known))
    # Before proposals were recorded, each consent to a stop was direct.
    direct = data.action in ("stop", "relaunch", "rollback", "supersede") and not data.proposal
    if data.direct or direct:
        return book  # The act that follows shows it.
    action = prose(data.action.replace("_", " "), TITLE_MAX)
    title = f"consent {prose(data.consent, TITLE_MAX)}: {action}"
    to = f" to proposal {prose(data.proposal)}" if data.proposal else ""
    status = f"given by {by(event)}{to}, for one use, {_until(book, data.expires_at)}"
    evidence = [f"{action} {code(data.target)}", words(data.note)]
    return entry(book, event, title, status=status, evidence=evidence)


def _taken_back(book: Logbook, event: Event, title: str, status: str, reason: str) -> Logbook:
    return entry(book, event, title, status=f"{status} {by(event)}", evidence=words(reason))


def _declined(book: Logbook, data: ProposalDeclined, event: Event) -> Logbook:
    title = f"proposal {prose(data.proposal, TITLE_MAX)} declined"
    return _taken_back(book, event, title, "declined by", data.reason)


def _consent_revoked(book: Logbook, data: ConsentRevoked, event: Event) -> Logbook:
    title = f"consent {prose(data.consent, TITLE_MAX)} revoked"
    return _taken_back(book, event, title, "no longer valid; revoked by", data.reason)


def _approval_revoked(book: Logbook, data: ApprovalRevoked, event: Event) -> Logbook:
    title = f"approval {prose(data.approval, TITLE_MAX)} revoked"
    status = "no new launch may use it; a running job goes on; revoked by"
    return _taken_back(book, event, title, status, data.reason)


def _waiver_revoked(book: Logbook, data: WaiverRevoked, event: Event) -> Logbook:
    title = f"waiver {prose(data.waiver, TITLE_MAX)} revoked"
    return _taken_back(book, event, title, "the rule blocks again; revoked by", data.reason)


def _waived(book: Logbook, data: WaiverGranted, event: Event) -> Logbook:
    until = "until the run is over" if data.until is None else _until(book, data.until)
    title = f"waiver {prose(data.waiver, TITLE_MAX)} of rule {prose(data.rule, TITLE_MAX)}"
    status = f"waived by {by(event)}, {until}"
    evidence = [f"{prose(data.waives)} ({prose(data.rule)})", words(data.reason)]
    then = "launch again; this reason no longer blocks"
    return entry(book, event, title, status=status, evidence=evidence, then=then)


def _until(book: Logbook, at: datetime) -> str:
    return f"until {at.astimezone(book.zone):%Y-%m-%d %H:%M}"


def _refused(book: Logbook, data: AttemptRefused, event: Event) -> Logbook:
    about = f" of {code(data.target)}" if data.target else ""
    command = prose(data.command, TITLE_MAX)
    status = f"{by(event)} tried {command}{about}; nothing was changed"
    status += "; this needs a human"
    return entry(book, event, f"{command} refused", status=status, rule=data.rule)


def _refused_line(data: AttemptRefused) -> str:
    about = f" {data.target}" if data.target else ""
    return f"{data.command}{about} by {data.principal} refused ({data.rule})"


def _standing_waiver_line(data: StandingWaiverGranted) -> str:
    whose = f"{data.lane.value} launches of {data.requester}"
    return because(f"rule {data.rule} waived as {data.waiver} for {whose}", data.reason)


EVENTS = (
    Description(
        ActProposed,
        Headline.PROPOSAL,
        lambda data: because(f"{data.proposal} proposed: {data.action} {data.target}", data.reason),
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
        lambda data: because(f"consent {data.consent} to {data.action} {data.target}", data.note),
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
        lambda data: because(f"rule {data.rule} waived as {data.waiver}", data.reason),
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
        lambda data: f"{data.command} {data.target} by {data.principal} refused ({data.rule})",
    ),
)
