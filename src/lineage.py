"""Looks up in the ledger whose checkpoint a run would start from."""

from watchkeeper.domain.contract import checkpoint_root_of
from watchkeeper.domain.gate_facts import Lineage
from watchkeeper.domain.places import contract_root
from watchkeeper.domain.state import Run
from watchkeeper.ledger import Ledger


def lineage_of(ledger: Ledger, path: str, own: Run | None = None) -> Lineage | None:
    """Return what the recorded runs know of a checkpoint; none where none of them owns its root.

    Args:
        ledger: Where all runs are recorded.
        path: The checkpoint's folder; empty for none.
        own: The run itself, which is asked first; others then need not be read.
    """
    if not path:
        return None
    wanted = contract_root(path)
    if own is not None and _owns(own, wanted):
        return _known(own, wanted)
    for slug in ledger.slugs():
        run = ledger.run(slug)
        if isinstance(run, Run) and _owns(run, wanted):
            return _known(run, wanted)
    return None


def _owns(run: Run, path: str) -> bool:
    if run.contract is None:
        return False
    return path.rpartition("/")[0] == contract_root(checkpoint_root_of(run.contract))


def _known(run: Run, path: str) -> Lineage:
    rejected = next((why for at, why in run.rejected.items() if contract_root(at) == path), "")
    validated = any(contract_root(one.path) == path for one in run.checkpoints.values())
    return Lineage(run=run.slug, validated=validated, rejected=rejected)
