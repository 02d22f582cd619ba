"""Event lines and logbook entries of causes and of what a relaunch has shown."""

from typing import assert_never

from watchkeeper.domain.run.ends import (
    CauseSuggested,
    FailureRevised,
    FixPushed,
    HypothesesJudged,
    ResumeProven,
)
from watchkeeper.domain.run.envelope import Event
from watchkeeper.domain.run.events import JudgementEvent
from watchkeeper.projections.describe.logbook_launch import by
from watchkeeper.projections.figures import count
from watchkeeper.projections.logbook.state import Key, Kind, Logbook, opened, said
from watchkeeper.projections.quoting import WORDS_MAX, code, prose

_FILES_SHOWN = 8

_RESUMED = {
    "same": "recovered: resume proven",
    "differs": "not recovered: resume differs",
    "not_comparable": "recovered: resume not comparable",
}


def judgement(book: Logbook, data: JudgementEvent, event: Event) -> Logbook:
    """Write such an event to the event log; the entry that it refers to does not change."""
    match data:
        case CauseSuggested():
            return _suggested(book, data, event)
        case FailureRevised():
            return _revised(book, data, event)
        case HypothesesJudged():
            return _judged(book, data, event)
        case ResumeProven():
            return _resumed(book, data, event)
        case FixPushed():
            return _fixed(book, data, event)
        case _:
            assert_never(data)


def _suggested(book: Logbook, data: CauseSuggested, event: Event) -> Logbook:
    said_by = f"a second reader on {data.instance}'s end"
    book = opened(book, Kind.COMPLETE, event.at, said_by)
    status = f"{code(data.source)} on event {data.failure} (event {event.version})"
    book = said(book, Key.STATUS, status)
    if data.failed:
        return said(book, Key.EVIDENCE, f"no answer: {prose(data.failed)}")
    hypotheses = "; ".join(code(text, WORDS_MAX) for text in data.hypotheses) or "no hypothesis"
    return said(book, Key.EVIDENCE, f"{hypotheses}; no rule reads it")


def _revised(book: Logbook, data: FailureRevised, event: Event) -> Logbook:
    title = f"{data.instance}'s end was {prose(data.cause)}, not {prose(data.before)}"
    kind = Kind.ANSWER if event.envelope.actor.kind == "human" else Kind.COMPLETE
    book = opened(book, kind, event.at, title)
    status = f"revises event {data.failure}, by {by(event)} (event {event.version})"
    book = said(book, Key.STATUS, status)
    evidence = "; ".join(code(text, WORDS_MAX) for text in data.evidence)
    book = said(book, Key.EVIDENCE, f"{prose(data.because)}: {evidence}")
    if kind is Kind.ANSWER:
        return book  # A new decision may follow in the same append.
    then = f"outlook {data.outlook.value}, fingerprint {prose(data.fingerprint)}"
    return said(book, Key.DECISION, f"{then}: later decisions and budgets read that")


def _judged(book: Logbook, data: HypothesesJudged, event: Event) -> Logbook:
    out = ", ".join(one.value for one in data.ruled_out)
    left = ", ".join(one.value for one in data.ruled_in)
    title = f"ruled in: {left}" if left else "nothing is settled"
    title = f"ruled out: {out}" if out else title
    book = opened(book, Kind.COMPLETE, event.at, f"{data.instance} tells: {title}")
    status = f"what event {data.decision} put to the test (event {event.version})"
    book = said(book, Key.STATUS, status)
    shown = "; ".join(prose(text) for text in data.evidence)
    book = said(book, Key.EVIDENCE, f"{prose(data.because)}; {shown}")
    says = [f"ruled out {out}"] if out else ["nothing ruled out"]
    says += [f"ruled in {left}: nothing else is left"] if left else []
    return said(book, Key.DECISION, "; ".join(says))


def _resumed(book: Logbook, data: ResumeProven, event: Event) -> Logbook:
    title = f"{data.instance} {_RESUMED[data.verdict]}"
    book = opened(book, Kind.COMPLETE, event.at, title)
    status = f"resumed from step {data.from_step} (event {event.version})"
    book = said(book, Key.STATUS, status)
    shown = "; ".join(prose(text) for text in data.evidence)
    return said(book, Key.EVIDENCE, f"{prose(data.because)}; {shown}")


def _fixed(book: Logbook, data: FixPushed, event: Event) -> Logbook:
    book = opened(book, Kind.ANSWER, event.at, f"small fix {data.git_sha[:8]} for {data.instance}")
    status = f"reported by {by(event)}, covered by {prose(data.approval)} (event {event.version})"
    book = said(book, Key.STATUS, status)
    shown = ", ".join(code(path) for path in data.changed[:_FILES_SHOWN])
    files = count(len(data.changed), "file")
    parts = [f"{data.before[:8]} -> {data.git_sha[:8]} changes {files}: {shown}"]
    parts.append(f"their words: {code(data.reason, WORDS_MAX)}")
    return said(book, Key.EVIDENCE, "; ".join(parts))


def judgement_summary(data: JudgementEvent) -> str:
    """Say in one line what such an event records."""
    match data:
        case CauseSuggested(failed=""):
            what = f"{data.source} on {data.instance}'s end (event {data.failure})"
            return f"hypotheses of {what}: {'; '.join(data.hypotheses) or 'none'}"
        case CauseSuggested():
            what = f"{data.source} on {data.instance}'s end (event {data.failure})"
            return f"no hypothesis of {what}: {data.failed}"
        case FailureRevised():
            what = f"{data.instance}'s end (event {data.failure})"
            return f"{what} was {data.cause}, not {data.before}: {data.because}"
        case HypothesesJudged():
            out = ", ".join(one.value for one in data.ruled_out) or "nothing"
            left = ", ".join(one.value for one in data.ruled_in)
            return f"{data.because}: ruled out {out}" + (f", left {left}" if left else "")
        case ResumeProven():
            word = data.verdict.replace("_", " ")
            return f"{data.instance} resumed from step {data.from_step}, {word}: {data.because}"
        case FixPushed():
            shas = f"{data.before[:8]} -> {data.git_sha[:8]}"
            return f"small fix {shas}, {len(data.changed)} files: {data.reason}"
        case _:
            assert_never(data)
