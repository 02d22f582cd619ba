"""How questions to people and their answers read."""

from watchkeeper.domain.run.envelope import Event
from watchkeeper.domain.run.questions import EscalationAcknowledged, EscalationRaised, QuestionTaken
from watchkeeper.projections.describe.description import (
    Description,
    Headline,
    because,
    by,
    entry,
    slug,
)
from watchkeeper.projections.logbook.state import (
    Key,
    Kind,
    Logbook,
    said,
    takes,
)
from watchkeeper.projections.quoting import code, prose


def _raised(book: Logbook, data: EscalationRaised, event: Event) -> Logbook:
    """Add a question to the entry that it is about, or open a new entry."""
    relaunches = "relaunch" in data.asks.lower()
    answer = "relaunch" if relaunches else "leave"
    reply = f'`watchkeeper answer {slug(event)} {data.question} {answer} --note "..."`'
    reply += " (or `leave`)" if relaunches else ""
    if takes(book, Key.NEXT, Kind.END, Kind.FINDING, Kind.ANSWER):
        # A question starts with the reason, which the lines above already show.
        short = data.asks.rpartition(". ")[2]
        return said(book, Key.NEXT, f"{data.question} to {prose(data.to)}: {prose(short)} {reply}")
    title = f"{prose(data.question)} ({prose(data.rule)})"
    status = f"{data.question} is open, to {prose(data.to)}"
    evidence = "; ".join(prose(text) for text in data.evidence)
    then = f"{prose(data.asks)} {reply}"
    return entry(book, event, title, numbered=False, status=status, evidence=evidence, then=then)


def _taken(book: Logbook, data: QuestionTaken, event: Event) -> Logbook:
    note = f": {code(data.note, 2_000)}" if data.note.strip() else ""
    status = f"{by(event)} works on it{note}"
    title = f"{prose(data.question)} taken"
    return entry(book, event, title, kind=Kind.ANSWER, numbered=False, status=status)


def _acknowledged(book: Logbook, data: EscalationAcknowledged, event: Event) -> Logbook:
    words = {"noted": "answered", "needless": "called needless"}
    word = words.get(data.answer, f"answered: {data.answer}")
    word = f"closed by {prose(data.closed_by)}" if data.closed_by else word
    note = f": {code(data.note, 2_000)}" if data.note.strip() else ", without a note"
    title = f"{prose(data.question)} {word}"
    status = f"answered by {by(event)}{note}"
    return entry(book, event, title, kind=Kind.ANSWER, numbered=False, status=status)


def _acknowledged_line(data: EscalationAcknowledged) -> str:
    how = f"closed by {data.closed_by}" if data.closed_by else f"answered, {data.answer}"
    return because(f"{data.question} {how}", data.note)


EVENTS = (
    Description(
        EscalationRaised,
        Headline.ESCALATION,
        lambda data: f"{data.question} to {data.to} ({data.rule}): {data.asks}",
        _raised,
    ),
    Description(
        QuestionTaken,
        Headline.ANSWER,
        lambda data: because(f"{data.question} is worked on", data.note),
        _taken,
    ),
    Description(EscalationAcknowledged, Headline.ANSWER, _acknowledged_line, _acknowledged),
)
