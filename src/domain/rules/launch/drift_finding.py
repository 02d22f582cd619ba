"""The finding that a relaunch's configuration drifted (H14)."""

from datetime import datetime

from watchkeeper.domain.rules.health.detection import DetectorAnswer
from watchkeeper.domain.rules.health.registry import FindingChange, changes_from_answers
from watchkeeper.domain.rules.launch.gate.base import UNKNOWN_SOURCE
from watchkeeper.domain.rules.launch.gate.gate import blocks
from watchkeeper.domain.rules.shared.rule import WRONG, Rule
from watchkeeper.domain.run.launch import PreflightRecorded
from watchkeeper.domain.run.run import Run
from watchkeeper.domain.values.check import Severity

CONFIG_DRIFT = "config_drift"
"""The finding that a relaunch would train differently from the instance before."""


EVIDENCE_MAX = 8
"""Most lines of evidence kept with a finding."""


def drift_at_gate(run: Run, checked: PreflightRecorded, now: datetime) -> list[FindingChange]:
    """H14: the gate blocks a relaunch because its configuration drifted (L14).

    Args:
        run: The run that is to be relaunched.
        checked: The result of the gate.
        now: The time of the result. A planned act may expect the finding.
    """
    held = [finding for finding in blocks(checked.findings) if finding.rule == "L14"]
    drifted = [finding for finding in held if not finding.says.startswith(UNKNOWN_SOURCE)]
    lines = tuple(line for one in drifted for line in (one.says, one.fix) if line)
    instance = checked.plan.instance
    summary = f"{instance} would be another training than the instance before it"
    found = DetectorAnswer(
        CONFIG_DRIFT,
        "H14",
        Severity.NOTIFY,
        # An unreadable configuration neither opens nor clears the finding.
        bool(drifted) if drifted or not held else None,
        summary,
        lines[:EVIDENCE_MAX],
        drifted[0].says if drifted else "",
    )
    return changes_from_answers(run, (found,), now)


H14 = Rule(
    id="H14",
    title="configuration drift",
    when=(
        "The gate blocks a decided relaunch, because its configuration differs from the previous "
        "instance (L14)."
    ),
    then=(
        "Notify, with each difference. The relaunch waits for the DRI (R19), even if a planned act "
        "expects the finding. It clears when the gate finds no drift. An unreadable configuration "
        "clears nothing."
    ),
    where=__name__,
    source=f"{WRONG}: Config drift on relaunch",
    severity=Severity.NOTIFY,
)
