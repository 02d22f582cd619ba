"""How often the monitor was wrong, and how, counted from the record.

Four kinds, each out of the cases in which it could have been wrong. A cause that was said to be
unknown is no error: it is an answer. What nobody ever corrected counts as right, so these are
lower bounds. Where an end is revised, the restart made on it and the alarm due before it are judged
by what it is taken for now.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from watchkeeper.domain.run.ends import FailureClassified, FailureRevised
from watchkeeper.domain.run.events import RunEvent
from watchkeeper.domain.run.health import FindingCleared, FindingOpened, FindingRaised
from watchkeeper.domain.run.launch import InstanceLaunched, LaunchRequested
from watchkeeper.domain.run.questions import EscalationAcknowledged, EscalationRaised
from watchkeeper.domain.run.watch import CheckRecorded
from watchkeeper.domain.values.causes import Outlook, cause_of

DUE_BEFORE: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "numerical_instability": frozenset(
            {
                "not_finite",
                "gradient_explosion",
                "z_loss_jump",
                "router_collapse",
                "optimizer_instability",
                "loss_raised",
                "loss_shift",
            }
        ),
        "collective_hang": frozenset({"not_training", "degraded"}),
        "disk_full": frozenset({"disk_low"}),
        "checkpoint_error": frozenset({"checkpoint_stalled", "checkpoint_incomplete"}),
        "capacity_wedge": frozenset({"pending", "partial_allocation", "degraded"}),
    }
)
"""By cause: the kinds of findings that tell of it. One of them is due before such an end."""


PRINTED = frozenset(
    {
        "hbm_oom",
        "code_bug",
        "config_error",
        "data_error",
        "network_storage_transient",
        "wandb_error",
        "controller_failure",
    }
)
"""Causes that a process prints. Most often it ends in the same moment, so an alarm is due only
where the log of the live job showed a failure before, of which H13 named this class or another. All
else comes from outside, without a sign."""


LOG_SIGNATURE = "log_signature"
"""H13's kind; what it is about are the classes that it named, with commas between them."""


TELLING = frozenset[str]().union(*DUE_BEFORE.values())
"""The kinds that count at all."""


UNKNOWN = "unknown"

RETRIED = frozenset({"R1", "R7"})
"""Rules whose relaunches change nothing and rest on the cause alone: to try again is the answer. A
pushed fix (R5) and a consented way out (R16) are allowed for what they mend."""

ALLOWING = frozenset({Outlook.RETRY, Outlook.RETRY_ONCE})
"""Outlooks of a cause on which a restart that changes nothing is allowed. Out of memory is none: a
contract may allow one attempt, yet it was meant for another cause."""

BY_A_HUMAN = frozenset({"R18", "R19"})
"""Rules whose relaunches a human asked for, or answered a question with: they are no restarts
of the keeper's own."""

CLEARED_ITSELF = "no longer holds"
"""The reason of a finding that cleared while its instance lived on."""


@dataclass(frozen=True, slots=True)
class End:
    """What the keeper did about one failure.

    Attributes:
        version: The failure's place in the run's history.
        cause: As it is known by now.
        alarmed: Kinds of findings that were opened while the instance lived.
        named: Classes of failure that its log showed while it lived, as H13 named them.
        restart: The rule that relaunched after it; empty where none did.
        again: That relaunch failed again in the same way without progress.
        revised: The cause is another than the one it was decided on.
    """

    version: int
    cause: str
    alarmed: frozenset[str] = frozenset()
    named: frozenset[str] = frozenset()
    restart: str = ""
    again: bool = False
    revised: bool = False

    @property
    def false_restart(self) -> bool:
        """Whether the restart made on it should not have been."""
        allowed = not self.revised or self.cause == UNKNOWN
        allowed = allowed or cause_of(self.cause).outlook in ALLOWING
        return self.again or (self.restart in RETRIED and not allowed)

    @property
    def due(self) -> bool:
        """Whether a finding should have come before it."""
        return self.cause in DUE_BEFORE or (bool(self.named) and self.cause in PRINTED)

    @property
    def missed(self) -> bool:
        """Whether none came that tells of this cause; one of another is no alarm for it."""
        told = self.alarmed & DUE_BEFORE.get(self.cause, frozenset()) or self.cause in self.named
        return self.due and not told


@dataclass(frozen=True, slots=True)
class Keeper:
    """How often the keeper judged, and how often it was wrong.

    Attributes:
        causes: Failures for which it named a cause.
        causes_wrong: Those whose cause was revised to another one.
        restarts: Instances that it relaunched by a rule.
        restarts_false: Those that failed again in the same way without progress, or were made on
            an end that is known by now to have a cause on which none is.
        alarms: Ends that a finding should have come before.
        alarms_missed: Those before which none did that tells of their cause.
        pages: Questions that it asked.
        pages_needless: Those that a human called needless, or whose finding cleared by itself
            before anyone answered.
        alarmed: Kinds of findings that were opened since the newest instance was launched, as far
            as they tell of a cause.
        named: Classes of failure that H13 named of its log, and that it did not go on after.
        restarted: The newest instance was relaunched by a rule.
        unanswered: Alerts whose question waits, by the finding's rule.
        newest: The newest failure's version; 0 before the first.
        ends: What was done about each failure, by its version.
    """

    causes: int = 0
    causes_wrong: int = 0
    restarts: int = 0
    restarts_false: int = 0
    alarms: int = 0
    alarms_missed: int = 0
    pages: int = 0
    pages_needless: int = 0
    alarmed: frozenset[str] = frozenset()
    named: frozenset[str] = frozenset()
    restarted: bool = False
    unanswered: Mapping[str, str] = field(default_factory=dict[str, str])
    newest: int = 0
    ends: Mapping[int, End] = field(default_factory=dict[int, End])


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
            keeper = replace(keeper, restarts=keeper.restarts + by_rule, restarted=by_rule)
            end = keeper.ends.get(keeper.newest) if by_rule else None
            return keeper if end is None else _judged(keeper, replace(end, restart=reason))
        case FailureClassified(cause=cause):
            return _failed(keeper, cause, version, again=again)
        case FailureRevised(failure=failure, cause=cause):
            return revised(keeper, failure, cause)
        case FindingOpened() | FindingRaised() if fact.kind == LOG_SIGNATURE:
            return replace(keeper, named=keeper.named | set(fact.about.split(", ")))
        case FindingCleared(reason=reason):
            named = fact.kind == LOG_SIGNATURE and reason == CLEARED_ITSELF
            keeper = replace(keeper, named=frozenset() if named else keeper.named)
            if reason == CLEARED_ITSELF and not fact.closes:
                return _unpaged(keeper, fact.rule)
            return _closed(keeper, fact.closes)
        case FindingOpened(kind=kind) if kind in TELLING:
            return replace(keeper, alarmed=keeper.alarmed | {kind})
        case InstanceLaunched():
            return replace(keeper, alarmed=frozenset(), named=frozenset())
        case EscalationRaised(rule=rule, question=question):
            waiting = {**keeper.unanswered, question: rule}
            return replace(keeper, pages=keeper.pages + 1, unanswered=waiting)
        case EscalationAcknowledged(question=question, answer=answer):
            needless = keeper.pages_needless + (answer == "needless")
            return _closed(replace(keeper, pages_needless=needless), (question,))
        case _:
            return keeper


def _closed(keeper: Keeper, names: tuple[str, ...]) -> Keeper:
    left = {name: of for name, of in keeper.unanswered.items() if name not in names}
    return replace(keeper, unanswered=left)


def _unpaged(keeper: Keeper, rule: str) -> Keeper:
    """Count the questions that an older release left open at the end of their finding."""
    names = tuple(name for name, of in keeper.unanswered.items() if of == rule)
    needless = keeper.pages_needless + len(names)
    return _closed(replace(keeper, pages_needless=needless), names)


def _failed(keeper: Keeper, cause: str, version: int, *, again: bool) -> Keeper:
    before = keeper.ends.get(keeper.newest)
    if before is not None and again and keeper.restarted:
        keeper = _judged(keeper, replace(before, again=True))
    end = End(version, cause, alarmed=keeper.alarmed, named=keeper.named)
    return replace(
        keeper,
        causes=keeper.causes + (cause != UNKNOWN),
        newest=version,
        ends={**keeper.ends, version: end},
        restarted=False,
        alarms=keeper.alarms + end.due,
        alarms_missed=keeper.alarms_missed + end.missed,
    )


def revised(keeper: Keeper, version: int, cause: str) -> Keeper:
    """Count a failure's cause as wrong, where another one was named before.

    A restart that was made on the failure is false where the new cause would not have allowed it,
    and an alarm was missed where the new cause shows before it ends a run.

    Args:
        keeper: The counts before.
        version: The failure's place in the run's history.
        cause: What it is known to be now.
    """
    before = keeper.ends.get(version)
    if before is None or before.cause == cause:
        return keeper
    wrong = keeper.causes_wrong + (before.cause != UNKNOWN)
    keeper = replace(keeper, causes_wrong=wrong)
    return _judged(keeper, replace(before, cause=cause, revised=True))


def _judged(keeper: Keeper, end: End) -> Keeper:
    """Put down what is known of a failure by now, and count what changes by it."""
    before = keeper.ends[end.version]
    missed = end.missed - before.missed
    return replace(
        keeper,
        ends={**keeper.ends, end.version: end},
        restarts_false=keeper.restarts_false + end.false_restart - before.false_restart,
        alarms=keeper.alarms + end.due - before.due,
        alarms_missed=keeper.alarms_missed + missed,
    )
