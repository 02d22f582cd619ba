"""The contract's limits for metrics (`detect`).

The lane's default applies to each setting that is left out.
"""

from typing import Annotated, Literal

from pydantic import Field, PositiveInt

from watchkeeper.domain.values.basic import Step, Value

MetricRole = Literal[
    "loss", "grad_norm", "throughput", "mfu", "z_loss", "router", "update_norm", "skipped"
]
"""The role of a metric, independent of its name in a framework."""

Fraction = Annotated[float, Field(gt=0, lt=1)]
Share = Annotated[float, Field(gt=0, le=100)]
Above = Annotated[float, Field(gt=0, le=1e6)]


class DetectPart(Value):
    """Limits of the detectors that read metrics: H2, H4, H7, H8 and H9.

    Attributes:
        metrics: Metric names by role, for metrics whose names do not show their role.
        throughput_drop: How far throughput must fall below its baseline, as a share (H4).
        throughput_cadences: How many consecutive cadences must be low (H4).
        warmup_steps: Steps after a start from scratch in which fast changes are expected (H7, H8).
            The default comes from the configuration or the final step.
        loss_rise: How far a loss must rise above its expected value, as a share (H8).
        loss_steps: How many consecutive steps must be raised (H8).
        loss_sigma: How many standard deviations a whole window must be above its baseline (H8); 0
            turns this off.
        grad_norm_factor: How many times its median a gradient norm must reach (H7).
        grad_norm_max: A gradient norm that always counts as exploded (H7); null for no limit.
        skipped_steps: Optimizer steps skipped within 15 min that count as instability (H7).
        z_loss_factor: How many times its median a z-loss must reach (H7).
        router_drop: Share of its baseline below which router entropy counts as collapsed (H7).
        sustained_steps: How many consecutive steps must be beyond a limit of H7.
        resume_overlap: Allowed difference of the loss at the same step before and after a resume
            (H9).
        resume_offset: Allowed offset of the loss after the resume's warm-up, as a share (H9).
        resume_warmup_steps: Steps after a resume before `resume_offset` is checked (H9).
        resume_differs: `alert`: a difference opens H9. `expected`: a difference was agreed, and
            nothing is compared. Used by H9 and the resume proof.
        resume_planned: The agreed difference of the loss at the resume, such as -0.0062.
        tracker_checks: How many consecutive checks must see that the tracker does not fit the run
            (H2).
        tracker_ahead: How far the tracker may be ahead of the output, in multiples of the steps
            printed between two checks (H2).
        tracker_loss: Allowed difference between the tracker's loss and the printed loss of the same
            step, as a share (H2).
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
