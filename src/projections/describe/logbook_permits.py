"""Logbook entries of proposals, consents, waivers, withdrawals and refusals."""

from datetime import datetime
from typing import assert_never

from watchkeeper.domain.run.envelope import Event
from watchkeeper.domain.run.permits import (
    ActProposed,
    ApprovalRevoked,
    AttemptRefused,
    ConsentGiven,
    ConsentRevoked,
    ConsentUsed,
    ProposalDeclined,
    WaiverGranted,
    WaiverRevoked,
)
from watchkeeper.domain.values.contract.plan import short
from watchkeeper.projections.logbook.state import Key, Kind, Logbook, opened, said
from watchkeeper.projections.quoting import WORDS_MAX, code, prose

Entry = (
    ActProposed
    | ProposalDeclined
    | ConsentUsed
    | ConsentRevoked
    | ApprovalRevoked
    | WaiverGranted
    | WaiverRevoked
    | AttemptRefused
)


def permission(book: Logbook, data: Entry, run: str, event: Event) -> Logbook:
    """Add the entry of a permission; a human's direct act is shown with the act that follows."""
    who = f"{prose(event.envelope.actor.principal)} ({event.envelope.actor.kind})"
    at = f"(event {event.version})"
    match data:
        case ActProposed():
            return book if data.direct else _proposed(book, data, run, who, event)
        case ConsentUsed():
            return book  # The act that follows names it.
        case ProposalDeclined():
            title = f"proposal {prose(data.proposal)} declined"
            return _taken_back(book, title, f"declined by {who} {at}", data.reason, event)
        case ConsentRevoked():
            title = f"consent {prose(data.consent)} revoked"
            return _taken_back(book, title, f"permits nothing; by {who} {at}", data.reason, event)
        case ApprovalRevoked():
            title = f"approval {prose(data.approval)} revoked"
            status = f"covers nothing from here on, what runs goes on; by {who} {at}"
            return _taken_back(book, title, status, data.reason, event)
        case WaiverRevoked():
            title = f"waiver {prose(data.waiver)} revoked"
            return _taken_back(book, title, f"blocks again; by {who} {at}", data.reason, event)
        case WaiverGranted():
            return _waived(book, data, who, event)
        case AttemptRefused():
            return _refused(book, data, who, event)
        case _:
            assert_never(data)


def _proposed(book: Logbook, data: ActProposed, run: str, who: str, event: Event) -> Logbook:
    title = f"proposal {prose(data.proposal)}: {prose(data.action.replace('_', ' '))}"
    book = opened(book, Kind.COMPLETE, event.at, title)
    status = f"waits for a human's consent; proposed by {who} (event {event.version})"
    book = said(book, Key.STATUS, status)
    words = f"their words: {code(data.reason, WORDS_MAX)}"
    target = f"of {code(data.target, WORDS_MAX)}, digest {prose(short(data.digest))}; {words}"
    book = said(book, Key.EVIDENCE, target)
    return said(book, Key.NEXT, f"`watchkeeper consent {run} {prose(data.proposal)}`")


def consented_to(book: Logbook, data: ConsentGiven, who: str, event: Event) -> Logbook:
    """Open the entry of a consent to a proposal."""
    title = f"consent {prose(data.consent)}: {prose(data.action.replace('_', ' '))}"
    book = opened(book, Kind.COMPLETE, event.at, title)
    asked = f"to proposal {prose(data.proposal)}, once, {_until(book, data.expires_at)}"
    book = said(book, Key.STATUS, f"given by {who} {asked} (event {event.version})")
    words = f"; their words: {code(data.note, WORDS_MAX)}" if data.note.strip() else ""
    return said(book, Key.EVIDENCE, f"of {code(data.target, WORDS_MAX)}{words}")


def _taken_back(book: Logbook, title: str, status: str, reason: str, event: Event) -> Logbook:
    book = opened(book, Kind.COMPLETE, event.at, title)
    book = said(book, Key.STATUS, status)
    return said(book, Key.EVIDENCE, code(reason, WORDS_MAX) if reason.strip() else "")


def _waived(book: Logbook, data: WaiverGranted, who: str, event: Event) -> Logbook:
    title = f"waiver {prose(data.waiver)} of {prose(data.rule)}"
    book = opened(book, Kind.COMPLETE, event.at, title)
    until = "for as long as the run lasts" if data.until is None else _until(book, data.until)
    book = said(book, Key.STATUS, f"waived by {who}, {until} (event {event.version})")
    words = f"their words: {code(data.reason, WORDS_MAX)}"
    book = said(book, Key.EVIDENCE, f"{prose(data.rule)} {prose(data.waives)}; {words}")
    return said(book, Key.NEXT, "launch again: the waiver lifts this block, in these words")


def _until(book: Logbook, at: datetime) -> str:
    return f"until {at.astimezone(book.zone):%Y-%m-%d %H:%M}"


def _refused(book: Logbook, data: AttemptRefused, who: str, event: Event) -> Logbook:
    book = opened(book, Kind.COMPLETE, event.at, f"refused attempt: {prose(data.command)}")
    about = f" of {code(data.target)}" if data.target else ""
    status = f"{who} tried {prose(data.command)}{about}; nothing came of it"
    book = said(book, Key.STATUS, f"{status} (event {event.version})")
    return said(book, Key.EVIDENCE, f"rule {prose(data.rule)}: this needs a human")
