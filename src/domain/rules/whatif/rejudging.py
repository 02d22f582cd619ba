"""Judges recorded checks again: by the rules as they are, or under another policy.

A check holds every number that the rules read, so nothing outside the history is needed: not the
observation, not the orchestrator, not the clock. What follows from each check is decided anew on
the run as it was recorded up to there; a decision that would have differed is told and not
followed, since nobody knows what the run would have done then.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from watchkeeper.domain.rules.after_check import verdict
from watchkeeper.domain.rules.health.stall_again import liveness_again
from watchkeeper.domain.rules.shared.command import Command
from watchkeeper.domain.run.envelope import Event
from watchkeeper.domain.run.events import RunEvent
from watchkeeper.domain.run.evolve.evolve import evolve
from watchkeeper.domain.run.launch import RunDrafted
from watchkeeper.domain.run.run import Run, Unreadable, contract_of
from watchkeeper.domain.run.watch import CheckRecorded, HistoryLimitPassed
from watchkeeper.domain.values.contract.contract import Contract
from watchkeeper.domain.values.instance import Instance

Change = Callable[[Contract], Contract]
"""Makes another contract of the one that was promised."""


@dataclass(frozen=True, slots=True)
class Rejudged:
    """One recorded check, with what followed from it then and what follows now.

    Attributes:
        version: Of the check in the run's stream.
        at: When it was made.
        check: The check.
        recorded: What was recorded with it.
        now: What the rules say of it today, or under another policy.
    """

    version: int
    at: datetime
    check: CheckRecorded
    recorded: tuple[RunEvent, ...]
    now: tuple[RunEvent, ...]

    @property
    def differs(self) -> bool:
        """Whether anything would have been recorded otherwise."""
        return self.recorded != self.now


def rejudge(slug: str, history: Sequence[Event], change: Change | None = None) -> list[Rejudged]:
    """Judge every check of a run's history again.

    Args:
        slug: The run, where its history does not begin with its contract.
        history: Its events from the first one on.
        change: Another policy; none for the contract as it was.

    Returns:
        One item for each check, in order, up to the first event that cannot be folded.
    """
    followed = _followed(history)
    judged: list[Rejudged] = []
    run: Run | Unreadable = Run(_name(history) or slug)
    for event in history:
        before, run = run, evolve(run, event)
        if isinstance(before, Unreadable) or isinstance(run, Unreadable):
            break
        if not isinstance(event.data, CheckRecorded):
            continue
        envelope, check = event.envelope, event.data
        # Its own append's time: what the rules took for now.
        command = Command(now=envelope.occurred_at, actor=envelope.actor)
        instance = before.instances[-1]
        if change is not None:
            check = _stood_under(before, instance, check, change, command.now)
        now = verdict(_under(run, change), instance, check, command)
        recorded = tuple(followed.get(envelope.event_id, ()))
        judged.append(Rejudged(event.version, event.at, event.data, recorded, tuple(now)))
    return judged


def _name(history: Sequence[Event]) -> str:
    """Return the name that the run was drafted under: it stands in questions and proposals."""
    drafted = history[0].data if history else None
    return drafted.contract.run if isinstance(drafted, RunDrafted) else ""


def _under(run: Run, change: Change | None) -> Run:
    return run if change is None else replace(run, contract=change(contract_of(run)))


def _stood_under(
    before: Run, instance: Instance, check: CheckRecorded, change: Change, now: datetime
) -> CheckRecorded:
    """Return a check with its verdict on the clocks as another policy has it.

    It stays as recorded where the two policies agree: that the rules are others by now is no
    change that a policy makes.
    """
    own = liveness_again(before, instance, check, now)
    other = liveness_again(_under(before, change), instance, check, now)
    return check if other == own else check.model_copy(update={"liveness": other})


def _followed(history: Sequence[Event]) -> dict[UUID, list[RunEvent]]:
    """Return what was recorded in one append with each check, by the check's event id."""
    checks = {
        str(event.envelope.event_id): event.envelope.event_id
        for event in history
        if isinstance(event.data, CheckRecorded)
    }
    groups: dict[UUID, list[RunEvent]] = {}
    for event in history:
        first = checks.get(event.envelope.cause or "")
        # How long the history had become is no judgement of the check that told of it.
        if isinstance(event.data, HistoryLimitPassed):
            continue
        if first is not None and isinstance(event.data, RunEvent):
            groups.setdefault(first, []).append(event.data)
    return groups
