"""Runs all detectors on a check and returns the changes to findings."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from itertools import chain

from watchkeeper.domain.rules.health.capacity import (
    H6,
    H12,
    long_pending,
    partial_allocation,
    second_writer,
    stale_diagnostic,
    wrong_hardware,
)
from watchkeeper.domain.rules.health.checkpoints import (
    H5,
    checkpoint_incomplete,
    checkpoints_stalled,
    rollback_coverage,
)
from watchkeeper.domain.rules.health.detection import DetectorAnswer
from watchkeeper.domain.rules.health.freshness import H1, cleared_by_check
from watchkeeper.domain.rules.health.host import H15, disk_low, mount_missing
from watchkeeper.domain.rules.health.identity import H2, drifted, lineage_misfit
from watchkeeper.domain.rules.health.liveness import (
    H3,
    H16,
    degraded,
    monitor_blind,
    not_training,
    tracker_silent,
    unaccounted,
)
from watchkeeper.domain.rules.health.log_signature import H13, log_signature
from watchkeeper.domain.rules.health.metric_rules import H4, H7, H8, H9
from watchkeeper.domain.rules.health.metrics import metric_answers
from watchkeeper.domain.rules.health.start import (
    H10,
    H17,
    final_step,
    forbidden_line,
    line_missing,
    resumed_elsewhere,
    wrong_place,
)
from watchkeeper.domain.rules.shared.rule import DetectorInput, Rule, in_order
from watchkeeper.domain.run.health import FindingEvent, FindingOpened, FindingRaised
from watchkeeper.domain.run.monitor_accuracy import CLEARED_ITSELF
from watchkeeper.domain.run.open_questions import cleared
from watchkeeper.domain.run.queries import act_expecting
from watchkeeper.domain.run.run import Run
from watchkeeper.domain.run.watch import CheckRecorded
from watchkeeper.domain.values.causes import NUMBERS_WRONG, is_lasting
from watchkeeper.domain.values.check import Severity
from watchkeeper.domain.values.instance import Instance

FindingChange = FindingEvent
"""A change that a check makes to the findings of a run."""


def finding_changes_at(
    run: Run, answers: tuple[DetectorAnswer, ...], now: datetime
) -> list[FindingChange]:
    """Return which findings open and which clear at a check of a live instance.

    A finding that a planned act expects does not open; the check names it instead.

    Args:
        run: The run with its open findings.
        answers: The detectors' answers at the check; see `detector_answers`.
        now: When the check is made.
    """
    return [*cleared_by_check(run), *changes_from_answers(run, answers, now)]


def identity_changes_at(run: Run, check: CheckRecorded, now: datetime) -> list[FindingChange]:
    """Return whether H2 opens or clears at a check, also of an ended instance.

    The identity matters after the end, because the next instance must not log to the wrong place.
    """
    return changes_from_answers(
        run, (drifted(DetectorInput(run, run.instances[-1], check, now)),), now
    )


def changes_from_answers(
    run: Run, answers: tuple[DetectorAnswer, ...], now: datetime | None
) -> list[FindingChange]:
    """Return the changes that answers make to a run's findings.

    Args:
        run: The run with its open findings.
        answers: The detectors' answers.
        now: The time of the answers, for planned acts; `None` if planned acts do not matter.
    """
    changes: list[FindingChange] = []
    for answer in answers:
        known = run.health.findings.get(answer.kind)
        holds = answer.holds is True
        if holds and now is not None and act_expecting(run, answer.rule, now) is not None:
            continue
        if holds and known is None:
            changes.append(
                FindingOpened(
                    kind=answer.kind,
                    rule=answer.rule,
                    severity=answer.severity,
                    summary=answer.summary,
                    evidence=answer.evidence,
                    about=answer.about,
                )
            )
        if holds and known is not None:
            changes += _raised(known, answer)
        if answer.holds is False and known is not None:
            changes.append(cleared(run, answer.kind, answer.rule, CLEARED_ITSELF))
    return changes


def number_changes_at(run: Run, answers: tuple[DetectorAnswer, ...]) -> list[FindingChange]:
    """Return the changes of a last check to the findings about wrong numbers (R4).

    Planned acts do not silence these findings: a human must see wrong numbers.
    """
    return changes_from_answers(
        run, tuple(one for one in answers if one.rule in NUMBERS_WRONG), None
    )


def lasting_changes_at(run: Run, answers: tuple[DetectorAnswer, ...]) -> list[FindingChange]:
    """Return the changes of a last check to the findings that a success does not close."""
    lasting = tuple(one for one in answers if is_lasting(one.rule, one.kind))
    return changes_from_answers(run, lasting, None)


def _raised(known: FindingOpened, answer: DetectorAnswer) -> list[FindingChange]:
    """Return a raised finding if its severity rose or its subject changed."""
    louder = known.severity is Severity.NOTIFY and answer.severity is Severity.ALERT
    # A finding of an older version has no subject.
    if not louder and known.about in ("", answer.about):
        return []
    return [
        FindingRaised(
            kind=answer.kind,
            rule=answer.rule,
            severity=Severity.ALERT if louder else known.severity,
            summary=answer.summary,
            evidence=answer.evidence,
            before=known.severity,
            about=answer.about,
        )
    ]


def expected_findings(
    run: Run, answers: tuple[DetectorAnswer, ...], now: datetime
) -> tuple[str, ...]:
    """Name the findings that a planned act keeps closed, each with the act."""
    named: list[str] = []
    for answer in answers:
        if answer.holds is not True or answer.kind in run.health.findings:
            continue
        act = act_expecting(run, answer.rule, now)
        if act is not None:
            named.append(f"{answer.summary} ({answer.rule}, expected by {act.act})")
    return tuple(named)


def detector_answers(
    run: Run, instance: Instance, check: CheckRecorded, now: datetime
) -> tuple[DetectorAnswer, ...]:
    """Run every detector of a live instance once.

    Args:
        run: The run before or after the check is folded in; the answers are the same.
        instance: The checked instance, in its state before the check.
        check: The check; its health and expected findings follow from the answers.
        now: When the check is made.
    """
    at = DetectorInput(run, instance, check, now)
    answers = (detector.detect(at) for detector in DETECTORS)
    return tuple(chain.from_iterable(one if isinstance(one, tuple) else (one,) for one in answers))


@dataclass(frozen=True, slots=True)
class Detector:
    """One detector with its rules.

    Attributes:
        detect: Returns one answer, or one for each kind of finding.
        rules: The rules of its findings.
    """

    detect: Callable[[DetectorInput], DetectorAnswer | tuple[DetectorAnswer, ...]]
    rules: tuple[Rule, ...]


DETECTORS = (
    Detector(long_pending, (H6,)),
    Detector(resumed_elsewhere, (H17,)),
    Detector(unaccounted, ()),
    Detector(drifted, (H2,)),
    Detector(lineage_misfit, (H2,)),
    Detector(forbidden_line, (H17,)),
    Detector(line_missing, (H17,)),
    Detector(not_training, (H3,)),
    Detector(monitor_blind, (H1,)),
    Detector(tracker_silent, (H1,)),
    Detector(degraded, (H16,)),
    Detector(checkpoints_stalled, (H5,)),
    Detector(checkpoint_incomplete, (H5,)),
    Detector(rollback_coverage, (H5,)),
    Detector(partial_allocation, (H6,)),
    Detector(wrong_hardware, (H6,)),
    Detector(second_writer, (H12,)),
    Detector(stale_diagnostic, (H12,)),
    Detector(log_signature, (H13,)),
    Detector(disk_low, (H15,)),
    Detector(mount_missing, (H15,)),
    Detector(wrong_place, (H17,)),
    Detector(final_step, (H10,)),
    Detector(metric_answers, (H4, H7, H8, H9)),
)
"""All detectors, in the order in which their findings are recorded."""

LIVE_RULES = in_order(tuple({rule.id: rule for one in DETECTORS for rule in one.rules}.values()))
"""The rules of all detectors, by number."""
