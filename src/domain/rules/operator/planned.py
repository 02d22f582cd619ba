"""Planned acts: work announced in advance, which raises no alert."""

from datetime import datetime, timedelta

from watchkeeper.domain.rules.health.registry import LIVE_RULES
from watchkeeper.domain.rules.launch.drift_finding import H14
from watchkeeper.domain.rules.operator.commands import AnnounceAct, EndAct
from watchkeeper.domain.rules.permits.permissions import refuse_non_human
from watchkeeper.domain.rules.seal.findings import H11
from watchkeeper.domain.rules.shared.refusals import Refusal, Refused
from watchkeeper.domain.rules.shared.rule import in_order
from watchkeeper.domain.run.events import RunEvent
from watchkeeper.domain.run.operator import PlannedActAnnounced, PlannedActEnded
from watchkeeper.domain.run.run import Run
from watchkeeper.domain.values.durations import utc_minute

WINDOW_MAX = timedelta(days=7)
"""The longest window: longer exceptions belong in the contract."""

LATE_MAX = timedelta(minutes=5)
"""How late an act may be announced, since people may type while it begins."""

EXPECTABLE = tuple(rule.id for rule in in_order((*LIVE_RULES, H11, H14)))
"""The rules that an act may expect. Only detectors are included, not decisions or the launch
gate."""


def announce(run: Run, command: AnnounceAct) -> list[RunEvent] | Refused:
    """Announce an act; only a human decides which alarms are expected."""
    if command.actor.kind != "human":
        return refuse_non_human(run, command)
    if not command.reason.strip():
        return Refused(Refusal.TEXT_EMPTY)
    if command.starts_at < command.now - LATE_MAX:
        return Refused(Refusal.ACT_TOO_LATE, utc_minute(command.starts_at))
    if not timedelta(0) < command.ends_at - command.starts_at <= WINDOW_MAX:
        return Refused(Refusal.ACT_WINDOW, f"{command.ends_at - command.starts_at}")
    wrong = [rule for rule in command.expects if rule not in EXPECTABLE]
    if wrong:
        return Refused(Refusal.RULE_NOT_EXPECTABLE, ", ".join(wrong))
    return [
        PlannedActAnnounced(
            act=f"act-{run.operator.acts_announced + 1}",
            kind=command.kind,
            starts_at=command.starts_at,
            ends_at=command.ends_at,
            expects=tuple(dict.fromkeys(command.expects)),
            reason=command.reason.strip(),
        )
    ]


def end_act(run: Run, command: EndAct) -> list[RunEvent] | Refused:
    """End an act before its window is over. From now on all findings open again."""
    if command.act not in run.operator.acts:
        return Refused(Refusal.ACT_UNKNOWN, command.act)
    return [PlannedActEnded(act=command.act, reason=command.reason.strip() or "over")]


def acts_over(run: Run, now: datetime) -> list[PlannedActEnded]:
    """Return the end events of acts whose window has passed."""
    return [
        PlannedActEnded(act=act.act, reason="its window is over")
        for act in run.operator.acts.values()
        if act.ends_at <= now
    ]
