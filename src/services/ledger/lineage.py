"""Finds which run made a starting checkpoint, and who rejected it."""

from collections.abc import Sequence

from watchkeeper.domain.run.run import Run
from watchkeeper.domain.values.contract.contract import checkpoint_root_of
from watchkeeper.domain.values.observation.gate_facts import Lineage
from watchkeeper.domain.values.places import contract_root
from watchkeeper.services.ledger.ledger import Ledger

ANCESTORS_MAX = 20
"""The most runs followed from descendant to ancestor; a lineage of three is long."""

UNREAD_MAX = 5
"""The most unreadable runs that are named."""


def lineage_of(ledger: Ledger, path: str, own: Run | None = None) -> Lineage | None:
    """Return the recorded facts about a checkpoint; None if no run knows it.

    A rejection by any run counts, since two runs may have used one root or an amendment may have
    moved it. A rejection of the checkpoint that the run started from counts too.

    Args:
        ledger: The ledger of all runs.
        path: The checkpoint's folder; empty if there is no checkpoint.
        own: The run itself, which is checked first. If it validated the checkpoint, no other run is
            checked.
    """
    if not path:
        return None
    wanted = contract_root(path)
    if own is not None:
        known = _known(own, wanted)
        if known is not None and (known.rejected or known.validated):
            return known
    runs: list[Run] = []
    unread: list[str] = []
    for slug in ledger.slugs():
        run = ledger.run(slug)
        if isinstance(run, Run):
            runs.append(run)
        else:
            unread.append(slug)
    found = _found(runs, wanted)
    if found is None or not found.rejected:
        compromised = _compromised(runs, wanted)
        found = compromised or found
    if not unread:
        return found
    return (found or Lineage()).model_copy(update={"unread": tuple(unread[:UNREAD_MAX])})


def _found(runs: Sequence[Run], path: str) -> Lineage | None:
    """Return the worst fact that any run has about a checkpoint."""
    known = [said for run in runs if (said := _known(run, path)) is not None]
    return min(known, key=_goodness, default=None)


def _goodness(said: Lineage) -> tuple[bool, bool, bool]:
    return (not said.rejected, not said.left, not said.validated)


def _compromised(runs: Sequence[Run], path: str) -> Lineage | None:
    """Return the rejected checkpoint that the wanted one descends from, or None.

    A run that continues from its own checkpoint descends from itself, which is already checked.
    """
    at = path
    for _ in range(ANCESTORS_MAX):
        owner = next((run for run in runs if _owns(run, at) and run.contract is not None), None)
        if owner is None or owner.contract is None or not owner.contract.initialize_from:
            return None
        source = contract_root(owner.contract.initialize_from)
        said = _found(runs, source)
        if said is not None and said.rejected:
            reason = f"{owner.slug} started from {source}, which was rejected: {said.rejected}"
            return Lineage(run=said.run, rejected=reason)
        at = source
    return None


def _owns(run: Run, path: str) -> bool:
    if run.contract is None:
        return False
    return path.rpartition("/")[0] == contract_root(checkpoint_root_of(run.contract))


def _known(run: Run, path: str) -> Lineage | None:
    """Return one run's facts about a checkpoint; None if it is neither its own nor rejected."""
    rejected = next(
        (why for at, why in run.checkpoints.rejected.items() if contract_root(at) == path), ""
    )
    owns = _owns(run, path)
    if not owns and not rejected:
        return None
    validated = any(contract_root(one.path) == path for one in run.checkpoints.validated.values())
    said = Lineage(run=run.slug, validated=validated, rejected=rejected)
    step = path.rpartition("/step-")[2]
    left = [one for one in run.operator.lineages if step.isdigit() and int(step) > one.above_step]
    if validated or not owns or not left:
        return said
    # A checkpoint that was never listed has no rejection of its own. Its write time decides.
    newest = max(left, key=lambda one: one.at)
    return said.model_copy(update={"left": newest.reason, "left_at": newest.at})
