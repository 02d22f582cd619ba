"""Which open questions still need an answer.

A question that events have answered needs no action any more.
"""

from dataclasses import replace
from datetime import UTC, datetime

from watchkeeper.domain.run.ends import Action
from watchkeeper.domain.run.health import FindingCleared
from watchkeeper.domain.run.phases import Interrupted, Running, phase_name
from watchkeeper.domain.run.queries import health_now, is_recovering
from watchkeeper.domain.run.questions import EscalationRaised, Question
from watchkeeper.domain.run.run import Run
from watchkeeper.domain.values.check import Health
from watchkeeper.domain.values.instance import is_moving

_COMMAND = "`watchkeeper "


# --- What is remembered of them ------------------------------------------------------------------


def question_of(run: Run, data: EscalationRaised, at: datetime) -> Question:
    """Return the remembered form of a question, with the open finding that it is about."""
    newest = run.instances[-1].plan.instance if run.instances else ""
    question = Question(data.question, data.rule, data.asks, at, newest)
    of_rule = [found for found in run.health.findings.values() if found.rule == data.rule]
    for found in of_rule:
        if data.asks.removeprefix(f"{newest}: ").startswith(f"{found.summary}."):
            return replace(question, finding=found.kind, summary=found.summary)
    return question


def acknowledged(run: Run, name: str, version: int) -> Run:
    """Return a run after a human acknowledged one of its open questions."""
    taken, run = run.questions.open[name], closed(run, (name,), version)
    if taken.finding not in run.health.findings:
        return run
    known = {**run.questions.acknowledged, taken.finding: name}
    return replace(run, questions=replace(run.questions, acknowledged=known))


def cleared(run: Run, kind: str, rule: str, reason: str) -> FindingCleared:
    """Return the event that clears a finding and closes the questions about it."""
    closes = tuple(name for name, q in run.questions.open.items() if q.finding == kind)
    return FindingCleared(kind=kind, rule=rule, reason=reason, closes=closes)


def closed(run: Run, names: tuple[str, ...], version: int) -> Run:
    """Return a run without the questions that an event closed."""
    left = {name: q for name, q in run.questions.open.items() if name not in names}
    resolved = {**run.questions.resolved_by, **dict.fromkeys(names, version)}
    return replace(run, questions=replace(run.questions, open=left, resolved_by=resolved))


def asked_again(run: Run, kind: str) -> Run:
    """Return a run whose finding has changed, so that earlier answers do not apply."""
    if kind not in run.questions.acknowledged:
        return run
    left = {k: q for k, q in run.questions.acknowledged.items() if k != kind}
    return replace(run, questions=replace(run.questions, acknowledged=left))


def with_finding_cleared(run: Run, kind: str, at: datetime) -> Run:
    """Return a run with a cleared finding. Older releases left its questions open."""
    run = asked_again(run, kind)
    about = [
        name for name, q in run.questions.open.items() if q.finding == kind and q.cleared_at is None
    ]
    if not about:
        return run
    answered = {name: replace(run.questions.open[name], cleared_at=at) for name in about}
    questions = replace(run.questions, open={**run.questions.open, **answered})
    return replace(run, questions=questions)


# --- How they are worded -------------------------------------------------------------------------


def is_decided_since(run: Run, question: Question) -> bool:
    """Return whether a relaunch was decided after R10's question about a missing checkpoint."""
    decided = run.phase.decision if isinstance(run.phase, Interrupted) else None
    relaunches = decided is not None and decided.action is Action.RELAUNCH
    return question.rule == "R10" and relaunches


def is_answered(run: Run, question: Question) -> bool:
    """Return whether events answered a question.

    A cleared finding, a newer instance or a decided relaunch answers a question.
    """
    if question.cleared_at is not None or is_decided_since(run, question):
        return True
    newest = run.instances[-1].plan.instance if run.instances else ""
    return question.instance not in ("", newest)


def question_text(run: Run, question: Question) -> str:
    """Return what a question asks; if events answered it, only its subject."""
    if not is_answered(run, question):
        return question.asks
    if question.summary:
        return question.summary
    asked = question.asks
    # Its last sentences advise an action, which would now affect the running instance.
    while ". " in asked and (asked.endswith("?") or _COMMAND in asked):
        asked = asked.rpartition(". ")[0]
    return asked


def instance_fate(run: Run, question: Question) -> str:
    """Return the fate of the instance that a question was about, and what runs now.

    Returns:
        For example `i1 ended; i2 trains`; empty if no instance is known.
    """
    if not run.instances:
        return ""
    newest = run.instances[-1].plan.instance
    if is_decided_since(run, question):
        return f"{newest} is to be relaunched"
    before = f"{question.instance} ended; " if question.instance not in ("", newest) else ""
    return f"{before}{newest} {_now(run)}"


def answer_of(run: Run, question: Question) -> str:
    """Return how events answered a question; empty if it is still open."""
    if not is_answered(run, question):
        return ""
    at = question.cleared_at
    cleared = f"cleared {at.astimezone(UTC):%Y-%m-%d %H:%M UTC}" if at is not None else ""
    answers = "; ".join(part for part in (cleared, instance_fate(run, question)) if part)
    close = f'close it with `watchkeeper answer {run.slug} {question.name} leave --reason "..."`'
    return f"answered by events: {answers}; {close}"


def describe_question(run: Run, question: Question) -> str:
    """Return a question in one line, with its name and its rule."""
    words = f"{question.name} ({question.rule}): {question_text(run, question)}"
    answer = answer_of(run, question)
    return f"{words}; {answer}" if answer else words


def _now(run: Run) -> str:
    plan = run.instances[-1].plan
    healthy = run.health.verdict is Health.HEALTHY or is_recovering(run)
    if isinstance(run.phase, Running) and healthy and is_moving(plan, run.watch.progress):
        return "trains"
    return f"is {phase_name(run.phase)}, health {health_now(run).value}"
