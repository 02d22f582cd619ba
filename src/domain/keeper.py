"""The keeper's own errors, counted from what is on record: how often it was wrong, and how.

Four kinds, each out of the cases in which it could have been wrong. A cause that was said to be
unknown is no error: it is an answer. What nobody ever corrected counts as right, so these are
lower bounds.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from watchkeeper.domain.events import (
    CheckRecorded,
    EscalationAcknowledged,
    EscalationRaised,
    FailureClassified,
    FailureRevised,
    FindingCleared,
    FindingOpened,
    FindingRaised,
    InstanceLaunched,
    LaunchRequested,
    RunEvent,
    Severity,
)

UNKNOWN = "unknown"

BY_A_HUMAN = frozenset({"R18", "R19"})
"""Rules whose relaunches a human asked for, or answered a question with: they are no restarts
of the keeper's own."""

CLEARED_ITSELF = "no longer holds"
"""The reason of a finding that cleared while its instance lived on."""

ALARMED_WHILE_ALIVE = frozenset({"numerical_instability", "collective_hang"})
"""Causes that show in a run before they end it, so that a finding is due while it lives."""


@dataclass(frozen=True, slots=True)
class Keeper:
    """How often the keeper judged, and how often it was wrong.

    Attributes:
        causes: Failures for which it named a cause.
        causes_wrong: Those whose cause was revised to another one.
        restarts: Instances that it relaunched by a rule.
        restarts_false: Those that failed again in the same way without progress.
        alarms: Ends that a finding should have come before.
        alarms_missed: Those before which none did.
        pages: Questions that it asked.
        pages_needless: Those that a human called needless, or whose finding cleared by itself
            before anyone answered.
        alarmed: An alert was opened since the newest instance was launched.
        restarted: The newest instance was relaunched by a rule.
        unanswered: Alerts whose question waits, by the finding's rule.
        causes_named: The cause as it was named first, by the failure's version.
    """

    causes: int = 0
    causes_wrong: int = 0
    restarts: int = 0
    restarts_false: int = 0
    alarms: int = 0
    alarms_missed: int = 0
    pages: int = 0
    pages_needless: int = 0
    alarmed: bool = False
    restarted: bool = False
    unanswered: Mapping[str, str] = field(default_factory=dict[str, str])
    causes_named: Mapping[int, str] = field(default_factory=dict[int, str])


def counted(keeper: Keeper, fact: RunEvent, version: int, *, again: bool) -> Keeper:
    """Count one event.

    Args:
        keeper: The counts before it.
        fact: The event.
        version: Its place in the run's history.
        again: It is the same failure as the one before, without progress past that.
    """
    if isinstance(fact, CheckRecorded):
        return keeper  # The most frequent event goes past all cases.
    match fact:
        case LaunchRequested(reason=reason):
            by_rule = reason.startswith("R") and reason not in BY_A_HUMAN
            return replace(keeper, restarts=keeper.restarts + by_rule, restarted=by_rule)
        case FailureClassified(cause=cause):
            return _failed(keeper, cause, version, again=again)
        case FailureRevised(failure=failure, cause=cause):
            return revised(keeper, failure, cause)
        case FindingRaised(severity=Severity.ALERT):
            return replace(keeper, alarmed=True)
        case FindingOpened(severity=severity):
            return replace(keeper, alarmed=keeper.alarmed or severity is Severity.ALERT)
        case InstanceLaunched():
            return replace(keeper, alarmed=False)
        case EscalationRaised(rule=rule, question=question):
            waiting = {**keeper.unanswered, question: rule}
            return replace(keeper, pages=keeper.pages + 1, unanswered=waiting)
        case EscalationAcknowledged(question=question, answer=answer):
            needless = keeper.pages_needless + (answer == "needless")
            left = {name: rule for name, rule in keeper.unanswered.items() if name != question}
            return replace(keeper, pages_needless=needless, unanswered=left)
        case FindingCleared(rule=rule, reason=reason) if reason == CLEARED_ITSELF:
            names = [name for name, of in keeper.unanswered.items() if of == rule]
            left = {name: of for name, of in keeper.unanswered.items() if name not in names}
            needless = keeper.pages_needless + len(names)
            return replace(keeper, pages_needless=needless, unanswered=left)
        case _:
            return keeper


def _failed(keeper: Keeper, cause: str, version: int, *, again: bool) -> Keeper:
    named = cause != UNKNOWN
    due = cause in ALARMED_WHILE_ALIVE
    return replace(
        keeper,
        causes=keeper.causes + named,
        causes_named={**keeper.causes_named, version: cause},
        restarts_false=keeper.restarts_false + (again and keeper.restarted),
        restarted=False,
        alarms=keeper.alarms + due,
        alarms_missed=keeper.alarms_missed + (due and not keeper.alarmed),
    )


def revised(keeper: Keeper, version: int, cause: str) -> Keeper:
    """Count a failure's cause as wrong, where another one was named before.

    Args:
        keeper: The counts before.
        version: The failure's place in the run's history.
        cause: What it is known to be now.
    """
    before = keeper.causes_named.get(version, UNKNOWN)
    if before in (UNKNOWN, cause):
        return keeper
    named = {**keeper.causes_named, version: cause}
    return replace(keeper, causes_wrong=keeper.causes_wrong + 1, causes_named=named)
