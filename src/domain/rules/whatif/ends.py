"""Finds missing artefacts of a success from an observation alone (H11).

A seal verifies more, such as the launch commit on its remote. `tools judge` does not query that.
"""

from watchkeeper.domain.rules.seal.findings import artefacts_at_seal
from watchkeeper.domain.rules.seal.seal import missing_for_seal
from watchkeeper.domain.run.events import RunEvent
from watchkeeper.domain.run.phases import Finished
from watchkeeper.domain.run.run import Run, contract_of
from watchkeeper.domain.run.seal import SealBlocked
from watchkeeper.domain.values.basic import SourceState
from watchkeeper.domain.values.causes import FOUND_LACKS
from watchkeeper.domain.values.observation.observation import Observation, SealFacts, reading_of

_LATE = ("tracker state: running", "tracker state: unknown")
"""Tracker states shortly after an end. They do not count as missing yet."""


def missing_artefacts(run: Run, seen: Observation) -> list[RunEvent]:
    """Return the finding that a success lacks artefacts, by the observation.

    Args:
        run: The run after the check that saw its success.
        seen: The observation. A source without an answer proves nothing.
    """
    if not isinstance(run.phase, Finished) or contract_of(run).final_step.known is None:
        return []
    facts = SealFacts(observation=seen, commit_found=True)
    missing = tuple(one for one in missing_for_seal(run, facts) if _is_seen(seen, one))
    blocked = SealBlocked(missing=missing) if missing else None
    return [*artefacts_at_seal(run, blocked, seen.at)]


def _is_seen(seen: Observation, lack: str) -> bool:
    if lack.startswith(FOUND_LACKS):
        return False  # A separate finding reports it.
    source = "tracker" if lack.startswith("tracker") else "checkpoints"
    answered = reading_of(seen, source).state is SourceState.FRESH
    return answered and not lack.startswith(_LATE)
