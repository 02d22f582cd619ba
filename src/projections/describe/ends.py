"""How the end of an instance reads: its cause, the decision, the end of the run."""

import re
from dataclasses import replace

from watchkeeper.domain.run.ends import (
    Action,
    CauseSuggested,
    DecisionMade,
    FailureClassified,
    FailureRevised,
    FixPushed,
    HypothesesJudged,
    ResumeProven,
    RunAbandoned,
    RunFinished,
    RunStopped,
)
from watchkeeper.domain.run.envelope import Event
from watchkeeper.domain.values.causes import OUTLOOK_SAYS
from watchkeeper.domain.values.contract.contract import seals_itself
from watchkeeper.projections.describe.check import (
    evidence_items,
    incomplete_checkpoints,
    newest_checkpoint,
    troubles,
)
from watchkeeper.projections.describe.description import (
    Description,
    Headline,
    because,
    by,
    entry,
    sha,
    words,
)
from watchkeeper.projections.figures import count, elapsed
from watchkeeper.projections.logbook.state import (
    Facts,
    Key,
    Kind,
    Logbook,
    opened,
    over,
    said,
    takes,
    with_state,
)
from watchkeeper.projections.quoting import TITLE_MAX, block, code, prose

_WHAT = {
    Action.RELAUNCH: "relaunch",
    Action.WAIT: "wait for the orchestrator's own retry",
    Action.ESCALATE: "no relaunch; a human is asked",
    Action.VERIFY: "verify the artefacts, then seal",
    Action.LEAVE: "no relaunch",
    Action.ALERT: "the job is left alone; a human is asked",
    Action.NOTIFY: "the job is left alone; a human is notified",
}

_SAYS_NOTHING = re.compile(r"\s*(?:Traceback \(most recent call last\):\s*)?$")
"""Lines that mean nothing to a reader by themselves."""

_LOG_LINES_MAX = 2
"""The number of log lines shown for a failure; the check's event has all of them."""

_FILES_SHOWN = 8


_RESUMED = {
    "same": "recovered: its losses continue those from before",
    "differs": "not recovered: its losses differ from those before",
    "not_comparable": "recovered: its losses cannot be compared",
}


def _classified(book: Logbook, data: FailureClassified, event: Event) -> Logbook:
    """Add the known facts about why an instance ended."""
    facts = book.facts
    check = facts.check
    lines = check.evidence if check is not None and check.instance == data.instance else ()
    cited = evidence_items(facts, data.evidence)
    parts = [item for item in cited if "\n" not in item]
    job = facts.current.job if facts.current is not None else None
    if job is not None and job.message and job.message not in data.evidence:
        parts.append(f"the orchestrator says {code(job.message)}")
    if check is not None and check.instance == data.instance:
        newest = newest_checkpoint(facts, check)
        parts += [f"newest checkpoint {newest}"] if newest else []
        parts += [*incomplete_checkpoints(check), *troubles(check, facts)]
    parts += [item for item in cited if "\n" in item]
    shown = {e.strip() for e in data.evidence}
    last = [line for line in lines if line.strip() not in shown and not _SAYS_NOTHING.match(line)]
    parts += ["the log's last lines:" + block(last[-_LOG_LINES_MAX:])] if last else []
    facts = replace(facts, failures=(*facts.failures, data), obstacle=data, judged=False)
    book = replace(book, facts=facts)
    if not takes(book, Key.EVIDENCE, Kind.END):
        book = opened(book, Kind.END, event.at, f"{data.instance} failed")
    return said(book, Key.EVIDENCE, "", parts, shown=data.evidence)


def _decided(book: Logbook, data: DecisionMade, event: Event) -> Logbook:
    """Add a decision to the entry that it answers, or open a new entry."""
    facts = book.facts
    kinds = (Kind.END, Kind.ANSWER)
    if data.action in (Action.ALERT, Action.NOTIFY):
        kinds = (Kind.END, Kind.FINDING)
    alone = not takes(book, Key.DECISION, *kinds)
    if alone:
        titles = {
            Action.RELAUNCH: f"relaunch decided after the end of {data.instance}",
            Action.ESCALATE: f"{data.instance}: a human is asked",
            Action.WAIT: f"{data.instance}: the orchestrator retries",
            Action.VERIFY: f"{data.instance}: its artefacts are verified",
            Action.LEAVE: f"{data.instance} is not relaunched",
            Action.ALERT: f"{data.instance}: a human is asked",
            Action.NOTIFY: f"{data.instance}: a human is notified",
        }
        book = opened(book, Kind.END, event.at, titles[data.action])
    if data.action is Action.ALERT or (data.action is Action.NOTIFY and not _is_an_end(book)):
        return _notified(book, data, event.version)
    failure = facts.failures[-1] if facts.failures else None
    about = failure if failure is not None and failure.instance == data.instance else None
    if takes(book, Key.EVIDENCE, Kind.END):
        # The entry shows no evidence yet: a success, a stop, a late decision.
        book = said(book, Key.EVIDENCE, "", _cited(book, data), shown=data.evidence)
    cited = ", ".join(_cited(book, data))
    what = f"relaunch from step-{data.resume_step}" if data.resume_path else _WHAT[data.action]
    parts = [prose(data.because)]
    parts += [] if about is None or facts.judged else _known(facts, about, data)
    parts += [prose(text) for text in data.refused]
    parts.append(_lost(facts, about, data))
    parts += [f"recoverable: {prose(data.recoverable)}"] if data.recoverable else []
    parts += [f"based on {cited}"] if cited else []
    parts.append(f"rule {data.rule} (event {event.version})")
    book = replace(book, facts=replace(facts, judged=True))
    if _is_an_end(book):
        book = with_state(book, f"{facts.state or data.instance}; {what}")
    book = said(book, Key.DECISION, what, parts)
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
    # The question that follows holds the advice of an alert.
    advice = f". {prose(data.proposes)}" if data.proposes and data.action is Action.NOTIFY else ""
    rule = f"(rule {data.rule}, event {version})"
    return said(book, Key.DECISION, f"{_WHAT[data.action]}{advice} {rule}")


def _cited(book: Logbook, data: DecisionMade) -> list[str]:
    """Return the evidence of a decision that the entry does not show yet."""
    check = book.facts.check
    lines = {line.strip() for line in check.evidence} if check is not None else set[str]()
    cited = [text for text in data.evidence if text not in book.last.shown]
    return [code(text) if text.strip() in lines else prose(text) for text in cited]


def _known(facts: Facts, failure: FailureClassified, data: DecisionMade) -> list[str]:
    """Return cause, outlook and fingerprint, unless the decision's sentence has them."""
    parts: list[str] = []
    if f"cause {failure.cause}" not in data.because:
        parts.append(f"cause {prose(failure.cause)}: {OUTLOOK_SAYS[failure.outlook]}")
    same = [f.instance for f in facts.failures[:-1] if f.fingerprint == failure.fingerprint]
    again = f", the same as {', '.join(same)}" if same else ", not seen before"
    known = "fingerprint" in data.because and not same
    return [*parts, f"fingerprint {prose(failure.fingerprint)}{'' if known else again}"]


def _lost(facts: Facts, failure: FailureClassified | None, data: DecisionMade) -> str:
    if failure is None or failure.step is None or data.resume_step is None:
        return ""
    steps = max(0, failure.step - data.resume_step)
    text = f"lost: ~{count(steps, 'step')}"
    source = facts.checkpoints.get(data.resume_step)
    current = facts.current
    if source is None or source.written_at is None or current is None or current.ended_at is None:
        return text
    return f"{text}, {elapsed(current.ended_at - source.written_at)} of training"


def _finished(book: Logbook, data: RunFinished, event: Event) -> Logbook:
    """Say what follows a success."""
    if not takes(book, Key.NEXT, Kind.END):
        book = opened(book, Kind.END, event.at, f"{data.instance} finished")
    book = with_state(book, f"{data.instance} finished; the run is not sealed yet")
    contract = book.facts.contract
    if contract is not None and seals_itself(contract):
        return said(book, Key.NEXT, "the artefacts are verified, then the seal's tag is pushed")
    run = contract.run if contract is not None else "RUN"
    return said(book, Key.NEXT, f"`watchkeeper run seal {run}` when wanted; the watch has ended")


def _stopped(book: Logbook, data: RunStopped, event: Event) -> Logbook:
    book = over(book, "the run is stopped; it will not be relaunched")
    if takes(book, Key.NEXT, Kind.END) and book.last.written is Key.DECISION:
        return said(book, Key.NEXT, "nothing; the run is over")
    status = f"stopped by {by(event)}"
    then = "nothing; the run is over"
    reason = words(data.reason)
    return entry(book, event, "run stopped", status=status, evidence=reason, then=then)


def _abandoned(book: Logbook, data: RunAbandoned, event: Event) -> Logbook:
    book = over(book, "the run is abandoned")
    status = f"abandoned by {by(event)}"
    then = "nothing; the record stays"
    reason = words(data.reason)
    return entry(book, event, "run abandoned", status=status, evidence=reason, then=then)


def _suggested(book: Logbook, data: CauseSuggested, event: Event) -> Logbook:
    title = f"hypotheses about the end of {data.instance}"
    status = f"from {code(data.source)}, about event {data.failure}; no rule reads them"
    evidence = [code(text) for text in data.hypotheses] or ["no hypothesis"]
    if data.failed:
        evidence = [f"no answer: {prose(data.failed)}"]
    return entry(book, event, title, status=status, evidence=evidence)


def _revised(book: Logbook, data: FailureRevised, event: Event) -> Logbook:
    # After a human's revision, a new decision may follow in the same append.
    open_yet = event.envelope.actor.kind == "human"
    now = f"fingerprint {prose(data.fingerprint)}: {OUTLOOK_SAYS[data.outlook]}"
    cause, before = prose(data.cause, TITLE_MAX), prose(data.before, TITLE_MAX)
    title = f"cause of the end of {data.instance} corrected: {cause} instead of {before}"
    kind = Kind.ANSWER if open_yet else Kind.COMPLETE
    status = f"corrects event {data.failure}, by {by(event)}"
    evidence = [prose(data.because), *(code(text) for text in data.evidence)]
    decision = "" if open_yet else f"later decisions use {now}"
    return entry(book, event, title, kind=kind, status=status, evidence=evidence, decision=decision)


def _judged(book: Logbook, data: HypothesesJudged, event: Event) -> Logbook:
    out = ", ".join(one.value for one in data.ruled_out)
    left = ", ".join(one.value for one in data.ruled_in)
    says = [f"ruled out: {out}"] if out else ["nothing is ruled out"]
    says += [f"left as the cause: {left}"] if left else []
    title = f"possible causes tested by {data.instance}"
    status = f"result of the test that event {data.decision} planned"
    evidence = [prose(data.because), *(prose(text) for text in data.evidence)]
    return entry(book, event, title, status=status, evidence=evidence, decision="; ".join(says))


def _resumed(book: Logbook, data: ResumeProven, event: Event) -> Logbook:
    title = f"{data.instance} {_RESUMED[data.verdict]}"
    status = f"resumed from step {data.from_step}"
    evidence = [prose(data.because), *(prose(text) for text in data.evidence)]
    return entry(book, event, title, status=status, evidence=evidence)


def _fixed(book: Logbook, data: FixPushed, event: Event) -> Logbook:
    shown = ", ".join(code(path) for path in data.changed[:_FILES_SHOWN])
    files = count(len(data.changed), "file")
    title = f"small fix {sha(data.git_sha)} for {data.instance}"
    status = f"reported by {by(event)}, covered by {prose(data.approval)}"
    changes = f"{sha(data.before)} -> {sha(data.git_sha)} changes {files}: {shown}"
    evidence = [changes, words(data.reason)]
    return entry(book, event, title, kind=Kind.ANSWER, status=status, evidence=evidence)


def _classified_line(data: FailureClassified) -> str:
    return f"{data.instance} failed: cause {data.cause} (fingerprint {data.fingerprint})"


def _finished_line(data: RunFinished) -> str:
    where = "" if data.step is None else f" at ~{data.step}"
    return f"{data.instance} finished{where}; its artefacts are not verified yet"


def _suggested_line(data: CauseSuggested) -> str:
    what = f"{data.source} about the end of {data.instance} (event {data.failure})"
    if data.failed:
        return f"no answer from {what}: {data.failed}"
    return f"hypotheses from {what}: {'; '.join(data.hypotheses) or 'none'}"


def _revised_line(data: FailureRevised) -> str:
    what = f"the end of {data.instance} (event {data.failure})"
    return f"cause of {what} is now {data.cause}, not {data.before}: {data.because}"


def _judged_line(data: HypothesesJudged) -> str:
    out = ", ".join(one.value for one in data.ruled_out) or "nothing"
    left = ", ".join(one.value for one in data.ruled_in)
    return f"ruled out: {out}{f'; left: {left}' if left else ''}: {data.because}"


def _resumed_line(data: ResumeProven) -> str:
    word = data.verdict.replace("_", " ")
    return f"{data.instance} resumed from step {data.from_step}, {word}: {data.because}"


def _fixed_line(data: FixPushed) -> str:
    shas = f"{sha(data.before)} -> {sha(data.git_sha)}"
    return because(f"small fix {shas}, {count(len(data.changed), 'file')}", data.reason)


EVENTS = (
    Description(FailureClassified, Headline.FAILURE, _classified_line, _classified),
    Description(
        DecisionMade,
        lambda data: Headline.ESCALATION if data.action is Action.ESCALATE else Headline.DECISION,
        lambda data: f"{data.action.value}: {data.because} ({data.rule})",
        _decided,
    ),
    Description(RunFinished, Headline.FINISH, _finished_line, _finished),
    Description(RunStopped, Headline.STOP, lambda data: f"run stopped: {data.reason}", _stopped),
    Description(
        RunAbandoned, Headline.ABANDON, lambda data: f"run abandoned: {data.reason}", _abandoned
    ),
    Description(CauseSuggested, Headline.NOTE, _suggested_line, _suggested),
    Description(FailureRevised, Headline.REVISION, _revised_line, _revised),
    Description(HypothesesJudged, Headline.DECISION, _judged_line, _judged),
    Description(ResumeProven, Headline.RESUME, _resumed_line, _resumed),
    Description(FixPushed, Headline.FIX, _fixed_line, _fixed),
)
