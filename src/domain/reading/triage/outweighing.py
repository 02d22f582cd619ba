"""Which log claims outweigh an orchestrator's report of a lost machine.

The log of a lost machine stops in the middle of its work. It may hold warnings, caught errors and
messages of workers that shut down. So only a claim that says why a program ended by itself is
stronger than the report.
"""

import re

from watchkeeper.domain.reading.signatures.prefixes import bare
from watchkeeper.domain.reading.triage.classify import CLAIM_CONFIDENCE_MIN, RAISED
from watchkeeper.domain.values.causes import NUMERICAL, CauseClaim

LOST_PEER_ERRORS = frozenset(
    {"collective_hang", "network_storage_transient", "controller_failure", "node_failure"}
)
"""Causes that tasks print after another task is gone."""

_ENDS_A_PROGRAM = frozenset({"hbm_oom", "host_oom", "disk_full", "tpu_bad_node"})
"""Causes that a log message alone proves."""

_NO_RIVALS = LOST_PEER_ERRORS | {"preemption", "user_stopped", "unknown", "benign"}
"""Causes that agree with that report, follow from it, or prove nothing."""

_TREND = "nan.trend"
"""The signature of numbers that diverged over many lines."""

_LOW_LEVEL = re.compile(
    r"^(?:\S+ ){0,4}?\W{0,3}(?-i:WARN(?:ING)?|DEBUG|INFO|NOTICE)\b|^\W?(?-i:[WI])\d{4,8} "
    r"|^\W{0,3}warning\b|\[(?:warn(?:ing)?|info|debug)\]|(?-i:\wWarning:)"
    r"|level=(?:info|warn|debug)|\"level\": ?\"(?:info|warn|debug)",
    re.IGNORECASE,
)
_ERROR_LEVEL = re.compile(r"^(?:\S+ ){0,4}?\W{0,3}(?:ERROR|CRITICAL|FATAL)\b|^\W?[EF]\d{4,8} ")
_RAISED_NAME = re.compile(
    r"^\s*(?:(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Training)"
    r"|(?:[A-Za-z_]\w*\.)+[A-Z]\w*)(?:: |:?$)"
)
_GOT_OVER = re.compile(
    r"\bcaught\b(?! \w+(?:Error|Exception) in\b)|\b(?:will retry|retrying|retried)\b|\bskipp\w+"
    r"|\bignor(?:ed|ing)\b|(?<!cannot )(?<!not )(?<!to )\bcontinu(?:e|es|ing)\b|\brecovered\b"
    r"|\bhandled\b|\bfall(?:s|ing)? back\b|\bfell back\b|\btry(?:ing)? again\b",
    re.IGNORECASE,
)
_GIVES_UP = re.compile(
    r"(?<!early )(?<!early-)\b(?:stopping|exiting|aborting|terminating|quitting|halting|stopped"
    r"|aborted|exited|terminated|giving up|gave up|to (?:stop|abort|exit))\b",
    re.IGNORECASE,
)


def outweighs(claim: CauseClaim, traceback: bool) -> bool:
    """Return whether a claim outweighs the report that the first task lost its machine.

    A claim that agrees with the report, or follows from it, does not outweigh it.

    Args:
        claim: The claim of a log line.
        traceback: Whether the log's tail has a traceback.
    """
    if claim.label in _NO_RIVALS:
        return True
    if claim.confidence < CLAIM_CONFIDENCE_MIN:
        return False
    gives_up = _GIVES_UP.search(claim.line) is not None
    if not gives_up and (_LOW_LEVEL.search(claim.line) or _GOT_OVER.search(claim.line)):
        return False
    if claim.label in _ENDS_A_PROGRAM:
        return True
    raised = _RAISED_NAME.match(bare(claim.line)) is not None
    if claim.label == NUMERICAL:
        errs = _ERROR_LEVEL.search(claim.line) is not None
        return raised or gives_up or errs or claim.signature == _TREND
    return claim.label in RAISED and raised and traceback
