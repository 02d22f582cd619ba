"""How questions to people and their answers read."""

from collections.abc import Iterable
from dataclasses import replace

from watchkeeper.domain.run.envelope import Event
from watchkeeper.domain.run.questions import EscalationAcknowledged, EscalationRaised, QuestionTaken
from watchkeeper.projections.describe.description import (
    Description,
    Headline,
    because,
    by,
    entry,
    slug,
    words,
)
from watchkeeper.projections.logbook.state import Key, Kind, Logbook, said, takes
from watchkeeper.projections.quoting import TITLE_MAX, code, prose


def _raised(book: Logbook, data: EscalationRaised, event: Event) -> Logbook:
    """Add a question to the entry that it is about, or open a new entry."""
    name = prose(data.question, TITLE_MAX)
    answers = ("relaunch", "leave") if "relaunch" in data.asks.lower() else ("leave",)
    replies = [
        code(f'watchkeeper answer {slug(event)} {data.question} {one} --reason "..."')
        for one in answers
    ]
    open_now = {**book.facts.questions, name: f"{prose(data.to)} answers with {replies[0]}"}
    book = replace(book, facts=replace(book.facts, questions=open_now))
    if takes(book, Key.NEXT, Kind.END, Kind.FINDING, Kind.ANSWER):
        # A question starts with the reason, which the lines above already show.
        short = data.asks.rpartition(". ")[2]
        return said(book, Key.NEXT, f"{prose(data.to)} answers {name}: {prose(short)}", replies)
    title = f"question {name}"
    status = f"open, for {prose(data.to)}"
    evidence = [prose(text) for text in data.evidence]
    then = [prose(data.asks), *replies]
    rule = data.rule
    return entry(book, event, title, status=status, rule=rule, evidence=evidence, then=then)


def _taken(book: Logbook, data: QuestionTaken, event: Event) -> Logbook:
    status = f"{by(event)} works on it; it stays open"
    title = f"question {prose(data.question, TITLE_MAX)}: somebody is on it"
    evidence = words(data.note)
    return entry(book, event, title, kind=Kind.ANSWER, status=status, evidence=evidence)


def _acknowledged(book: Logbook, data: EscalationAcknowledged, event: Event) -> Logbook:
    results = {"noted": "answered", "needless": "answered: nobody had to be asked"}
    result = results.get(data.answer, f"answered: {data.answer}")
    result = f"closed by {prose(data.closed_by, TITLE_MAX)}" if data.closed_by else result
    book = closed(book, [data.question])
    title = f"question {prose(data.question, TITLE_MAX)} {result}"
    status = f"by {by(event)}"
    evidence = words(data.note)
    return entry(book, event, title, kind=Kind.ANSWER, status=status, evidence=evidence)


def closed(book: Logbook, names: Iterable[str]) -> Logbook:
    """Remove questions from those that are open."""
    gone = {prose(name, TITLE_MAX) for name in names}
    left = {name: reply for name, reply in book.facts.questions.items() if name not in gone}
    return replace(book, facts=replace(book.facts, questions=left))


def _acknowledged_line(data: EscalationAcknowledged) -> str:
    how = f"closed by {data.closed_by}" if data.closed_by else f"answered ({data.answer})"
    return because(f"{data.question} {how}", data.note)


EVENTS = (
    Description(
        EscalationRaised,
        Headline.ESCALATION,
        lambda data: f"{data.question} for {data.to}: {data.asks} ({data.rule})",
        _raised,
    ),
    Description(
        QuestionTaken,
        Headline.ANSWER,
        lambda data: because(f"somebody works on {data.question}", data.note),
        _taken,
    ),
    Description(EscalationAcknowledged, Headline.ANSWER, _acknowledged_line, _acknowledged),
)
