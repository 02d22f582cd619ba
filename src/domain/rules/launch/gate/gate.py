"""The launch gate, which runs all L rules.

Each rule is a plain function over the contract, the plan and facts. The rules are in `command`,
`code`, `place`, `identity`, `people` and `drift`. `lanes` says how much must be stated in each
lane.
"""

from watchkeeper.domain.rules.launch.gate.base import (
    Gate,
    covering_approval,
    inferred,
    missing,
    passed,
)
from watchkeeper.domain.rules.launch.gate.code import l2, l8
from watchkeeper.domain.rules.launch.gate.command import l1, l7, secret_places
from watchkeeper.domain.rules.launch.gate.drift import l14
from watchkeeper.domain.rules.launch.gate.identity import l4, l5, l15, l17
from watchkeeper.domain.rules.launch.gate.people import l9, l11, l12, l13
from watchkeeper.domain.rules.launch.gate.place import l3, l6, l10
from watchkeeper.domain.rules.permits.waivers import waive_blocks
from watchkeeper.domain.values.contract.plan import GateFinding, Verdict

__all__ = ["Gate", "blocks", "covering_approval", "preflight", "secret_places"]

_PAUSING = frozenset({"L2", "L3", "L4", "L5", "L8"})
"""Rules on code lineage, output identity and checkpoint policy: if unclear, a launch pauses."""


def preflight(gate: Gate) -> tuple[GateFinding, ...]:
    """Check a plan against every launch rule; one finding for each, in the order of ids."""
    before = (l1, l2, l3, l4, l5, l6, l7, l8, l9, l10, l11, l12, l13, l14, l15)
    findings = tuple(rule(gate) for rule in before)
    last = l17(gate)
    return waive_blocks((*findings, l16(gate, (*findings, last)), last), gate.waivers)


def blocks(findings: tuple[GateFinding, ...]) -> tuple[GateFinding, ...]:
    """Return the findings that forbid the launch."""
    return tuple(finding for finding in findings if finding.verdict is Verdict.BLOCK)


def l16(gate: Gate, findings: tuple[GateFinding, ...]) -> GateFinding:
    """L16: inferred values are marked, and the run's identity is clear.

    Args:
        gate: The input that was judged.
        findings: The answers of all other rules.
    """
    open_ = [f for f in findings if f.verdict is not Verdict.BLOCK]
    unclear = [f for f in open_ if f.provenance == "missing" and f.rule in _PAUSING]
    if unclear:
        says = f"unclear: {_named(unclear)}"
        return missing(gate, "L16", "what is unclear", says, "state it, or find it out first")
    guessed = [f for f in open_ if f.provenance == "inferred"]
    if guessed:
        says = f"inferred: {_named(guessed)}"
        return inferred(gate, "L16", "what is inferred", says, "state it to be sure")
    return passed("L16", "what is inferred", "nothing")


def _named(findings: list[GateFinding]) -> str:
    return "; ".join(f"{f.rule} {f.subject}" for f in findings)
