"""Classifies a bad end by its exit facts, then by claims of its log.

Cause and outlook are separate claims. A cause that neither source proves is `unknown`.
"""

import hashlib
import re
from dataclasses import dataclass, replace

from watchkeeper.domain.reading.triage.memory import memory_cause
from watchkeeper.domain.reading.triage.volatile import normalise
from watchkeeper.domain.values.basic import ForeignText, JobFacts, JobState
from watchkeeper.domain.values.causes import CauseClaim, Outlook
from watchkeeper.domain.values.check import Check
from watchkeeper.domain.values.exits import describe_end

INFRASTRUCTURE_ENDS = frozenset(
    {"JOB_SUPERVISOR_ACTOR_DIED", "JOB_SUPERVISOR_ACTOR_UNSCHEDULABLE", "LOCAL_SUPERVISOR_DIED"}
)
"""Error types of an end that also ended the job's supervisor.

The first two are Ray's (2.60, JobErrorType), the third is that of our `local` orchestrator.
"""

_NODE_WORDS = re.compile(
    r"job supervisor actor died|node (?:died|is dead|was terminated)|head node (?:died|is gone)"
    r"|^worker failed\.?$",
    re.IGNORECASE,
)
CLAIM_CONFIDENCE_MIN = 0.6
"""A claim with less confidence is only a hint: the exit facts decide the cause."""

_SETTLES_NOTHING = frozenset({"unknown", "benign", "user_stopped"})

_SIGKILL = 9

RAISED = frozenset(
    {
        "code_bug",
        "config_error",
        "data_error",
        "checkpoint_error",
        "network_storage_transient",
        "wandb_error",
    }
)
"""Causes by which a program ends itself. They never come with a SIGKILL. If a process was killed
without a traceback, a log line about such a cause does not explain it."""

_ERROR_LINE = re.compile(r"^\s*(?:[\w.]+\.)?[A-Z]\w*(?:Error|Exception|Interrupt|Exit)\b")


@dataclass(frozen=True, slots=True)
class Classified:
    """A classified bad end; see `FailureClassified` for the fields.

    Attributes:
        cause: A class such as `node_failure`.
        confidence: How surely one line proves the cause; 1 for exit facts.
        rules: The signatures that name it; empty if exit facts name it.
        secondary: What other lines claim.
        task: The task that printed the line.
    """

    cause: str
    outlook: Outlook
    fingerprint: str
    evidence: tuple[str, ...]
    confidence: float = 0.0
    rules: tuple[str, ...] = ()
    secondary: tuple[str, ...] = ()
    task: str = ""


def classify(job: JobFacts, check: Check) -> Classified:
    """Classify a terminal job that did not succeed and that nobody on record stopped.

    Args:
        job: The orchestrator's last report.
        check: The check that saw it, with the log lines that matter.
    """
    error = last_error_line(check.evidence) if check.traceback else ""
    facts = (describe_end(job), *((error,) if error else ()))
    print_ = fingerprint(job, error)
    if is_infrastructure_end(job):
        return Classified("node_failure", Outlook.RETRY, print_, facts, confidence=1.0)
    memory = memory_cause(job, check, error)
    if memory:
        return Classified(memory, Outlook.ASK, print_, facts)
    claim = stated_cause(check)
    if claim is not None:
        print_ = fingerprint(job, error or claim.line)
        cited = f"{claim.label} ({claim.signature}): {claim.line}"
        agreeing = [one for one in check.claims if one.label == claim.label]
        others = dict.fromkeys(one.label for one in check.claims if one.label != claim.label)
        return Classified(
            claim.label,
            claim.outlook,
            print_,
            (*facts, cited),
            confidence=claim.confidence,
            rules=tuple(dict.fromkeys(one.signature for one in agreeing)),
            secondary=tuple(label for label in others if label not in _SETTLES_NOTHING),
            task=claim.task,
        )
    if check.traceback:
        return Classified("unknown", Outlook.ASK, print_, facts)
    if job.signal is not None or job.state is JobState.STOPPED:
        silent = "no traceback in the log's tail, and nobody on record stopped it"
        return Classified("unknown", Outlook.RETRY_ONCE, print_, (*facts, silent))
    return Classified("unknown", Outlook.ASK, print_, facts)


def is_infrastructure_end(job: JobFacts) -> bool:
    """Return whether the orchestrator itself names a lost node or head as the reason."""
    return job.error_type in INFRASTRUCTURE_ENDS or _NODE_WORDS.search(job.message) is not None


def stated_cause(check: Check) -> CauseClaim | None:
    """Return the claim that names the cause of an end, if the recorded lines name one.

    A stop by a person counts only if it is recorded. A log line about a stop proves nothing.
    """
    job = check.job
    killed = job is not None and job.signal == _SIGKILL and not check.traceback
    barred = _SETTLES_NOTHING | RAISED if killed else _SETTLES_NOTHING
    confident = (claim for claim in check.claims if claim.confidence >= CLAIM_CONFIDENCE_MIN)
    return next((claim for claim in confident if claim.label not in barred), None)


def cause_from_other_sources(found: Classified, check: Check, cause: str) -> Classified:
    """Return the cause that other sources saw, if exit facts do not prove one.

    Args:
        found: What the exit facts say.
        check: The check that saw the end; a traceback in its lines outweighs other sources.
        cause: The cause that other sources name; empty without one.
    """
    if not cause or check.traceback or found.cause not in ("unknown", "node_failure"):
        return found
    return replace(found, cause=cause, outlook=Outlook.RETRY)


def first_line(job: JobFacts) -> ForeignText:
    """Return the first line of the orchestrator's message on a job; empty without one."""
    return job.message.strip().splitlines()[0] if job.message.strip() else ""


def fingerprint(job: JobFacts, error: str) -> str:
    """Return the same 8 hex digits for the same failure, whatever its step, time or ids."""
    # A shell's 137 and a plain -9 mean the same end, so the error type of the shell's child is left
    # out.
    kind = f"signal {job.signal}" if job.signal is not None else f"exit {job.exit_code}"
    infrastructure = job.error_type if job.error_type in INFRASTRUCTURE_ENDS else ""
    parts = (job.state.value, kind, infrastructure or "", normalise(error))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:8]


def last_error_line(lines: tuple[str, ...]) -> str:
    """Return the last line that names a Python exception, or an empty text."""
    for line in reversed(lines):
        if _ERROR_LINE.match(line):
            return line.strip()
    return ""
