"""What became of a run's effects: pushes, tags, submits and stops. Folded from `effects/<run>`."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from watchkeeper.domain.envelope import Event
from watchkeeper.domain.events import (
    EffectFailed,
    EffectRecovered,
    LogbookPushed,
    MilestoneTagPushed,
    SignalCameLate,
    TagPushed,
)

EFFECTS = ("submit", "stop", "relaunch", "seal", "logbook", "tag", "milestone")
"""Every effect that can fail and is tried again, by name."""


@dataclass(frozen=True, slots=True)
class Effects:
    """The newest result of each effect.

    Attributes:
        pushed: The newest logbook that the remote holds; none before the first.
        tag: The seal tag, once the remote holds it.
        milestones: Commits that the tags of milestones name, once the remote holds them.
        late_signals: How many signals came after the run was over.
        failing: Effects that did not get through yet, by name.
    """

    version: int = 0
    pushed: LogbookPushed | None = None
    tag: TagPushed | None = None
    failing: Mapping[str, EffectFailed] = field(default_factory=dict[str, EffectFailed])
    milestones: Mapping[str, str] = field(default_factory=dict[str, str])
    late_signals: int = 0


def effects_stream(run: str) -> str:
    """Return the stream that holds the results of a run's effects."""
    return f"effects/{run}"


def evolve_effects(effects: Effects, event: Event) -> Effects:
    """Apply one event of the stream; a success clears the failure of its effect."""
    now = replace(effects, version=event.version)
    match event.data:
        case LogbookPushed():
            return replace(now, pushed=event.data, failing=_without(now, "logbook"))
        case TagPushed():
            return replace(now, tag=event.data, failing=_without(now, "tag"))
        case MilestoneTagPushed(tag=tag, target=target):
            known = {**now.milestones, tag: target}
            return replace(now, milestones=known, failing=_without(now, "milestone"))
        case EffectFailed(effect=effect):
            return replace(now, failing={**now.failing, effect: event.data})
        case SignalCameLate():
            return replace(now, late_signals=now.late_signals + 1)
        case EffectRecovered(effect=effect):
            return replace(now, failing=_without(now, effect))
        case _:
            return now


def _without(effects: Effects, effect: str) -> dict[str, EffectFailed]:
    return {name: failed for name, failed in effects.failing.items() if name != effect}
