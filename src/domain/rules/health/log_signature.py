"""Detector of failure signatures in the log of a live job (H13)."""

import math

from watchkeeper.domain.reading.nonfinite_lines import shows_infinite_perplexity
from watchkeeper.domain.rules.health.detection import DetectorAnswer
from watchkeeper.domain.rules.health.liveness import moves
from watchkeeper.domain.rules.shared.rule import LOOP, DetectorInput, Rule
from watchkeeper.domain.run.monitor_accuracy import LOG_SIGNATURE
from watchkeeper.domain.run.watch import CheckRecorded
from watchkeeper.domain.values.basic import JobState, SourceState
from watchkeeper.domain.values.causes import CauseClaim
from watchkeeper.domain.values.check import Severity
from watchkeeper.domain.values.contract.metric_names import recognise

CONFIDENCE_MIN = 0.5
"""A claim with less confidence opens no finding on a live job."""

NEVER_REPORTED = frozenset({"benign", "unknown", "user_stopped"})
"""Labels that are not failures of a live job."""

SEVERE_CLASSES = frozenset(
    {
        "hbm_oom",
        "host_oom",
        "code_bug",
        "config_error",
        "data_error",
        "numerical_instability",
        "checkpoint_error",
        "tpu_bad_node",
        "disk_full",
        "collective_hang",
    }
)
"""Classes that do not recover. They are an alert if no step comes, else a notice."""


def log_signature(given: DetectorInput) -> DetectorAnswer:
    """H13: the log has lines of a failure class, even without the usual error words.

    If steps continued afterwards, the error was retried with success. Then only severe errors are
    reported.
    """
    check = given.check
    going_on = moves(check.liveness)
    counted = [one for one in check.claims if _counts(one) and not _is_overflow(one, check)]
    claims = [one for one in counted if one.label in SEVERE_CLASSES or not going_on]
    alive = check.job is not None and check.job.state is JobState.RUNNING
    holds: bool | None = None
    if claims and alive:
        holds = True
    elif going_on and _is_read(check):
        holds = False
    grave = any(one.label in SEVERE_CLASSES for one in claims)
    labels = ", ".join(sorted({one.label for one in claims}))
    after = "while steps still come" if going_on else "and no step came since"
    lines = tuple(f"{one.label} ({one.signature}): {one.line}" for one in claims)
    return DetectorAnswer(
        LOG_SIGNATURE,
        "H13",
        Severity.ALERT if grave and not going_on else Severity.NOTIFY,
        holds,
        f"the log of the live job shows {labels}, {after}",
        lines[:8],
        labels,
    )


def _is_read(check: CheckRecorded) -> bool:
    # Steps from another source do not prove that the lines are gone.
    return any(r.source == "logs" and r.state is SourceState.FRESH for r in check.readings)


def _counts(claim: CauseClaim) -> bool:
    return claim.label not in NEVER_REPORTED and claim.confidence >= CONFIDENCE_MIN


def _is_overflow(claim: CauseClaim, check: CheckRecorded) -> bool:
    """Return whether a line only shows an infinite perplexity of a finite loss."""
    if not shows_infinite_perplexity(claim):
        return False
    name = recognise(check.metrics).get("loss")
    known = bool(check.measured.points) if name is None else math.isfinite(check.metrics[name])
    return known and not check.measured.not_finite


H13 = Rule(
    id="H13",
    title="log signature",
    when=(
        "The log of a live job has lines of a failure class, even without the usual error words. "
        "Benign, unknown and doubtful lines do not count, nor do transient errors after which "
        "steps continued."
    ),
    then=(
        "Alert if the class is severe and no step came since, else notify. The finding clears when "
        "the log no longer shows the lines and steps advance."
    ),
    where=__name__,
    source=f"{LOOP}, branch: An error in the log; branch: HBM reports without the word OOM",
    severity=Severity.NOTIFY,
)
