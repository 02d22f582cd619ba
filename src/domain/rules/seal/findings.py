"""The finding that the verification of a seal opens or clears (H11)."""

from datetime import datetime

from watchkeeper.domain.rules.health.detection import Held
from watchkeeper.domain.rules.health.registry import FindingChange, changes_of
from watchkeeper.domain.rules.launch.drift_finding import EVIDENCE_MAX
from watchkeeper.domain.run.phases import Finished
from watchkeeper.domain.run.queries import MISSING_ARTEFACTS
from watchkeeper.domain.run.run import Run
from watchkeeper.domain.run.seal import SealBlocked
from watchkeeper.domain.values.causes import FOUND_LACKS
from watchkeeper.domain.values.check import Severity


def artefacts_at_seal(run: Run, blocked: SealBlocked | None, now: datetime) -> list[FindingChange]:
    """H11: the orchestrator reports success, but something that a seal needs is missing.

    Args:
        run: The run that is to be sealed.
        blocked: What blocks the seal; none if nothing does.
        now: The time of the verification: an act may expect the finding.
    """
    if not isinstance(run.phase, Finished):
        return []  # A stopped run did not succeed.
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
