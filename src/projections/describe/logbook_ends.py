"""Logbook entries of how an instance ended, the decision, and who is asked."""

import re
from dataclasses import replace
from datetime import datetime

from watchkeeper.domain.reading.progress.progress import render_progress
from watchkeeper.domain.run.ends import (
    Action,
    DecisionMade,
    FailureClassified,
    RunFinished,
    RunStopped,
)
from watchkeeper.domain.run.launch import InstanceEnded, LaunchRefused
from watchkeeper.domain.run.questions import EscalationAcknowledged, EscalationRaised
from watchkeeper.domain.values.basic import JobFacts, JobState
from watchkeeper.domain.values.contract.contract import seals_itself
from watchkeeper.projections.describe.logbook_watch import (
    incomplete_checkpoints,
    newest_checkpoint,
    numbers,
    troubles,
)
from watchkeeper.projections.figures import elapsed
from watchkeeper.projections.logbook.state import (
    Facts,
    Key,
    Kind,
    Logbook,
    clock_time,
    exact_time,
    opened,
    said,
    takes,
)
from watchkeeper.projections.quoting import code, prose

_WHAT = {
    Action.RELAUNCH: "relaunch",
    Action.WAIT: "wait",
    Action.ESCALATE: "not relaunched, a human is asked",
    Action.VERIFY: "verify",
    Action.LEAVE: "leave it ended",
    Action.ALERT: "the job is left alone, a human is asked",
    Action.NOTIFY: "nothing is done, a human is told",
}
"""The meaning of each action, as the first words of a decision."""

_SAYS_NOTHING = re.compile(r"\s*(?:Traceback \(most recent call last\):\s*)?$")
"""Lines that mean nothing to a reader by themselves."""

_LOG_LINES_MAX = 2
"""The number of log lines shown for a failure; the check's event has all of them."""


def ended(book: Logbook, data: InstanceEnded, at: datetime, version: int) -> Logbook:
    """Open the entry of an instance that the orchestrator reported as terminal."""
    facts = book.facts
    seen_at = facts.checked_at or at
    asked = facts.stop_asked == data.instance
    good = data.job.state is JobState.SUCCEEDED
    current = facts.current
    if current is not None:
        current = replace(current, job=data.job, ended_at=at)
    bad = not good and not asked
    facts = replace(
        facts,
        current=current,
        ends=facts.ends + bad,
        down_since=at if bad else facts.down_since,
    )
    book = replace(book, facts=facts)
    planned = facts.relaunch_asked == data.instance
    word = "finished" if good else "stopped" if asked or planned else _ended_how(data.job)
    book = opened(book, Kind.END, seen_at, f"{data.instance} {word}{_where(facts, data)}")
    times = f"ended {exact_time(book, at)}, seen {clock_time(book, seen_at)}"
    if good:
        last = numbers(facts, facts.check) if facts.check is not None else ""
        return said(book, Key.STATUS, f"finished (event {version}); {times}; {last}")
    if asked:
        why = f"stopped as asked in event {facts.stop_version}"
        return said(book, Key.STATUS, f"{why}; {times} (event {version})")
    if planned:
        why = f"interrupted as asked in event {facts.relaunch_version}"
        return said(book, Key.STATUS, f"{why}; {times} (event {version})")
    since = f"{times}, {_since_healthy(book, seen_at)} (event {version})"
    return said(book, Key.STATUS, f"interrupted; {since}")


def _ended_how(job: JobFacts) -> str:
    return "failed" if job.state is JobState.FAILED else f"ended {job.state.value.upper()}"


def _where(facts: Facts, data: InstanceEnded) -> str:
    if data.step is None:
        return ", no step seen"
    final = facts.contract.final_step.value if facts.contract is not None else None
    return f" at {render_progress(data.step, data.step_uncertainty, final)}"


def _since_healthy(book: Logbook, at: datetime) -> str:
    healthy = book.facts.healthy_at
    current = book.facts.current
    launched = current.launched_at if current is not None else None
    if healthy is None or (launched is not None and healthy < launched):
        return "no healthy check since its launch"
    ago, when = elapsed(at - healthy), clock_time(book, healthy)
    return f"{ago} after the last healthy check ({when})"


def classified(book: Logbook, data: FailureClassified, at: datetime) -> Logbook:
    """Add the known facts about why an instance ended."""
    facts = book.facts
    check = facts.check
    lines = check.evidence if check is not None and check.instance == data.instance else ()
    stripped = {line.strip() for line in lines}
    parts = [code(e) if e.strip() in stripped else prose(e) for e in data.evidence]
    job = facts.current.job if facts.current is not None else None
    if job is not None and job.message and job.message not in data.evidence:
        parts.append(f"the orchestrator's words: {code(job.message)}")
    shown = {e.strip() for e in data.evidence}
    last = [line for line in lines if line.strip() not in shown and not _SAYS_NOTHING.match(line)]
    if last:
        parts.append("log: " + ", ".join(code(line) for line in last[-_LOG_LINES_MAX:]))
    if check is not None and check.instance == data.instance:
        newest = newest_checkpoint(facts, check)
        parts += [f"newest checkpoint {newest}"] if newest else []
        parts += [*incomplete_checkpoints(check), *troubles(check)]
    facts = replace(facts, failures=(*facts.failures, data), obstacle=data, judged=False)
    book = replace(book, facts=facts)
    if not takes(book, Key.EVIDENCE, Kind.END):
        book = opened(book, Kind.END, at, f"{data.instance} failed")
    return said(book, Key.EVIDENCE, "; ".join(parts), shown=data.evidence)


def refused_launch(book: Logbook, data: LaunchRefused, at: datetime, version: int) -> Logbook:
    """Open the entry of a job that the orchestrator refused."""
    book = opened(book, Kind.END, at, f"launch of {data.instance} refused")
    status = f"interrupted; nothing runs under {code(data.submission_id)} (event {version})"
    book = said(book, Key.STATUS, status)
    text = f"the orchestrator refused: {code(data.reason)}"
    return said(book, Key.EVIDENCE, text, shown=(data.reason,))


def decided(book: Logbook, data: DecisionMade, at: datetime, version: int) -> Logbook:
    """Add a decision to the entry that it answers, or open a new entry."""
    facts = book.facts
    kinds = (Kind.END, Kind.ANSWER)
    if data.action in (Action.ALERT, Action.NOTIFY):
        kinds = (Kind.END, Kind.FINDING)
    alone = not takes(book, Key.DECISION, *kinds)
    if alone:
        titles = {
            Action.RELAUNCH: f"relaunch decided after {data.instance}'s end",
            Action.ESCALATE: f"{data.instance}: a human is asked",
            Action.WAIT: f"{data.instance}: the orchestrator retries",
            Action.VERIFY: f"{data.instance}: the seal is verified",
            Action.LEAVE: f"{data.instance} is left alone",
            Action.ALERT: f"{data.instance}: a human is asked",
            Action.NOTIFY: f"{data.instance}: a human is told",
        }
        book = opened(book, Kind.END, at, titles[data.action])
    if data.action is Action.ALERT or (data.action is Action.NOTIFY and not _is_an_end(book)):
        return _notified(book, data, version)
    failure = facts.failures[-1] if facts.failures else None
    about = failure if failure is not None and failure.instance == data.instance else None
    if takes(book, Key.EVIDENCE, Kind.END):
        # The entry shows no evidence yet: a success, a stop, a late decision.
        book = said(book, Key.EVIDENCE, _cited(book, data), shown=data.evidence)
    cited = _cited(book, data)
    what = f"relaunch from step-{data.resume_step}" if data.resume_path else _WHAT[data.action]
    parts = [f"{what} ({data.rule}, event {version}): {prose(data.because)}"]
    parts += [] if about is None or facts.judged else _judged(facts, about, data)
    parts += [prose(text) for text in data.refused]
    lost = _lost(facts, about, data)
    parts += [lost] if lost else []
    parts += [f"Recoverable: {prose(data.recoverable)}"] if data.recoverable else []
    parts += [f"Cites {cited}"] if cited else []
    book = replace(book, facts=replace(facts, judged=True))
    book = said(book, Key.DECISION, ". ".join(parts))
    if data.action is Action.NOTIFY:
        return said(book, Key.NEXT, prose(data.proposes))
    if data.action is not Action.RELAUNCH:
        return book
    proves = f"; {prose(data.proves)}" if data.proves else ""
    return said(book, Key.NEXT, f"relaunch from step-{data.resume_step}{proves}")


def _is_an_end(book: Logbook) -> bool:
    current = book.facts.current
    return current is not None and current.job is not None


def _notified(book: Logbook, data: DecisionMade, version: int) -> Logbook:
    """Say who is notified of a live instance's finding; the finding's entry shows the rest."""
    text = f"{_WHAT[data.action]} ({data.rule}, event {version})"
    # The question that follows holds the advice of an alert.
    advice = f". {prose(data.proposes)}" if data.proposes and data.action is Action.NOTIFY else ""
    return said(book, Key.DECISION, text + advice)


def _cited(book: Logbook, data: DecisionMade) -> str:
    """Return the evidence of a decision that the entry does not show yet."""
    check = book.facts.check
    lines = {line.strip() for line in check.evidence} if check is not None else set[str]()
    cited = [text for text in data.evidence if text not in book.last.shown]
    return "; ".join(code(text) if text.strip() in lines else prose(text) for text in cited)


def _judged(facts: Facts, failure: FailureClassified, data: DecisionMade) -> list[str]:
    """Return cause, outlook and fingerprint, unless the decision's sentence has them."""
    parts: list[str] = []
    if f"outlook {failure.outlook.value}" not in data.because:
        parts.append(f"Cause {prose(failure.cause)}, outlook {failure.outlook.value}")
    same = [f.instance for f in facts.failures[:-1] if f.fingerprint == failure.fingerprint]
    again = f", the same as {', '.join(same)}" if same else ", not seen before"
    known = "fingerprint" in data.because and not same
    return [*parts, f"Fingerprint {prose(failure.fingerprint)}{'' if known else again}"]


def _lost(facts: Facts, failure: FailureClassified | None, data: DecisionMade) -> str:
    if failure is None or failure.step is None or data.resume_step is None:
        return ""
    steps = max(0, failure.step - data.resume_step)
    text = f"Lost: ~{steps} steps"
    source = facts.checkpoints.get(data.resume_step)
    current = facts.current
    if source is None or source.written_at is None or current is None or current.ended_at is None:
        return text
    return f"{text}, {elapsed(current.ended_at - source.written_at)} of training"


def asked(book: Logbook, data: EscalationRaised, run: str, at: datetime) -> Logbook:
    """Add a question to the entry that it is about, or open a new entry."""
    answer = " [--answer relaunch]" if "relaunch" in data.asks.lower() else ""
    reply = f'`watchkeeper ack {run} {data.question}{answer} --note "..."`'
    if takes(book, Key.NEXT, Kind.END, Kind.FINDING, Kind.ANSWER):
        # A question starts with the reason, which the lines above already show.
        short = data.asks.rpartition(". ")[2]
        return said(book, Key.NEXT, f"{data.question} to {prose(data.to)}: {prose(short)} {reply}")
    book = opened(book, Kind.COMPLETE, at, f"{prose(data.question)} ({prose(data.rule)})")
    book = said(book, Key.STATUS, f"{data.question} is open, to {prose(data.to)}")
    book = said(book, Key.EVIDENCE, "; ".join(prose(text) for text in data.evidence))
    return said(book, Key.NEXT, f"{prose(data.asks)} {reply}")


def acknowledged(book: Logbook, data: EscalationAcknowledged, by: str, at: datetime) -> Logbook:
    """Open the entry of an answered question."""
    words = {"noted": "acknowledged", "needless": "called needless"}
    word = words.get(data.answer, f"answered: {data.answer}")
    word = f"closed by {prose(data.closed_by)}" if data.closed_by else word
    book = opened(book, Kind.ANSWER, at, f"{prose(data.question)} {word}")
    note = f": {code(data.note, 2_000)}" if data.note.strip() else ", without a note"
    return said(book, Key.STATUS, f"taken by {by}{note}")


def finished(book: Logbook, data: RunFinished, at: datetime) -> Logbook:
    """Say what follows a success."""
    if not takes(book, Key.NEXT, Kind.END):
        book = opened(book, Kind.END, at, f"{data.instance} finished")
    contract = book.facts.contract
    if contract is not None and seals_itself(contract):
        return said(book, Key.NEXT, "the seal is verified, then its tag is pushed")
    run = contract.run if contract is not None else "RUN"
    return said(book, Key.NEXT, f"`watchkeeper seal {run}` when wanted; nothing is watched now")


def stopped(book: Logbook, data: RunStopped, by: str, at: datetime) -> Logbook:
    """Say that a person ended a run."""
    if takes(book, Key.NEXT, Kind.END) and book.last.written is Key.DECISION:
        return said(book, Key.NEXT, "none; the run is over and nothing relaunches it")
    book = opened(book, Kind.COMPLETE, at, "run stopped")
    book = said(book, Key.STATUS, f"stopped by {by}: {code(data.reason)}")
    return said(book, Key.NEXT, "none; nothing relaunches it")
