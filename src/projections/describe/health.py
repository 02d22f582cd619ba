"""Describes findings for the logbook and lists: opened, raised and cleared."""

from dataclasses import replace

from watchkeeper.domain.run.envelope import Event
from watchkeeper.domain.run.health import FindingCleared, FindingOpened, FindingRaised, OpenFinding
from watchkeeper.domain.run.monitor_accuracy import LOG_SIGNATURE
from watchkeeper.domain.run.queries import MISSING_ARTEFACTS
from watchkeeper.domain.values.check import Severity
from watchkeeper.projections.describe.check import evidence_items
from watchkeeper.projections.describe.description import Description, Headline, entry
from watchkeeper.projections.describe.questions import closed
from watchkeeper.projections.logbook.state import Kind, Logbook
from watchkeeper.projections.quoting import TITLE_MAX, bullet, prose
from watchkeeper.projections.series import grown


def _opened(book: Logbook, data: FindingOpened, event: Event) -> Logbook:
    return _finding(book, data, event, "finding")


def _raised(book: Logbook, data: FindingRaised, event: Event) -> Logbook:
    severity_changed = data.severity is not data.before
    word = f"raised to {data.severity.value}" if severity_changed else "changed"
    return _finding(book, data, event, f"finding {word}")


def _finding(book: Logbook, data: OpenFinding, event: Event, title: str) -> Logbook:
    if data.kind == MISSING_ARTEFACTS:
        return book  # The entry about the blocked seal names them.
    title = f"{title}: {prose(_name(data), TITLE_MAX)}"
    status = f"{data.severity.value}: {prose(data.summary)}"
    is_alert = data.severity is Severity.ALERT
    book = _with_alert(book, data.kind, prose(data.summary, TITLE_MAX) if is_alert else "")
    evidence = evidence_items(book.facts, data.evidence, are_lines=data.kind == LOG_SIGNATURE)
    rule = data.rule
    return entry(book, event, title, kind=Kind.FINDING, status=status, rule=rule, evidence=evidence)


def _with_alert(book: Logbook, kind: str, summary: str) -> Logbook:
    alerts = {name: text for name, text in {**book.facts.alerts, kind: summary}.items() if text}
    return replace(book, facts=replace(book.facts, alerts=alerts))


def _cleared(book: Logbook, data: FindingCleared, event: Event) -> Logbook:
    # The entry about an end or a seal covers the findings that it closes.
    book = closed(_with_alert(book, data.kind, ""), data.closes)
    closes = f"closes {prose(', '.join(data.closes))}" if data.closes else ""
    by_end = book.last.kind is Kind.END and data.reason.endswith(" ended")
    if data.kind == MISSING_ARTEFACTS or by_end:
        line = bullet(f"C{closes[1:]}: finding {prose(data.rule)} is over (event {event.version})")
        return replace(book, entries=grown(book.entries, line)) if closes else book
    title = f"finding over: {prose(_name(data), TITLE_MAX)}"
    status = f"{prose(data.reason)}{f'; {closes}' if closes else ''}"
    return entry(book, event, title, status=status, rule=data.rule)


def _name(data: OpenFinding | FindingCleared) -> str:
    return data.kind.replace("_", " ")


def _raised_line(data: FindingRaised) -> str:
    how = "changed" if data.severity is data.before else f"raised from {data.before}"
    return f"{data.severity.value} {_name(data)} {how}: {data.summary} ({data.rule})"


def _cleared_line(data: FindingCleared) -> str:
    closes = f"; closes {', '.join(data.closes)}" if data.closes else ""
    return f"{_name(data)} is over: {data.reason}{closes} ({data.rule})"


EVENTS = (
    Description(
        FindingOpened,
        Headline.FINDING,
        lambda data: f"{data.severity.value} {_name(data)}: {data.summary} ({data.rule})",
        _opened,
    ),
    Description(FindingRaised, Headline.FINDING, _raised_line, _raised),
    Description(FindingCleared, Headline.FINDING, _cleared_line, _cleared),
)
