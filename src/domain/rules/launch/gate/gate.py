"""The launch gate, which runs all L rules.

Each rule is a plain function over the contract, the plan and facts. The rules are in `command`,
`code`, `place`, `identity`, `people` and `drift`. `LANE_TABLE` says how much each lane must state.
"""

from watchkeeper.domain.rules.launch.gate.base import (
    Gate,
    covering_approval,
    inferred,
    missing,
    passed,
)
from watchkeeper.domain.rules.launch.gate.code import L2, L8
from watchkeeper.domain.rules.launch.gate.command import L1, L7, secret_places
from watchkeeper.domain.rules.launch.gate.drift import L14
from watchkeeper.domain.rules.launch.gate.identity import L4, L5, L15, L17
from watchkeeper.domain.rules.launch.gate.people import L9, L11, L12, L13
from watchkeeper.domain.rules.launch.gate.place import L3, L6, L10
from watchkeeper.domain.rules.permits.waivers import waive_blocks
from watchkeeper.domain.rules.shared.rule import HERO, Rule
from watchkeeper.domain.values.contract.plan import GateFinding, Verdict

__all__ = ["Gate", "blocks", "covering_approval", "preflight", "secret_places"]

_TESTED = (L1, L2, L3, L4, L5, L6, L7, L8, L9, L10, L11, L12, L13, L14, L15, L17)

_PAUSING = frozenset(rule.id for rule in _TESTED if rule.pauses)


def preflight(gate: Gate) -> tuple[GateFinding, ...]:
    """Check a plan against every launch rule; one finding for each, in the order of ids."""
    *findings, last = (rule.test(gate) for rule in _TESTED)
    return waive_blocks((*findings, l16(gate, (*findings, last)), last), gate.waivers)


def blocks(findings: tuple[GateFinding, ...]) -> tuple[GateFinding, ...]:
    """Return the findings that forbid the launch."""
    return tuple(finding for finding in findings if finding.verdict is Verdict.BLOCK)


def l16(gate: Gate, findings: tuple[GateFinding, ...]) -> GateFinding:
    """L16: inferred values are marked, and the run's identity is clear.

    Args:
        gate: The input of the rules.
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
        return inferred(gate, "L16", "inferred values", says, "state it to be sure")
    return passed("L16", "inferred values", "nothing")


def _named(findings: list[GateFinding]) -> str:
    return "; ".join(f"{f.rule} {f.subject}" for f in findings)


L16 = Rule(
    id="L16",
    title="inferred values",
    when=(
        "Inferred values are marked. Code lineage, checkpoint policy and output identity are clear."
    ),
    then="An unclear value pauses a hero run. An inferred value warns there.",
    where=__name__,
    source=f"{HERO}, Launch: label it as inferred",
)

LAUNCH_RULES: tuple[Rule, ...] = (*_TESTED, L16)
"""All rules of the gate."""
