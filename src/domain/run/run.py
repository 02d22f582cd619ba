"""The current state of a run: folded from its events, never parsed or guessed."""

from dataclasses import dataclass, field
from datetime import datetime

from watchkeeper.domain.run.checkpoints import CheckpointsState
from watchkeeper.domain.run.ends import EndsState
from watchkeeper.domain.run.health import HealthState
from watchkeeper.domain.run.launch import LaunchState
from watchkeeper.domain.run.operator import OperatorState
from watchkeeper.domain.run.permits import PermitsState
from watchkeeper.domain.run.phases import Finished, Phase, Running, Stabilizing, Unborn
from watchkeeper.domain.run.questions import QuestionsState
from watchkeeper.domain.run.seal import SealState
from watchkeeper.domain.run.signals import SignalsState
from watchkeeper.domain.run.watch import WatchState
from watchkeeper.domain.values.contract.contract import Contract
from watchkeeper.domain.values.instance import Instance


# No slots: every event copies it, and a dictionary is faster to copy.
@dataclass(frozen=True)
class Run:
    """A run, folded from every event recorded so far.

    Each sub-state is described in the module of its events.

    Attributes:
        slug: The run's name.
        version: The number of its events.
        phase: The current phase, such as `Running`.
        since: When the phase began.
        contract: Its contract as last amended; `None` before the first event.
        instances: Everything that was launched under its name, oldest first.
    """

    slug: str
    version: int = 0
    phase: Phase = field(default_factory=Unborn)
    since: datetime | None = None
    contract: Contract | None = None
    instances: tuple[Instance, ...] = ()
    launch: LaunchState = field(default_factory=LaunchState)
    permits: PermitsState = field(default_factory=PermitsState)
    watch: WatchState = field(default_factory=WatchState)
    health: HealthState = field(default_factory=HealthState)
    checkpoints: CheckpointsState = field(default_factory=CheckpointsState)
    ends: EndsState = field(default_factory=EndsState)
    questions: QuestionsState = field(default_factory=QuestionsState)
    signals: SignalsState = field(default_factory=SignalsState)
    operator: OperatorState = field(default_factory=OperatorState)
    seal: SealState = field(default_factory=SealState)


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A run whose history this code cannot read. `status` and `verify` list it.

    Attributes:
        version: The last version that could be folded.
        why: The reason.
    """

    slug: str
    version: int
    why: str


def contract_of(run: Run) -> Contract:
    """Return the contract of a run that has one."""
    assert run.contract is not None, "a run past its first event has a contract"
    return run.contract


def dri_of(run: Run) -> str:
    """Return who is responsible: by the contract, or else its launcher, or else its approver."""
    approvers = [approval.by for approval in run.permits.approvals]
    return contract_of(run).dri or run.launch.launched_by or next(iter(approvers), "")


def last_instance(run: Run) -> Instance | None:
    """Return the newest instance, or `None` before the first."""
    return run.instances[-1] if run.instances else None


def end_asked(run: Run, instance: str) -> bool:
    """Return whether a human requested an instance's end: a stop, relaunch or rollback."""
    asked = run.operator.requested
    return run.operator.stop_requested == instance or (
        asked is not None and asked.instance == instance
    )


def live_instance(run: Run) -> Instance | None:
    """Return the instance whose job exists and has not ended, as far as known."""
    if isinstance(run.phase, Stabilizing | Running):
        return last_instance(run)
    return None


class InvalidTransition(Exception):
    """An event that cannot follow the ones before it; `evolve` turns it into `Unreadable`."""


def finished_or_invalid(run: Run) -> Finished:
    """Return the phase of a finished run.

    Raises:
        InvalidTransition: It is not finished.
    """
    if not isinstance(run.phase, Finished):
        raise InvalidTransition("the run is not finished")
    return run.phase


def last_instance_or_invalid(run: Run) -> Instance:
    """Return the newest instance.

    Raises:
        InvalidTransition: There is none yet.
    """
    if not run.instances:
        raise InvalidTransition("no instance was launched")
    return run.instances[-1]
