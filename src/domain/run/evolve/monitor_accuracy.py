"""Counts the monitor's own errors, event by event."""

from dataclasses import replace

from watchkeeper.domain.run.ends import FailureClassified, FailureRevised
from watchkeeper.domain.run.events import RunEvent
from watchkeeper.domain.run.health import FindingCleared, FindingOpened, FindingRaised
from watchkeeper.domain.run.launch import InstanceLaunched, LaunchRequested
from watchkeeper.domain.run.monitor_accuracy import (
    ALERTING,
    BY_A_HUMAN,
    CLEARED_ITSELF,
    LOG_SIGNATURE,
    UNKNOWN,
    End,
    MonitorAccuracy,
)
from watchkeeper.domain.run.questions import EscalationAcknowledged, EscalationRaised
from watchkeeper.domain.run.watch import CheckRecorded


def counted(
    accuracy: MonitorAccuracy, fact: RunEvent, version: int, *, again: bool
) -> MonitorAccuracy:
    """Count one event.

    Args:
        accuracy: The counts before the event.
        fact: The event.
        version: Its place in the run's history.
        again: Whether it is the same failure as the previous one, without progress past it.
    """
    if isinstance(fact, CheckRecorded):
        return accuracy  # The most frequent event matches no case.
    match fact:
        case LaunchRequested(reason=reason):
            by_rule = reason.startswith("R") and reason not in BY_A_HUMAN
            accuracy = replace(accuracy, restarts=accuracy.restarts + by_rule, restarted=by_rule)
            end = accuracy.ends.get(accuracy.newest) if by_rule else None
            return accuracy if end is None else _judged(accuracy, replace(end, restart=reason))
        case FailureClassified(cause=cause):
            return _failed(accuracy, cause, version, again=again)
        case FailureRevised(failure=failure, cause=cause):
            return revised(accuracy, failure, cause)
        case FindingOpened() | FindingRaised() if fact.kind == LOG_SIGNATURE:
            return replace(accuracy, named=accuracy.named | set(fact.about.split(", ")))
        case FindingCleared(reason=reason):
            named = fact.kind == LOG_SIGNATURE and reason == CLEARED_ITSELF
            accuracy = replace(accuracy, named=frozenset() if named else accuracy.named)
            if reason == CLEARED_ITSELF and not fact.closes:
                return _unpaged(accuracy, fact.rule)
            return _closed(accuracy, fact.closes)
        case FindingOpened(kind=kind) if kind in ALERTING:
            return replace(accuracy, alarmed=accuracy.alarmed | {kind})
        case InstanceLaunched():
            return replace(accuracy, alarmed=frozenset(), named=frozenset())
        case EscalationRaised(rule=rule, question=question):
            waiting = {**accuracy.unanswered, question: rule}
            return replace(accuracy, pages=accuracy.pages + 1, unanswered=waiting)
        case EscalationAcknowledged(question=question, answer=answer):
            needless = accuracy.pages_needless + (answer == "needless")
            return _closed(replace(accuracy, pages_needless=needless), (question,))
        case _:
            return accuracy


def _closed(accuracy: MonitorAccuracy, names: tuple[str, ...]) -> MonitorAccuracy:
    left = {name: of for name, of in accuracy.unanswered.items() if name not in names}
    return replace(accuracy, unanswered=left)


def _unpaged(accuracy: MonitorAccuracy, rule: str) -> MonitorAccuracy:
    """Count the questions that an older release left open at the end of their finding."""
    names = tuple(name for name, of in accuracy.unanswered.items() if of == rule)
    needless = accuracy.pages_needless + len(names)
    return _closed(replace(accuracy, pages_needless=needless), names)


def _failed(accuracy: MonitorAccuracy, cause: str, version: int, *, again: bool) -> MonitorAccuracy:
    before = accuracy.ends.get(accuracy.newest)
    if before is not None and again and accuracy.restarted:
        accuracy = _judged(accuracy, replace(before, again=True))
    end = End(version, cause, alarmed=accuracy.alarmed, named=accuracy.named)
    return replace(
        accuracy,
        causes=accuracy.causes + (cause != UNKNOWN),
        newest=version,
        ends={**accuracy.ends, version: end},
        restarted=False,
        alarms=accuracy.alarms + end.due,
        alarms_missed=accuracy.alarms_missed + end.missed,
    )


def revised(accuracy: MonitorAccuracy, version: int, cause: str) -> MonitorAccuracy:
    """Count a failure's cause as wrong, if another one was named before.

    A restart after the failure was false if the new cause would not have allowed it. An alarm was
    missed if the new cause shows before it ends a run.

    Args:
        accuracy: The counts before.
        version: The failure's place in the run's history.
        cause: The cause as known now.
    """
    before = accuracy.ends.get(version)
    if before is None or before.cause == cause:
        return accuracy
    wrong = accuracy.causes_wrong + (before.cause != UNKNOWN)
    accuracy = replace(accuracy, causes_wrong=wrong)
    return _judged(accuracy, replace(before, cause=cause, revised=True))


def _judged(accuracy: MonitorAccuracy, end: End) -> MonitorAccuracy:
    """Update an end, and the counts that change with it."""
    before = accuracy.ends[end.version]
    missed = end.missed - before.missed
    return replace(
        accuracy,
        ends={**accuracy.ends, end.version: end},
        restarts_false=accuracy.restarts_false + end.false_restart - before.false_restart,
        alarms=accuracy.alarms + end.due - before.due,
        alarms_missed=accuracy.alarms_missed + missed,
    )
