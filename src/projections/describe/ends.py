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
from watchkeeper.domain.values.contract.contract import seals_itself
from watchkeeper.projections.describe.check import (
    incomplete_checkpoints,
    newest_checkpoint,
    troubles,
)
from watchkeeper.projections.describe.description import (
    Description,
    Headline,
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
    said,
    takes,
)
from watchkeeper.projections.quoting import WORDS_MAX, code, prose

_WHAT = {
    Action.RELAUNCH: "relaunch",
    Action.WAIT: "wait",
    Action.ESCALATE: "not relaunched, a human is asked",
    Action.VERIFY: "verify",
    Action.LEAVE: "leave it ended",
    Action.ALERT: "the job was not touched, a human is asked",
    Action.NOTIFY: "nothing is done, a human is notified",
}

_SAYS_NOTHING = re.compile(r"\s*(?:Traceback \(most recent call last\):\s*)?$")
"""Lines that mean nothing to a reader by themselves."""

_LOG_LINES_MAX = 2
"""The number of log lines shown for a failure; the check's event has all of them."""

_FILES_SHOWN = 8


_RESUMED = {
    "same": "recovered: resume proven",
    "differs": "not recovered: resume differs",
    "not_comparable": "recovered: resume not comparable",
}


def _classified(book: Logbook, data: FailureClassified, event: Event) -> Logbook:
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
        book = opened(book, Kind.END, event.at, f"{data.instance} failed")
    return said(book, Key.EVIDENCE, "; ".join(parts), shown=data.evidence)


def _decided(book: Logbook, data: DecisionMade, event: Event) -> Logbook:
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
            Action.NOTIFY: f"{data.instance}: a human is notified",
        }
        book = opened(book, Kind.END, event.at, titles[data.action])
    if data.action is Action.ALERT or (data.action is Action.NOTIFY and not _is_an_end(book)):
        return _notified(book, data, event.version)
    failure = facts.failures[-1] if facts.failures else None
    about = failure if failure is not None and failure.instance == data.instance else None
    if takes(book, Key.EVIDENCE, Kind.END):
        # The entry shows no evidence yet: a success, a stop, a late decision.
        book = said(book, Key.EVIDENCE, _cited(book, data), shown=data.evidence)
    cited = _cited(book, data)
    what = f"relaunch from step-{data.resume_step}" if data.resume_path else _WHAT[data.action]
    parts = [f"{what} ({data.rule}, event {event.version}): {prose(data.because)}"]
    parts += [] if about is None or facts.judged else _known(facts, about, data)
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


def _known(facts: Facts, failure: FailureClassified, data: DecisionMade) -> list[str]:
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


def _finished(book: Logbook, data: RunFinished, event: Event) -> Logbook:
    """Say what follows a success."""
    if not takes(book, Key.NEXT, Kind.END):
        book = opened(book, Kind.END, event.at, f"{data.instance} finished")
    contract = book.facts.contract
    if contract is not None and seals_itself(contract):
        return said(book, Key.NEXT, "the seal is verified, then its tag is pushed")
    run = contract.run if contract is not None else "RUN"
    return said(book, Key.NEXT, f"`watchkeeper run seal {run}` when wanted; nothing is watched now")


def _stopped(book: Logbook, data: RunStopped, event: Event) -> Logbook:
    if takes(book, Key.NEXT, Kind.END) and book.last.written is Key.DECISION:
        return said(book, Key.NEXT, "none; the run is over and nothing relaunches it")
    status = f"stopped by {by(event)}: {code(data.reason)}"
    then = "none; nothing relaunches it"
    return entry(book, event, "run stopped", numbered=False, status=status, then=then)


def _abandoned(book: Logbook, data: RunAbandoned, event: Event) -> Logbook:
    status = f"given up by {by(event)}: {code(data.reason, WORDS_MAX)}"
    then = "none; the record stays"
    return entry(book, event, "run abandoned", status=status, then=then)


def _suggested(book: Logbook, data: CauseSuggested, event: Event) -> Logbook:
    hypotheses = "; ".join(code(text, WORDS_MAX) for text in data.hypotheses) or "no hypothesis"
    no_answer = f"no answer: {prose(data.failed)}"
    title = f"a second reader on {data.instance}'s end"
    status = f"{code(data.source)} on event {data.failure}"
    evidence = no_answer if data.failed else f"{hypotheses}; no rule reads it"
    return entry(book, event, title, status=status, evidence=evidence)


def _revised(book: Logbook, data: FailureRevised, event: Event) -> Logbook:
    # After a human's revision, a new decision may follow in the same append.
    open_yet = event.envelope.actor.kind == "human"
    cited = "; ".join(code(text, WORDS_MAX) for text in data.evidence)
    now = f"outlook {data.outlook.value}, fingerprint {prose(data.fingerprint)}"
    title = f"{data.instance}'s end was {prose(data.cause)}, not {prose(data.before)}"
    kind = Kind.ANSWER if open_yet else Kind.COMPLETE
    status = f"revises event {data.failure}, by {by(event)}"
    evidence = f"{prose(data.because)}: {cited}"
    decision = "" if open_yet else f"{now}: later decisions and budgets read that"
    return entry(book, event, title, kind=kind, status=status, evidence=evidence, decision=decision)


def _judged(book: Logbook, data: HypothesesJudged, event: Event) -> Logbook:
    out = ", ".join(one.value for one in data.ruled_out)
    left = ", ".join(one.value for one in data.ruled_in)
    found = f"ruled in: {left}" if left else "nothing is settled"
    found = f"ruled out: {out}" if out else found
    shown = "; ".join(prose(text) for text in data.evidence)
    says = [f"ruled out {out}"] if out else ["nothing ruled out"]
    says += [f"ruled in {left}: nothing else is left"] if left else []
    title = f"{data.instance}'s test of causes: {found}"
    status = f"what event {data.decision} put to the test"
    evidence = f"{prose(data.because)}; {shown}"
    decision = "; ".join(says)
    return entry(book, event, title, status=status, evidence=evidence, decision=decision)


def _resumed(book: Logbook, data: ResumeProven, event: Event) -> Logbook:
    shown = "; ".join(prose(text) for text in data.evidence)
    title = f"{data.instance} {_RESUMED[data.verdict]}"
    status = f"resumed from step {data.from_step}"
    evidence = f"{prose(data.because)}; {shown}"
    return entry(book, event, title, status=status, evidence=evidence)


def _fixed(book: Logbook, data: FixPushed, event: Event) -> Logbook:
    shown = ", ".join(code(path) for path in data.changed[:_FILES_SHOWN])
    files = count(len(data.changed), "file")
    changes = f"{sha(data.before)} -> {sha(data.git_sha)} changes {files}: {shown}"
    title = f"small fix {sha(data.git_sha)} for {data.instance}"
    status = f"reported by {by(event)}, covered by {prose(data.approval)}"
    evidence = f"{changes}; {words(data.reason)}"
    return entry(book, event, title, kind=Kind.ANSWER, status=status, evidence=evidence)


def _classified_line(data: FailureClassified) -> str:
    claim = f"{data.cause}, outlook {data.outlook.value}"
    return f"{data.instance} failed: {claim}, fingerprint {data.fingerprint}"


def _finished_line(data: RunFinished) -> str:
    where = "" if data.step is None else f" at ~{data.step}"
    return f"finished with {data.instance}{where}; artefacts not verified yet"


def _suggested_line(data: CauseSuggested) -> str:
    what = f"{data.source} on {data.instance}'s end (event {data.failure})"
    if data.failed:
        return f"no hypothesis of {what}: {data.failed}"
    return f"hypotheses of {what}: {'; '.join(data.hypotheses) or 'none'}"


def _revised_line(data: FailureRevised) -> str:
    what = f"{data.instance}'s end (event {data.failure})"
    return f"{what} was {data.cause}, not {data.before}: {data.because}"


def _judged_line(data: HypothesesJudged) -> str:
    out = ", ".join(one.value for one in data.ruled_out) or "nothing"
    left = ", ".join(one.value for one in data.ruled_in)
    return f"{data.because}: ruled out {out}" + (f", left {left}" if left else "")


def _resumed_line(data: ResumeProven) -> str:
    word = data.verdict.replace("_", " ")
    return f"{data.instance} resumed from step {data.from_step}, {word}: {data.because}"


def _fixed_line(data: FixPushed) -> str:
    shas = f"{sha(data.before)} -> {sha(data.git_sha)}"
    return f"small fix {shas}, {len(data.changed)} files: {data.reason}"


EVENTS = (
    Description(FailureClassified, Headline.FAILURE, _classified_line, _classified),
    Description(
        DecisionMade,
        lambda data: Headline.ESCALATION if data.action is Action.ESCALATE else Headline.DECISION,
        lambda data: f"{data.action.value} ({data.rule}): {data.because}",
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
