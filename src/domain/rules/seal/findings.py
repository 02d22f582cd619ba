"""The finding that the verification of a seal opens or clears (H11)."""

from datetime import datetime

from watchkeeper.domain.rules.health.detection import DetectorAnswer
from watchkeeper.domain.rules.health.registry import FindingChange, changes_from_answers
from watchkeeper.domain.rules.launch.drift_finding import EVIDENCE_MAX
from watchkeeper.domain.rules.shared.rule import HERO, LOOP, Rule
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
        blocked: What blocks the seal; `None` if nothing does.
        now: The time of the verification. A planned act may expect the finding then.
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
    found = DetectorAnswer(
        MISSING_ARTEFACTS, "H11", Severity.NOTIFY, bool(missing), summary, lines, about
    )
    return changes_from_answers(run, (found,), now)


H11 = Rule(
    id="H11",
    title="success with missing artefacts",
    when=(
        "A seal is requested, and one of these is missing: a successful end, the tracker's "
        "finished state, the complete final checkpoint, the launch commit, or an unused tag. Open "
        "findings about identity (H2), lineage (H2, H17) or numbers (H7, H8) also block the seal."
    ),
    then=(
        "The seal is blocked, and each missing item is named. After a success the finding stays "
        "open until a seal is verified. A human may waive most items by name, with a consent. A "
        "stopped run lacks a successful end, so it needs a waiver."
    ),
    where="watchkeeper.domain.rules.seal.seal",
    source=(
        f"{HERO}, Seal and What Can Go Wrong: Benign-looking success with missing artifacts; "
        f"{LOOP}, branch: Terminal and successful"
    ),
    severity=Severity.NOTIFY,
)
