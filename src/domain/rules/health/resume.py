"""Compares the losses of the same steps before and after a resume."""

from dataclasses import dataclass
from typing import Literal

from watchkeeper.domain.rules.health.metrics import offset_is_off
from watchkeeper.domain.run.ends import PROVEN, describe_open_proof
from watchkeeper.domain.run.queries import unproven_health
from watchkeeper.domain.run.run import Run, contract_of
from watchkeeper.domain.run.watch import CheckRecorded
from watchkeeper.domain.values.basic import JobFacts, JobState
from watchkeeper.domain.values.check import Health
from watchkeeper.domain.values.contract.detect_limits import limits_of
from watchkeeper.domain.values.instance import is_moving
from watchkeeper.domain.values.observation.measured import Overlap

LIKE_STEPS_MIN = 3
"""How many steps must be logged both before and after. One or two may agree by accident."""


@dataclass(frozen=True, slots=True)
class ResumeComparison:
    """The comparison of losses at the same steps before and after a resume.

    Attributes:
        verdict: `same`, `differs`, or `not_comparable`: too few steps were logged twice, or a
            difference was agreed.
        overlap_steps: Steps that were logged before and after.
        max_abs: The largest absolute difference; `None` without common steps.
        max_rel: The same as a share of the loss before.
        first_step: The first step that was compared.
        last_step: The last one.
        worst_step: The step with the largest difference.
        offset: The offset of the loss after the resume's warm-up, as a share; `None` before.
        reason: The reason for the verdict.
    """

    verdict: Literal["same", "differs", "not_comparable"]
    overlap_steps: int = 0
    max_abs: float | None = None
    max_rel: float | None = None
    first_step: int | None = None
    last_step: int | None = None
    worst_step: int | None = None
    offset: float | None = None
    reason: str = ""


def resume_doubts(run: Run, check: CheckRecorded) -> ResumeComparison | None:
    """Return the verdict on an instance's resume; `None` while it is unknown.

    The resume is not comparable if training is past all earlier steps with too few common steps.

    Args:
        run: The run before or after the check is folded in.
        check: Of a live instance.
    """
    known = run.ends.judgement
    if check.instance != known.resumed or known.proof:
        return None
    compared = compare_resume(run, check)
    undecided = compared.verdict == "not_comparable" and not _is_past_all(run, check)
    return None if undecided else compared


def health_by_proof(
    run: Run, check: CheckRecorded, job: JobFacts | None, health: Health, because: str
) -> tuple[Health, str]:
    """Limit the health of a resumed run until its resume is proven.

    A proof from the same check counts. A success stays a success without a proof, but its reason
    says what was not proven.

    Args:
        run: The run before the check.
        check: The check, without its final health.
        job: The orchestrator's report.
        health: The health by all other evidence.
        because: The reason by all other evidence.
    """
    known = run.ends.judgement
    state = job.state if job is not None else None
    well = health is Health.HEALTHY and state in (JobState.RUNNING, JobState.SUCCEEDED)
    if not well or check.instance != known.resumed:
        return health, because
    comparison = resume_doubts(run, check)
    proof = comparison.verdict if comparison is not None else known.proof
    step = run.instances[-1].plan.resume_step
    words = describe_open_proof(proof, step)
    if state is JobState.SUCCEEDED:
        words = words if proof else f"its resume from step {step} was never proven"
        return health, f"{because}; {words}" if words else because
    because = f"{because}; {words}" if words else because
    return (health if proof in PROVEN else unproven_health(proof)), because


def _is_past_all(run: Run, check: CheckRecorded) -> bool:
    highest, shown = run.ends.judgement.high_water, check.progress
    if shown is None:
        return False
    if highest is None:
        return is_moving(run.instances[-1].plan, shown)
    return shown.step - shown.uncertainty > highest


def compare_resume(run: Run, check: CheckRecorded) -> ResumeComparison:
    """Compare the losses that a resumed instance logs with those of the lineage before it.

    Args:
        run: The run before or after the check is folded in; only its contract is read.
        check: The check of the resumed instance, with the comparison so far.
    """
    found = check.measured.resume
    if found is None:
        return ResumeComparison("not_comparable", reason="no step was logged before and after")
    if found.reason:
        return ResumeComparison("not_comparable", reason=found.reason)
    limits = limits_of(contract_of(run))
    is_off = offset_is_off(found, limits)
    if is_off:
        return _compared("differs", found, f"the loss is off by more than {limits.resume_offset}")
    if is_off is False and (not found.beyond or found.offset_points):
        return _compared("same", found, "no offset is left after the resume's warm-up")
    if found.steps < LIKE_STEPS_MIN:
        few = f"{found.steps} steps were logged before and after, {LIKE_STEPS_MIN} are needed"
        return _compared("not_comparable", found, few)
    if found.beyond:
        apart = f"{found.beyond} of {found.steps} steps differ by more than {limits.resume_overlap}"
        return _compared("differs", found, apart)
    return _compared("same", found, f"all {found.steps} steps agree within {limits.resume_overlap}")


def _compared(
    verdict: Literal["same", "differs", "not_comparable"], found: Overlap, reason: str
) -> ResumeComparison:
    return ResumeComparison(
        verdict=verdict,
        overlap_steps=found.steps,
        max_abs=found.max_abs,
        max_rel=found.max_rel,
        first_step=found.first_step,
        last_step=found.last_step,
        worst_step=found.worst_step,
        offset=found.offset,
        reason=reason,
    )
