"""Rule texts of the metric detectors: H4, H7, H8 and H9."""

from watchkeeper.domain.rules.shared.rule import RuleText

_HERO = "written procedure for hero runs"
_WHERE = "watchkeeper.domain.rules.health.metrics"

METRIC_TEXTS = (
    RuleText(
        "H4",
        "throughput collapse",
        "The upper median of each of `detect.throughput_cadences` cadences in a row, 3 unless the "
        "contract says otherwise, lies more than `detect.throughput_drop`, 25 %, below the rolling "
        "baseline. Slow steps, evaluations and checkpoints move no upper median; a start-up phase "
        "and steps that are trained again are not judged. Instances before count where hardware "
        "and batch are the same.",
        "Notify the DRI. It clears when two cadences are half-way back.",
        _WHERE,
        f"{_HERO}, What Can Go Wrong: Throughput collapse",
    ),
    RuleText(
        "H7",
        "numerical instability",
        "A loss, gradient norm, z-loss or router metric of training is NaN or infinite at the "
        "tracker, in the output, as a value or in a sentence of the run's own (`Loss is nan, "
        "stopping`), or by the job's own gauge, with a step or without, at any time, once is "
        "enough; past warm-up and catch-up, gradient norm or z-loss far above "
        "their own median, or router entropy far below, for `detect.sustained_steps`; or "
        "`detect.skipped_steps` optimizer steps skipped within 15 min. A spike that recovers by "
        "itself is none; neither is one overflow where a loss scale of float16 is logged.",
        "Alert and ask the DRI; never relaunched as infrastructure (R4). A NaN clears after 30 "
        "points that are numbers, lines of the output or rows of a history, or after 3 checks "
        "where each tells but one value; the rest half-way below its limit. A check at which "
        "nothing is logged clears neither.",
        _WHERE,
        f"{_HERO}, What Can Go Wrong: Numerical instability",
    ),
    RuleText(
        "H8",
        "sustained loss spike",
        "Past warm-up and catch-up, the loss lies more than `detect.loss_rise`, 50 %, above its "
        "expected trend for `detect.loss_steps`, 10, steps in a row, or fewer points that span "
        "them; the trend is a median that may rise only slowly, and a loss near zero must also "
        "leave its own noise. Hero runs: or the lowest loss of 5 min lies 6 deviations, and 0.05, "
        "above the 55 min before.",
        "Alert and ask the DRI. It clears half-way below the limit.",
        _WHERE,
        f"{_HERO}, What Can Go Wrong: Sustained loss spike; operating practice of hero runs",
    ),
    RuleText(
        "H9",
        "resume loss mismatch",
        "A step that was trained before and after a resume has losses that differ by more than "
        "`detect.resume_overlap`, 0.002; or past the resume's warm-up the loss lies more than "
        "`detect.resume_offset`, 1 %, off like steps or the trend before. What was rolled back is "
        "no reference, and `detect.resume_differs: expected` or `detect.resume_planned` say what "
        "was agreed.",
        "Alert and ask the DRI. It clears when 20 like steps agree or no offset is left.",
        _WHERE,
        f"{_HERO}, What Can Go Wrong: Resume loss mismatch",
    ),
)
"""In the order in which people read them."""
