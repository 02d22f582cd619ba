"""Failure classes: the usual outlook of each, and its possible causes."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Annotated

from pydantic import Field

from watchkeeper.domain.values.basic import ForeignText, Value


class Outlook(StrEnum):
    """Whether a retry makes sense. This claim is separate from the cause."""

    RETRY = "retry"
    RETRY_ONCE = "retry_once"
    ASK = "ask"
    NEVER = "never"


OUTLOOK_SAYS = {
    Outlook.RETRY: "a retry can work",
    Outlook.RETRY_ONCE: "one retry makes sense",
    Outlook.ASK: "a person decides about a retry",
    Outlook.NEVER: "a retry makes no sense",
}
"""The meaning of each, in words."""


class Hypothesis(StrEnum):
    """A possible reason of a failure, which the result of a relaunch may rule out."""

    NODE = "node"
    ALLOCATION = "allocation"
    FABRIC = "fabric"
    CODE = "code"
    DATA = "data"


NUMERICAL = "numerical_instability"
"""The cause that is never treated as infrastructure (R4)."""

NUMBERS_WRONG = frozenset({"H7", "H8"})
"""Findings that the numbers of the training went wrong."""

_RECORD_WRONG = frozenset({"H2", "H17"})
"""Findings that the record has a wrong identity, or a doubtful lineage."""

_OF_LINES = frozenset({"startup_forbidden", "startup_missing"})
"""Those findings about numbers that rely on the wording of printed lines."""


def is_record_wrong(rule: str, kind: str) -> bool:
    """Return whether a finding is about the identity or the lineage of the record."""
    return rule in _RECORD_WRONG and kind not in _OF_LINES


def is_lasting(rule: str, kind: str) -> bool:
    """Return whether a finding is about the record: a success does not close it."""
    return rule in NUMBERS_WRONG or is_record_wrong(rule, kind)


WRONG_NUMBERS = "wrong numbers"
"""The name of a finding about wrong numbers if it blocks a seal."""

IDENTITY, LINEAGE = "identity", "lineage"
"""The names of findings about the record if they block a seal."""

FOUND_LACKS = tuple(f"{name}: " for name in (WRONG_NUMBERS, IDENTITY, LINEAGE))
"""The first words of seal problems that have their own finding. H11 leaves them out."""

UNKNOWN = frozenset({"unknown", "benign"})
"""Causes that prove nothing. `benign` only means that no line named a failure."""

_NODE, _ALLOCATION, _FABRIC = Hypothesis.NODE, Hypothesis.ALLOCATION, Hypothesis.FABRIC
_CODE, _DATA = Hypothesis.CODE, Hypothesis.DATA


@dataclass(frozen=True, slots=True)
class Cause:
    """What a class of failure means.

    Attributes:
        outlook: Whether a retry makes sense, if nothing more specific is known.
        hypotheses: Its possible reasons, which a relaunch tests.
    """

    outlook: Outlook
    hypotheses: tuple[Hypothesis, ...]


CAUSES: Mapping[str, Cause] = MappingProxyType(
    {
        "preemption": Cause(Outlook.RETRY, (_ALLOCATION,)),
        "maintenance": Cause(Outlook.RETRY, (_ALLOCATION,)),
        "node_failure": Cause(Outlook.RETRY, (_NODE,)),
        "hardware": Cause(Outlook.RETRY, (_NODE,)),
        "tpu_bad_node": Cause(Outlook.RETRY, (_NODE,)),
        "controller_failure": Cause(Outlook.RETRY, (_ALLOCATION,)),
        "network_storage_transient": Cause(Outlook.RETRY, (_FABRIC,)),
        "collective_hang": Cause(Outlook.RETRY_ONCE, (_FABRIC, _NODE, _CODE)),
        "unknown": Cause(Outlook.ASK, (_NODE, _ALLOCATION, _FABRIC, _CODE, _DATA)),
        "benign": Cause(Outlook.ASK, (_NODE, _ALLOCATION, _FABRIC, _CODE, _DATA)),
        "hbm_oom": Cause(Outlook.ASK, (_CODE, _DATA)),
        "host_oom": Cause(Outlook.ASK, (_NODE, _CODE, _DATA)),
        "disk_full": Cause(Outlook.ASK, (_NODE,)),
        "capacity_wedge": Cause(Outlook.ASK, (_ALLOCATION,)),
        "code_bug": Cause(Outlook.ASK, (_CODE,)),
        "config_error": Cause(Outlook.ASK, (_CODE,)),
        "data_error": Cause(Outlook.ASK, (_DATA,)),
        "checkpoint_error": Cause(Outlook.ASK, (_CODE, _DATA)),
        "wandb_error": Cause(Outlook.ASK, (_FABRIC, _CODE)),
        NUMERICAL: Cause(Outlook.NEVER, (_CODE, _DATA)),
        "user_stopped": Cause(Outlook.NEVER, ()),
    }
)
"""Every known class of failure."""

INFRASTRUCTURE = frozenset(name for name, cause in CAUSES.items() if cause.outlook is Outlook.RETRY)
"""Causes outside of the run, for which a retry makes sense."""


def cause_of(name: str) -> Cause:
    """Return the meaning of a cause; an unlisted cause means the same as `unknown`."""
    return CAUSES.get(name, CAUSES["unknown"])


def cautious(name: str, stated: Outlook) -> Outlook:
    """Return the outlook to use: the claimed one, but never bolder than the cause allows.

    An unknown failure is retried once at most, because of exit facts. Wrong numbers and a stop are
    never retried.
    """
    if cause_of(name).outlook is Outlook.NEVER:
        return Outlook.NEVER
    proven = name in CAUSES and name not in UNKNOWN
    # A claim that a retry surely works has to name a cause.
    return Outlook.ASK if stated is Outlook.RETRY and not proven else stated


CLAIMS_MAX = 8
"""How many of the most important claims a check keeps."""


class CauseClaim(Value):
    """A claim of one log line, or of one fact about an end, about the cause.

    Attributes:
        label: A class of failure, such as `hbm_oom`.
        signature: The signature that matched, or the fact.
        outlook: Whether a retry makes sense, by this claim alone.
        confidence: How surely the line proves the cause, 0 to 1.
        line: The line or fact, scrubbed, at most 300 characters.
        task: The task or rank that printed it; empty if unknown.
    """

    label: str
    signature: str
    outlook: Outlook
    confidence: float
    line: Annotated[ForeignText, Field(max_length=300)] = ""
    task: str = ""
