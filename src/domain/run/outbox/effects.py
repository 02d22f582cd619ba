"""The results of a run's effects: pushes, tags, submits and stops.

The state is folded from the stream `effects/<run>`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TypeVar

from watchkeeper.domain.run.effects import (
    EffectAttempted,
    EffectConfirmed,
    EffectFailed,
    EffectRecovered,
    EffectRejected,
    EffectUnknown,
    LogbookPushed,
    MilestoneTagPushed,
    TagPushed,
)
from watchkeeper.domain.run.envelope import Event
from watchkeeper.domain.run.signals import SignalCameLate
from watchkeeper.domain.values.observation.signals import Heard, hear

Kept = TypeVar("Kept")

EFFECTS = ("submit", "stop", "relaunch", "seal", "logbook", "tag", "milestone")
"""Every effect that can fail and is retried, by name."""

Trouble = EffectFailed | EffectUnknown | EffectRejected
"""Events of an effect without success: not sent, no answer, or refused."""


@dataclass(frozen=True, slots=True)
class Effects:
    """The newest result of each effect.

    Attributes:
        pushed: The newest logbook on the remote; `None` before the first.
        tag: The seal tag, once the remote holds it.
        milestones: The commit of each milestone tag on the remote.
        late_signals: How many signals came after the run was over.
        heard: How many late signals each source had recorded in its newest minute.
        failing: Effects that failed and did not succeed since, by name.
        attempted: Attempted effects without a result, by name. A process is working on it, or died,
            and then the result is unknown.
        since: Since when an effect has been tried or failing, by name.
        confirmed: The key of the newest confirmed effect, by name. Pushes and tags have their own
            events.
        closed: Why a human gave an effect up, by name. It is not retried.
        pushed_at: When the newest logbook was recorded as pushed.
    """

    version: int = 0
    pushed: LogbookPushed | None = None
    tag: TagPushed | None = None
    failing: Mapping[str, Trouble] = field(default_factory=dict[str, Trouble])
    milestones: Mapping[str, str] = field(default_factory=dict[str, str])
    late_signals: int = 0
    heard: Heard = field(default_factory=dict[str, tuple[datetime, int]])
    attempted: Mapping[str, EffectAttempted] = field(default_factory=dict[str, EffectAttempted])
    since: Mapping[str, datetime] = field(default_factory=dict[str, datetime])
    pushed_at: datetime | None = None
    confirmed: Mapping[str, str] = field(default_factory=dict[str, str])
    closed: Mapping[str, str] = field(default_factory=dict[str, str])


def effects_stream(run: str) -> str:
    """Return the stream that holds the results of a run's effects."""
    return f"effects/{run}"


def evolve_effects(effects: Effects, event: Event) -> Effects:
    """Apply one event of the stream; a success clears the failure of its effect."""
    now = replace(effects, version=event.version)
    match event.data:
        case LogbookPushed():
            at = event.envelope.recorded_at
            return replace(_through(now, "logbook"), pushed=event.data, pushed_at=at)
        case TagPushed():
            return replace(_through(now, "tag"), tag=event.data)
        case MilestoneTagPushed(tag=tag, target=target):
            known = {**now.milestones, tag: target}
            return replace(_through(now, "milestone"), milestones=known)
        case SignalCameLate(signal=signal):
            heard = hear(now.heard, signal.source, event.envelope.recorded_at)
            return replace(now, late_signals=now.late_signals + 1, heard=heard)
        case EffectAttempted(effect=effect):
            tried = {**now.attempted, effect: event.data}
            return replace(now, attempted=tried, since=_begun(now, effect, event))
        case EffectFailed() | EffectUnknown():
            return _troubled(now, event.data, event)
        case EffectRejected(effect=effect, final=final):
            return _through(now, effect) if final else _troubled(now, event.data, event)
        case EffectRecovered(effect=effect, reason=reason):
            closed = {**now.closed, effect: reason} if reason else now.closed
            return replace(_through(now, effect), closed=closed)
        case EffectConfirmed(effect=effect, key=key):
            return replace(_through(now, effect), confirmed={**now.confirmed, effect: key})
        case _:
            return now


def _troubled(effects: Effects, trouble: Trouble, event: Event) -> Effects:
    return replace(
        effects,
        failing={**effects.failing, trouble.effect: trouble},
        attempted=_without(effects.attempted, trouble.effect),
        since=_begun(effects, trouble.effect, event),
    )


def _through(effects: Effects, effect: str) -> Effects:
    return replace(
        effects,
        failing=_without(effects.failing, effect),
        attempted=_without(effects.attempted, effect),
        since=_without(effects.since, effect),
    )


def _begun(effects: Effects, effect: str, event: Event) -> dict[str, datetime]:
    return {effect: event.envelope.recorded_at, **effects.since}


def _without(known: Mapping[str, Kept], effect: str) -> dict[str, Kept]:
    return {name: kept for name, kept in known.items() if name != effect}
