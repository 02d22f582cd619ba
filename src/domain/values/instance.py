"""One launched job of a run, as it is known so far."""

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
    """A try that failed, and was followed by another.

    Attributes:
        since: It failed then, or later.
        until: What it left was complete by then; none where nobody told when it failed.
    """

    since: datetime
    until: datetime | None


class Tried(NamedTuple):
    """A try of the whole job that failed, and that the orchestrator followed by another.

    Attributes:
        at: When it failed, or when its failure was first seen.
        facts: The task whose failure stands for it; none where only the number of tries is known.
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
        plan: What was submitted.
        launched_at: None while it is not known to have been taken.
        end: The orchestrator's last word; none while it lives.
        step_best: The highest step seen under it.
        step_uncertainty: How far the true step may lie from it, either way.
        attempts_failed: The orchestrator's own failed attempts seen so far.
        retried: Those of them that were followed by another, as far as their time is known.
        tries: The failed tries of the whole job that the orchestrator followed by another.
        trained_since: When it was first seen to train since it last waited for machines.
        nan_from: The first step whose logged numbers are NaN or infinite and stayed so.
        unsure: The orchestrator's last answer was that it cannot tell.
        config: The configuration it was launched with, flattened; empty where none was read.
        patch: Identity of what was not committed at its launch; empty for a clean tree.
        patch_kept: SHA-256 of that patch under `evidence/`; empty where none was kept.
        contract: The contract that it was launched under.
        doubts: What was open about its lineage as it ended; the seal names it.
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
    """Say whether training was surely seen beyond the step that an instance started from."""
    start = plan.resume_step or 0
    return progress is not None and progress.step - progress.uncertainty > start
