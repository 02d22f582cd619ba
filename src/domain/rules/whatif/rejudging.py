"""Judges recorded checks again, by today's rules or under another policy.

A check holds every number that the rules read. So nothing outside the history is needed: no
observation, no orchestrator, no clock. Each check is decided again on the run as recorded up to
that check. A different decision is reported but not followed, because nobody knows what the run
would have done next.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from watchkeeper.domain.rules.after_check import events_after_check
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
"""Changes a contract into another one."""


@dataclass(frozen=True, slots=True)
class Rejudged:
    """One recorded check, with its recorded results and the results now.

    Attributes:
        version: The version of the check in the run's stream.
        at: The time of the check.
        check: The check.
        recorded: The events recorded with it.
        now: The events by today's rules, or under another policy.
    """

    version: int
    at: datetime
    check: CheckRecorded
    recorded: tuple[RunEvent, ...]
    now: tuple[RunEvent, ...]

    @property
    def differs(self) -> bool:
        """Whether the record would differ."""
        return self.recorded != self.now


def rejudge(slug: str, history: Sequence[Event], change: Change | None = None) -> list[Rejudged]:
    """Judge every check of a run's history again.

    Args:
        slug: The run, if its history does not begin with its contract.
        history: Its events from the first one on.
        change: Changes the contract; `None` keeps the recorded contract.

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
        # The time of the append, which was the rules' current time.
        command = Command(now=envelope.occurred_at, actor=envelope.actor)
        instance = before.instances[-1]
        if change is not None:
            check = _stood_under(before, instance, check, change, command.now)
        now = events_after_check(_under(run, change), instance, check, command)
        recorded = tuple(followed.get(envelope.event_id, ()))
        judged.append(Rejudged(event.version, event.at, event.data, recorded, tuple(now)))
    return judged


def _name(history: Sequence[Event]) -> str:
    """Return the name of the drafted run, which questions and proposals contain."""
    drafted = history[0].data if history else None
    return drafted.contract.run if isinstance(drafted, RunDrafted) else ""


def _under(run: Run, change: Change | None) -> Run:
    return run if change is None else replace(run, contract=change(contract_of(run)))


def _stood_under(
    before: Run, instance: Instance, check: CheckRecorded, change: Change, now: datetime
) -> CheckRecorded:
    """Return a check with its verdict on the clocks under another policy.

    It stays as recorded if both policies agree, so that changed rules do not look like a changed
    policy.
    """
    own = liveness_again(before, instance, check, now)
    other = liveness_again(_under(before, change), instance, check, now)
    return check if other == own else check.model_copy(update={"liveness": other})


def _followed(history: Sequence[Event]) -> dict[UUID, list[RunEvent]]:
    """Return the events recorded in one append with each check, by the check's event id."""
    checks = {
        str(event.envelope.event_id): event.envelope.event_id
        for event in history
        if isinstance(event.data, CheckRecorded)
    }
    groups: dict[UUID, list[RunEvent]] = {}
    for event in history:
        first = checks.get(event.envelope.cause or "")
        # The length of the history is not a result of the check.
        if isinstance(event.data, HistoryLimitPassed):
            continue
        if first is not None and isinstance(event.data, RunEvent):
            groups.setdefault(first, []).append(event.data)
    return groups
