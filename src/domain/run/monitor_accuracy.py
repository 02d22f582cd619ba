"""The monitor's own errors, counted by kind from the record.

There are four kinds, each counted against the cases in which it could have happened. A cause that
was said to be unknown is an answer, not an error. What nobody ever corrected counts as right, so
these are lower bounds. If an end is revised, the restart that followed from it and the alarm due
before it are judged by the revised cause.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

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
"""By cause: the kinds of findings that announce it. One of them is due before such an end."""


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
"""Causes that a process prints. Most often it ends in the same moment. So an alarm is due only if
the live job's log showed a failure before, for which H13 named this class or another. All other
causes come from outside, without a sign."""


LOG_SIGNATURE = "log_signature"
"""H13's kind; its `about` holds the classes that it named, separated by commas."""


ALERTING = frozenset[str]().union(*DUE_BEFORE.values())
"""All kinds that count."""


UNKNOWN = "unknown"

RETRIED = frozenset({"R1", "R7"})
"""Rules whose relaunches change nothing and rest on the cause alone: a retry is the answer. A
pushed fix (R5) and a consented way out (R16) are allowed for what they fix."""

ALLOWING = frozenset({Outlook.RETRY, Outlook.RETRY_ONCE})
"""Outlooks of a cause that allow a restart without changes. Out of memory is not included: a
contract may allow one attempt, but that was meant for another cause."""

BY_A_HUMAN = frozenset({"R18", "R19"})
"""Rules whose relaunches a human requested, or gave as an answer: they are not the monitor's own
restarts."""

CLEARED_ITSELF = "no longer holds"
"""The reason of a finding that cleared while its instance lived on."""


@dataclass(frozen=True, slots=True)
class End:
    """What the monitor did about one failure.

    Attributes:
        version: The failure's place in the run's history.
        cause: The cause as known now.
        alarmed: Kinds of findings that were opened while the instance lived.
        named: Classes of failure that its log showed while it lived, as H13 named them.
        restart: The rule that relaunched after it; empty without one.
        again: That relaunch failed again in the same way without progress.
        revised: The cause differs from the one that the decision was based on.
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
        """Whether the restart after it was wrong."""
        allowed = not self.revised or self.cause == UNKNOWN
        allowed = allowed or cause_of(self.cause).outlook in ALLOWING
        return self.again or (self.restart in RETRIED and not allowed)

    @property
    def due(self) -> bool:
        """Whether a finding should have come before it."""
        return self.cause in DUE_BEFORE or (bool(self.named) and self.cause in PRINTED)

    @property
    def missed(self) -> bool:
        """Whether no finding announced this cause; one for another cause does not count."""
        notified = (
            self.alarmed & DUE_BEFORE.get(self.cause, frozenset()) or self.cause in self.named
        )
        return self.due and not notified


@dataclass(frozen=True, slots=True)
class MonitorAccuracy:
    """How often the monitor judged, and how often it was wrong.

    Attributes:
        causes: Failures for which it named a cause.
        causes_wrong: Those whose cause was revised to another one.
        restarts: Instances that it relaunched by a rule.
        restarts_false: Those that failed again in the same way without progress. Also those after
            an end whose cause, as known now, does not allow a restart.
        alarms: Ends before which a finding was due.
        alarms_missed: Those without an earlier finding for their cause.
        pages: Questions that it asked.
        pages_needless: Those that a human called needless, or whose finding cleared by itself
            before anyone answered.
        alarmed: Kinds of findings opened since the newest instance was launched, if they announce a
            cause.
        named: Classes of failure that H13 named from its log, and after which it did not go on.
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
