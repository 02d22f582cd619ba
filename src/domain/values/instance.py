"""One launched job of a run, and its failed attempts."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from watchkeeper.domain.values.basic import JobFacts
from watchkeeper.domain.values.check import Progress
from watchkeeper.domain.values.contract.contract import Contract
from watchkeeper.domain.values.contract.plan import LaunchPlan
from watchkeeper.domain.values.observation.sources import AttemptFacts


class Retried(NamedTuple):
    """A failed attempt that another attempt followed.

    Attributes:
        since: The earliest possible time of the failure.
        until: Its last checkpoint was complete by then; `None` if the time of the failure is
            unknown.
    """

    since: datetime
    until: datetime | None


class Tried(NamedTuple):
    """A failed attempt of the whole job, after which the orchestrator started another.

    Attributes:
        at: When it failed, or when its failure was first seen.
        facts: The task whose failure represents it; `None` if only the number of attempts is known.
        step: The newest step seen before it failed.
        uncertainty: How far the true step may lie from it, either way.
    """

    at: datetime
    facts: AttemptFacts | None
    step: int | None = None
    uncertainty: int = 0


@dataclass(frozen=True, slots=True)
class Instance:
    """One launched job.

    Attributes:
        plan: The submitted plan.
        launched_at: When the orchestrator accepted the job; `None` before.
        end: The orchestrator's last report; `None` while it is live.
        step_best: The highest step seen under it.
        step_uncertainty: How far the true step may lie from it, either way.
        attempts_failed: How many failed attempts the orchestrator has reported.
        retried: The failed attempts that another attempt followed, with their times.
        tries: The failed attempts of the whole job that another attempt followed.
        trained_since: When it was first seen to train after its last wait for machines.
        nan_from: The first step whose logged numbers are NaN or infinite and stayed so.
        unsure: Whether the orchestrator last answered that it does not know the job.
        config: The configuration it was launched with, flattened; empty if it was not read.
        patch: Identity of the uncommitted changes at its launch; empty for a clean tree.
        patch_kept: SHA-256 of that patch under `evidence/`; empty where none was kept.
        contract: The contract that it was launched under.
        doubts: Open doubts about its lineage when it ended; the seal names them.
    """

    plan: LaunchPlan
    launched_at: datetime | None = None
    end: JobFacts | None = None
    step_best: int | None = None
    step_uncertainty: int = 0
    attempts_failed: int = 0
    retried: tuple[Retried, ...] = ()
    tries: tuple[Tried, ...] = ()
    trained_since: datetime | None = None
    nan_from: int | None = None
    unsure: bool = False
    config: Mapping[str, str] = field(default_factory=dict[str, str])
    patch: str = ""
    patch_kept: str = ""
    contract: Contract | None = None
    doubts: tuple[str, ...] = ()


def is_moving(plan: LaunchPlan, progress: Progress | None) -> bool:
    """Return whether training surely passed the step that an instance started from."""
    start = plan.resume_step or 0
    return progress is not None and progress.step - progress.uncertainty > start
