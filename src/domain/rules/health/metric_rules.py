"""The rules of the metric detectors: H4, H7, H8 and H9."""

from watchkeeper.domain.rules.health import metrics
from watchkeeper.domain.rules.shared.rule import (
    HERO,
    MANY,
    NEVER,
    DetectorInput,
    Limit,
    Rule,
    with_facts,
)
from watchkeeper.domain.run.watch import CheckRecorded
from watchkeeper.domain.values.check import Severity

_WHERE = metrics.__name__


def _without_nonfinite(given: DetectorInput) -> tuple[str, CheckRecorded] | None:
    measured = given.check.measured.model_copy(update={"not_finite": ()})
    return "every value had been a number", with_facts(given.check, measured=measured)


def _without_shift(given: DetectorInput) -> tuple[str, CheckRecorded] | None:
    measured = given.check.measured.model_copy(update={"shift": None})
    return "its loss had kept its level", with_facts(given.check, measured=measured)


def _without_resume(given: DetectorInput) -> tuple[str, CheckRecorded] | None:
    measured = given.check.measured.model_copy(update={"resume": None})
    return "no losses of the same steps had been compared", with_facts(
        given.check, measured=measured
    )


H4 = Rule(
    id="H4",
    title="throughput collapse",
    when=(
        "The upper median of each of `detect.throughput_cadences` cadences in a row, 3 unless the "
        "contract says otherwise, lies more than `detect.throughput_drop`, 25 %, below the rolling "
        "baseline. Slow steps, evaluations and checkpoints move no upper median; a start-up phase "
        "and steps that are trained again are not judged. Instances before count where hardware "
        "and batch are the same."
    ),
    then="Notify the DRI. It clears when two cadences are half-way back.",
    where=_WHERE,
    source=f"{HERO}, What Can Go Wrong: Throughput collapse",
    severity=Severity.NOTIFY,
    limits=(
        Limit("detect", "throughput_drop", 0.999),
        Limit("detect", "throughput_cadences", MANY),
    ),
)


H7 = Rule(
    id="H7",
    title="numerical instability",
    when=(
        "A loss, gradient norm, z-loss or router metric of training is NaN or infinite at the "
        "tracker, in the output, as a value or in a sentence of the run's own (`Loss is nan, "
        "stopping`), or by the job's own gauge, with a step or without, at any time, once is "
        "enough; past warm-up and catch-up, gradient norm or z-loss far above "
        "their own median, or router entropy far below, for `detect.sustained_steps`; or "
        "`detect.skipped_steps` optimizer steps skipped within 15 min. A spike that recovers by "
        "itself is none; neither is one overflow where a loss scale of float16 is logged."
    ),
    then=(
        "Alert and ask the DRI; never relaunched as infrastructure (R4). A NaN clears after "
        "30 points that are numbers, lines of the output or rows of a history, or after 3 "
        "checks if each has only one value; the rest half-way below its limit. A check at "
        "which nothing is logged clears neither."
    ),
    where=_WHERE,
    source=f"{HERO}, What Can Go Wrong: Numerical instability",
    severity=Severity.ALERT,
    limits=(
        Limit("detect", "grad_norm_factor", NEVER),
        Limit("detect", "grad_norm_max", NEVER),
        Limit("detect", "skipped_steps", MANY),
        Limit("detect", "z_loss_factor", NEVER),
        Limit("detect", "router_drop", 0.999),
        Limit("detect", "sustained_steps", MANY),
    ),
    alterations=(_without_nonfinite,),
)


H8 = Rule(
    id="H8",
    title="sustained loss spike",
    when=(
        "Past warm-up and catch-up, the loss lies more than `detect.loss_rise`, 50 %, above its "
        "expected trend for `detect.loss_steps`, 10, steps in a row, or fewer points that span "
        "them; the trend is a median that may rise only slowly, and a loss near zero must also "
        "leave its own noise. Hero runs: or the lowest loss of 5 min lies 6 deviations, and 0.05, "
        "above the 55 min before."
    ),
    then="Alert and ask the DRI. It clears half-way below the limit.",
    where=_WHERE,
    source=f"{HERO}, What Can Go Wrong: Sustained loss spike; operating practice of hero runs",
    severity=Severity.ALERT,
    limits=(
        Limit("detect", "loss_rise", NEVER),
        Limit("detect", "loss_steps", MANY),
        Limit("detect", "loss_sigma", NEVER),
    ),
    alterations=(_without_shift,),
)


H9 = Rule(
    id="H9",
    title="resume loss mismatch",
    when=(
        "A step that was trained before and after a resume has losses that differ by more than "
        "`detect.resume_overlap`, 0.002; or past the resume's warm-up the loss lies more than "
        "`detect.resume_offset`, 1 %, off like steps or the trend before. What was rolled back is "
        "no reference, and `detect.resume_differs: expected` or `detect.resume_planned` say what "
        "was agreed."
    ),
    then="Alert and ask the DRI. It clears when 20 like steps agree or no offset is left.",
    where=_WHERE,
    source=f"{HERO}, What Can Go Wrong: Resume loss mismatch",
    severity=Severity.ALERT,
    limits=(
        Limit("detect", "resume_overlap", NEVER),
        Limit("detect", "resume_offset", NEVER),
    ),
    alterations=(_without_resume,),
)
