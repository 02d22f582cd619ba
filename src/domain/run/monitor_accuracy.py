"""The monitor's own errors, counted by kind from the record.

There are four kinds of errors. Each is counted against the cases in which it could have happened.
The cause `unknown` is not an error. An uncorrected cause counts as right, so the counts are lower
bounds. If the cause of an end is revised, its restart and its alarm are judged by the revised
cause.
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
"""For each cause, the kinds of findings that announce it. One of them is due before such an end."""


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
"""Causes that a process prints, usually at the moment of its end. So an alarm is due only if the
log of the live job showed a failure earlier (H13). All other causes come from outside without a
sign."""


LOG_SIGNATURE = "log_signature"
"""H13's kind; its `about` holds the classes that it named, separated by commas."""


ALERTING = frozenset[str]().union(*DUE_BEFORE.values())
"""All kinds of findings that count as an alarm."""


UNKNOWN = "unknown"

RETRIED = frozenset({"R1", "R7"})
"""Rules that relaunch without a change, because of the cause alone. Relaunches after a fix (R5) or
a repair (R16) are not included."""

ALLOWING = frozenset({Outlook.RETRY, Outlook.RETRY_ONCE})
"""Outlooks that allow a restart without changes."""

BY_A_HUMAN = frozenset({"R18", "R19"})
"""Rules that relaunch at a human's request or answer. These are not the monitor's own restarts."""

CLEARED_ITSELF = "no longer holds"
"""The reason of a finding that cleared while its instance was live."""


@dataclass(frozen=True, slots=True)
class End:
    """What the monitor did about one failure.

    Attributes:
        version: The failure's place in the run's history.
        cause: The cause as known now.
        alarmed: Kinds of findings that were opened while the instance lived.
        named: Classes of failure that its log showed while it lived, as H13 named them.
        restart: The rule that relaunched after it; empty without one.
        again: Whether that relaunch failed again in the same way without progress.
        revised: Whether the cause differs from the cause at the decision.
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
        """Whether no finding announced this cause."""
        notified = (
            self.alarmed & DUE_BEFORE.get(self.cause, frozenset()) or self.cause in self.named
        )
        return self.due and not notified


@dataclass(frozen=True, slots=True)
class MonitorAccuracy:
    """How often the monitor judged, and how often it was wrong.

    Attributes:
        causes: Failures for which it named a cause.
        causes_wrong: Failures whose cause was later revised.
        restarts: Instances that it relaunched by a rule.
        restarts_false: Restarts that failed again in the same way without progress, or whose cause,
            as known now, does not allow a restart.
        alarms: Ends before which a finding was due.
        alarms_missed: Ends without an earlier finding for their cause.
        pages: Questions that it asked.
        pages_needless: Questions that a human called needless, or whose finding cleared before
            anyone answered.
        alarmed: Kinds of findings opened since the newest instance was launched, if they announce a
            cause.
        named: Failure classes that H13 named and after which training did not continue.
        restarted: Whether a rule relaunched the newest instance.
        unanswered: Alerts with an open question, by the finding's rule.
        newest: The newest failure's version; 0 before the first.
        ends: The monitor's reaction to each failure, by its version.
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
