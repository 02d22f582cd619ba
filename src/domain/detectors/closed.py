"""H11 and H14: what the verification of a seal, and the gate of a relaunch, find out."""

from datetime import datetime

from watchkeeper.domain.detectors.every import FindingChange, changes_of
from watchkeeper.domain.detectors.held import Held
from watchkeeper.domain.events import PreflightRecorded, SealBlocked, Severity
from watchkeeper.domain.gate.base import CANNOT_TELL
from watchkeeper.domain.gate.gate import blocks
from watchkeeper.domain.state.causes import FOUND_LACKS
from watchkeeper.domain.state.health import MISSING_ARTEFACTS
from watchkeeper.domain.state.phases import Finished
from watchkeeper.domain.state.run import Run

CONFIG_DRIFT = "config_drift"
"""The finding that a relaunch would be another training than the instance before."""

EVIDENCE_MAX = 8
"""Lines of evidence kept with a finding."""


def artefacts_at_seal(run: Run, blocked: SealBlocked | None, now: datetime) -> list[FindingChange]:
    """H11: the orchestrator says success, and something that a seal needs is missing.

    Args:
        run: The run that is to be sealed.
        blocked: What blocks the seal; none when nothing does.
        now: When it was looked at: an act may expect this.
    """
    if not isinstance(run.phase, Finished):
        return []  # What was stopped did not succeed.
    named = blocked.missing if blocked is not None else ()
    missing = [one for one in named if not one.startswith(FOUND_LACKS)]
    count = len(missing)
    what = f"{count} artefact{'s are' if count > 1 else ' is'} missing"
    first = f": {missing[0]}{' and more' if count > 1 else ''}" if missing else ""
    summary = f"success with missing artefacts: {what}, so nothing is sealed{first}"
    about = "; ".join(missing)[:500]
    lines = tuple(missing[:EVIDENCE_MAX])
    found = Held(MISSING_ARTEFACTS, "H11", Severity.NOTIFY, bool(missing), summary, lines, about)
    return changes_of(run, (found,), now)


def drift_at_gate(run: Run, checked: PreflightRecorded, now: datetime) -> list[FindingChange]:
    """H14: the gate blocks a relaunch since its configuration drifted (L14).

    Args:
        run: The run that is to be relaunched.
        checked: What the gate says.
        now: When it said so: an act may expect this.
    """
    held = [finding for finding in blocks(checked.findings) if finding.rule == "L14"]
    drifted = [finding for finding in held if not finding.says.startswith(CANNOT_TELL)]
    lines = tuple(line for one in drifted for line in (one.says, one.fix) if line)
    instance = checked.plan.instance
    summary = f"{instance} would be another training than the instance before it"
    found = Held(
        CONFIG_DRIFT,
        "H14",
        Severity.NOTIFY,
        # A configuration that nobody could read is neither another nor the same again.
        bool(drifted) if drifted or not held else None,
        summary,
        lines[:EVIDENCE_MAX],
        drifted[0].says if drifted else "",
    )
    return changes_of(run, (found,), now)
