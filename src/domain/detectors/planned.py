"""Planned acts: what is done on purpose and announced beforehand raises no alarm."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from watchkeeper.domain.commands.manoeuvres import AnnounceAct, EndAct
from watchkeeper.domain.commands.permissions import not_a_human
from watchkeeper.domain.commands.refusals import Refusal, Refused
from watchkeeper.domain.events import ActKind, PlannedActAnnounced, PlannedActEnded, RunEvent
from watchkeeper.domain.state.run import Run

WINDOW_MAX = timedelta(days=7)
"""The longest window: what is expected for longer than a week is a matter of the contract."""

LATE_MAX = timedelta(minutes=5)
"""An act that began this long ago may still be announced: people type while it begins."""

EXPECTABLE = tuple(f"H{number}" for number in range(1, 18))
"""The rules of detectors. Decisions and the launch gate are never switched off."""

HOLDING = frozenset({ActKind.PAUSE, ActKind.SWAP, ActKind.MAINTENANCE})
"""Acts in whose window an end is expected, so that nothing relaunches by itself. A drill is held
to see the recovery, so it is recovered from as ever."""


def announce(run: Run, command: AnnounceAct) -> list[RunEvent] | Refused:
    """Announce an act; only a human decides which alarms are expected."""
    if command.actor.kind != "human":
        return not_a_human(run, command)
    if not command.reason.strip():
        return Refused(Refusal.TEXT_EMPTY)
    if command.starts_at < command.now - LATE_MAX:
        return Refused(Refusal.ACT_TOO_LATE, _when(command.starts_at))
    if not timedelta(0) < command.ends_at - command.starts_at <= WINDOW_MAX:
        return Refused(Refusal.ACT_WINDOW, f"{command.ends_at - command.starts_at}")
    wrong = [rule for rule in command.expects if rule not in EXPECTABLE]
    if wrong:
        return Refused(Refusal.RULE_NOT_EXPECTABLE, ", ".join(wrong))
    return [
        PlannedActAnnounced(
            act=f"act-{run.manoeuvres.acts_announced + 1}",
            kind=command.kind,
            starts_at=command.starts_at,
            ends_at=command.ends_at,
            expects=tuple(dict.fromkeys(command.expects)),
            reason=command.reason.strip(),
        )
    ]


def end_act(run: Run, command: EndAct) -> list[RunEvent] | Refused:
    """End an act before its window is over: from here on every finding opens again."""
    if command.act not in run.manoeuvres.acts:
        return Refused(Refusal.ACT_UNKNOWN, command.act)
    return [PlannedActEnded(act=command.act, reason=command.reason.strip() or "over")]


def acts_over(run: Run, now: datetime) -> list[PlannedActEnded]:
    """Return the ends of the acts whose window has passed."""
    return [
        PlannedActEnded(act=act.act, reason="its window is over")
        for act in run.manoeuvres.acts.values()
        if act.ends_at <= now
    ]


def acts_at(run: Run, at: datetime) -> list[PlannedActAnnounced]:
    """Return the announced acts whose window holds at a time."""
    return [act for act in run.manoeuvres.acts.values() if act.starts_at <= at < act.ends_at]


def expecting(run: Run, rule: str, at: datetime) -> PlannedActAnnounced | None:
    """Return the act that expects a rule's findings at a time; none where none does."""
    return next((act for act in acts_at(run, at) if rule in act.expects), None)


def holding(run: Run, times: Iterable[datetime | None]) -> PlannedActAnnounced | None:
    """Return the act in whose window an end is expected at one of these times."""
    for at in times:
        found = [act for act in acts_at(run, at) if act.kind in HOLDING] if at is not None else []
        if found:
            return found[0]
    return None


def describe_act(act: PlannedActAnnounced) -> str:
    """Write an act in one line; times in UTC."""
    window = f"{_when(act.starts_at)} to {_when(act.ends_at)}"
    expects = f", expects {', '.join(act.expects)}" if act.expects else ""
    return f"{act.act} {act.kind.value} {window}{expects}: {act.reason}"


def _when(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")
