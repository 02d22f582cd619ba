"""The contract's settings for what counts as wrong in a run's metrics.

The lane's default applies to each setting that is left out.
"""

from typing import Annotated, Literal

from pydantic import Field, PositiveInt

from watchkeeper.domain.values.basic import Step, Value

MetricRole = Literal[
    "loss", "grad_norm", "throughput", "mfu", "z_loss", "router", "update_norm", "skipped"
]
"""The role of a metric, whatever a framework calls it."""

Fraction = Annotated[float, Field(gt=0, lt=1)]
Share = Annotated[float, Field(gt=0, le=100)]
Above = Annotated[float, Field(gt=0, le=1e6)]


class DetectPart(Value):
    """Limits of the detectors that read metrics: H2, H4, H7, H8 and H9.

    Attributes:
        metrics: Name of the metric by what it tells, where the name itself does not show it.
        throughput_drop: Share below its baseline at which throughput has collapsed (H4).
        throughput_cadences: Cadences in a row that must show it (H4).
        warmup_steps: Steps after a start from scratch in which fast changes are expected (H7, H8);
            by the configuration or the final step when left out.
        loss_rise: Share above the expected trend at which a loss counts as raised (H8).
        loss_steps: Steps in a row that must be raised (H8).
        loss_sigma: How many standard deviations a whole window must lie above its baseline before
            it is reported as a shift, whatever its share (H8); 0 turns this off.
        grad_norm_factor: How far above its own median a gradient norm counts as exploded (H7).
        grad_norm_max: A gradient norm above which it always does (H7); none for no such limit.
        skipped_steps: Optimizer steps skipped within 15 min that count as instability (H7).
        z_loss_factor: How far above its own median a z-loss counts as a jump (H7).
        router_drop: Share of its baseline below which router entropy counts as collapsed (H7).
        sustained_steps: Steps in a row that must show what H7 calls sustained.
        resume_overlap: Difference of the loss at the same step before and after a resume (H9).
        resume_offset: Share by which the loss may lie off after the resume's warm-up (H9).
        resume_warmup_steps: Steps after a resume before `resume_offset` is looked at (H9).
        resume_differs: `alert`: a difference opens H9. `expected`: a change of the data mix or of
            numerics was agreed, so that nothing is compared. Read by H9 and the resume proof.
        resume_planned: Difference of the loss that was agreed for the resume, such as -0.0062.
        tracker_checks: Checks in a row that must see that the tracker does not fit the run (H2).
        tracker_ahead: How many times as many steps as were printed between two checks the tracker
            may be ahead of the output (H2).
        tracker_loss: Share by which the tracker's loss may differ from the one printed at the same
            step (H2).
    """

    metrics: dict[MetricRole, Annotated[str, Field(min_length=1, max_length=200)]] = {}
    throughput_drop: Fraction | None = None
    throughput_cadences: Annotated[int, Field(ge=1, le=48)] | None = None
    warmup_steps: Step | None = None
    loss_rise: Share | None = None
    loss_steps: Annotated[int, Field(ge=1, le=10_000)] | None = None
    loss_sigma: Annotated[float, Field(ge=0, le=1000)] | None = None
    grad_norm_factor: Above | None = None
    grad_norm_max: Above | None = None
    skipped_steps: PositiveInt | None = None
    z_loss_factor: Above | None = None
    router_drop: Fraction | None = None
    sustained_steps: Annotated[int, Field(ge=1, le=10_000)] | None = None
    resume_overlap: Annotated[float, Field(gt=0, le=1000)] | None = None
    resume_offset: Share | None = None
    resume_warmup_steps: Step | None = None
    resume_differs: Literal["alert", "expected"] | None = None
    resume_planned: Annotated[float, Field(ge=-1000, le=1000)] = 0.0
    tracker_checks: Annotated[int, Field(ge=1, le=48)] | None = None
    tracker_ahead: Above | None = None
    tracker_loss: Share | None = None
