"""What `missing` and `inferred` mean in each lane: one table for all launch rules.

What is stated and wrong blocks in every lane, and so does a source without an answer; that is the
rules' own. This table says how much a lane asks to be stated. The hero lane asks for all of it,
since a wrong guess costs most there; a canary is scheduled, so that nobody reads its warnings.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from watchkeeper.domain.values.contract.contract import Lane
from watchkeeper.domain.values.contract.plan import Verdict

_LANES = (Lane.HERO, Lane.DAILY, Lane.CANARY, Lane.ORDINARY)
_LETTERS = {"B": Verdict.BLOCK, "w": Verdict.WARN, "-": Verdict.PASS}

_TABLE = {
    # Rule: missing, inferred; in each hero, daily, canary, ordinary.
    "L1": ("BBBB", "BBBB"),
    "L2": ("BBBB", "BBww"),
    "L3": ("w---", "w---"),
    "L4": ("BBBB", "ww--"),
    "L5": ("Bw--", "B---"),
    "L6": ("BBBB", "BBww"),
    "L7": ("BBBB", "BwBw"),
    "L8": ("Bw--", "ww--"),
    "L9": ("BBBB", "w---"),
    "L10": ("Bw-w", "w---"),
    "L11": ("BBBB", "----"),
    "L12": ("BBBB", "ww--"),
    "L13": ("BBBB", "BBBB"),
    "L14": ("BBww", "BBww"),
    "L15": ("BBBB", "BBBB"),
    "L16": ("Bw--", "w---"),
    "L17": ("-w-w", "wwww"),
}

LANE_TABLE: Mapping[tuple[Lane, str, str], Verdict] = MappingProxyType(
    {
        (lane, rule, provenance): _LETTERS[letters[column]]
        for rule, pair in _TABLE.items()
        for provenance, letters in zip(("missing", "inferred"), pair, strict=True)
        for column, lane in enumerate(_LANES)
    }
)
"""By lane, rule and provenance."""


def verdict_on(lane: Lane, rule: str, provenance: Literal["missing", "inferred"]) -> Verdict:
    """Return what a missing or inferred value means for a rule in a lane."""
    return LANE_TABLE[lane, rule, provenance]
