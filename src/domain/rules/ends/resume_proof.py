"""Proof that a resumed instance continues the training of the one before.

The proof is recorded once for each instance.
"""

from watchkeeper.domain.rules.health.resume import ResumeComparison, resume_doubts
from watchkeeper.domain.run.ends import ResumeProven
from watchkeeper.domain.run.events import RunEvent
from watchkeeper.domain.run.questions import EscalationRaised
from watchkeeper.domain.run.run import Run, dri_of
from watchkeeper.domain.run.watch import CheckRecorded


def resume_events(run: Run, check: CheckRecorded) -> list[RunEvent]:
    """Return the verdict on a resume when it is known, and a question if losses differ.

    Args:
        run: The run with the check and its findings folded in.
        check: Of a live instance.
    """
    compared = resume_doubts(run, check)
    if compared is None:
        return []
    proven = _proven(run, check, compared)
    if compared.verdict != "differs" or any(f.rule == "H9" for f in run.health.findings.values()):
        return [proven]
    question = EscalationRaised(
        question=f"q-{run.questions.raised + 1}",
        rule="H9",
        to=dri_of(run),
        asks=f"{check.instance}: {proven.because}. Nothing was done; take it as it is, or go back?",
        evidence=proven.evidence,
    )
    return [proven, question]


def _proven(run: Run, check: CheckRecorded, compared: ResumeComparison) -> ResumeProven:
    step = run.instances[-1].plan.resume_step
    assert step is not None, "what resumed has a step that it resumed from"
    return ResumeProven(
        instance=check.instance,
        from_step=step,
        overlap_steps=compared.overlap_steps,
        max_abs=compared.max_abs,
        max_rel=compared.max_rel,
        verdict=compared.verdict,
        because=_because(run, compared),
        evidence=_evidence(check, compared),
    )


def _because(run: Run, compared: ResumeComparison) -> str:
    steps = f"{compared.overlap_steps} steps that were logged before and after the resume"
    match compared.verdict:
        case "same":
            return f"the losses of {steps} are the same: {compared.reason}"
        case "differs":
            return f"the losses of {steps} differ: {compared.reason}"
        case _:
            why = compared.reason or "too few steps were logged twice"
            step = run.instances[-1].plan.resume_step
            after_rollback = any(one.above_step == step for one in run.operator.lineages)
            before = (
                f"the step {step} of the rollback"
                if after_rollback
                else "all that was trained before"
            )
            return f"{why}, and training is past {before}"


def _evidence(check: CheckRecorded, compared: ResumeComparison) -> tuple[str, ...]:
    lines: list[str] = []
    if compared.max_abs is not None:
        worst = f" at step {compared.worst_step}" if compared.worst_step is not None else ""
        relative = f", {compared.max_rel:.3%} of it" if compared.max_rel is not None else ""
        lines.append(f"largest difference of the loss {compared.max_abs:.6g}{relative}{worst}")
    if compared.first_step is not None:
        lines.append(f"compared from step {compared.first_step} to {compared.last_step}")
    if check.progress is not None:
        lines.append(f"{check.instance} is at ~{check.progress.step}")
    return tuple(lines) or (f"{check.instance} trains",)
