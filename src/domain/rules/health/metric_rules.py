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
        "For `detect.throughput_cadences` cadences in a row (default 3), the upper median of "
        "throughput is more than `detect.throughput_drop` (default 25 %) below the rolling "
        "baseline. Single slow steps, evaluations and checkpoints do not count, nor do warm-up and "
        "repeated steps. Earlier instances with the same hardware and batch add to the baseline."
    ),
    then="Notify the DRI. The finding clears after two cadences that are at least half-way back.",
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
        "A training loss, gradient norm, z-loss or router metric is NaN or infinite once, in the "
        "tracker, in the output (also in a sentence such as `Loss is nan, stopping`) or in the "
        "job's gauges. Or, after warm-up and catch-up, gradient norm or z-loss is far above its "
        "median, or router entropy far below, for `detect.sustained_steps` steps. Or the optimizer "
        "skipped `detect.skipped_steps` steps within 15 min. A short spike does not count, nor "
        "does a single overflow with float16's loss scale."
    ),
    then=(
        "Alert and ask the DRI. R4 forbids a relaunch by rule. A NaN clears after 30 finite "
        "points, or after 3 checks if each shows one value. Other problems clear half-way below "
        "their limit. A check without new values clears nothing."
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
        "After warm-up and catch-up, the loss is more than `detect.loss_rise` (default 50 %) above "
        "its expected value for `detect.loss_steps` (default 10) consecutive steps, or fewer "
        "points that span them. The expected value is a median that rises only slowly, and a loss "
        "near zero must also exceed its noise. For hero runs also: the lowest loss of 5 min is 6 "
        "deviations, and at least 0.05, above the 55 min before."
    ),
    then="Alert and ask the DRI. The finding clears half-way below the limit.",
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
        "Losses of the same step before and after a resume differ by more than "
        "`detect.resume_overlap` (default 0.002). Or, after the resume's warm-up, the loss is "
        "offset by more than `detect.resume_offset` (default 1 %) from the same steps or the trend "
        "before. Rolled back steps are not compared. `detect.resume_differs: expected` and "
        "`detect.resume_planned` state agreed differences."
    ),
    then=(
        "Alert and ask the DRI. The finding clears when 20 common steps agree or the offset is "
        "gone."
    ),
    where=_WHERE,
    source=f"{HERO}, What Can Go Wrong: Resume loss mismatch",
    severity=Severity.ALERT,
    limits=(Limit("detect", "resume_overlap", NEVER), Limit("detect", "resume_offset", NEVER)),
    alterations=(_without_resume,),
)
