"""Signs that a person stopped a job without a recorded request.

Such words mislead at times, so the only conclusion is that the DRI is asked before a relaunch
(R14). Without any sign, an end that nobody requested on record is a failure like others.
"""

import re
from collections.abc import Sequence
from signal import SIGINT, SIGKILL, SIGTERM

from watchkeeper.domain.reading.signatures.model import Label
from watchkeeper.domain.reading.triage.claiming import claims_in
from watchkeeper.domain.reading.triage.classify import CLAIM_CONFIDENCE_MIN
from watchkeeper.domain.values.basic import JobFacts, JobState
from watchkeeper.domain.values.causes import CauseClaim, Outlook
from watchkeeper.domain.values.check import Check
from watchkeeper.domain.values.exits import describe_end, exit_facts
from watchkeeper.domain.values.observation.sources import AttemptFacts

STOPPED_BY_A_PERSON = "stop.by-user"
"""The signature of sentences that name a stop by a person."""

_INTERRUPTED = "stop.interrupt"
"""The signature of an interrupt, as Ctrl-C sends one."""

_STOPPING = (SIGINT, SIGTERM, SIGKILL)
"""The signals of a stop: slurm's scancel sends SIGTERM, and SIGKILL after a while."""

_A_PERSON = re.compile(
    r"\bby (?:the |an? )?(?:user|uid|owner|admin\w*|operator|human|person)\b"
    r"|CANCELLED by \d|\buser[- ](?:requested|initiated|cancel|abort|stop|terminated)"
    r"|\b(?:manually|intentionally|deliberately|on purpose|user_stopped)\b|\b(?:I|we) \w+ed\b",
    re.IGNORECASE,
)
"""Words that name a person: a drained node or an autoscaler requests a stop as well."""

_AN_INTERRUPT = re.compile(
    r"KeyboardInterrupt(?:\W|$)|(?:received|got|caught) (?:an? )?(?:signal:? ?)?"
    r"(?:SIGINT|interrupt|(?:signal:? )?2\b)|Ctrl[-+ ]?C (?:received|pressed|caught|detected)"
    r"|\^C|(?:Interrupted|Aborted) by user|SIGINT (?:received|caught)|control-C",
    re.IGNORECASE,
)
"""An interrupt that happened: lines of settings and of help name interrupts as well."""

_BY_SIGINT = "exit.sigint"
_SIGINT_CONFIDENCE = 0.75


def user_stop(
    check: Check, job: JobFacts, first: AttemptFacts | None, sentences: Sequence[str]
) -> CauseClaim | None:
    """Return the sign that a person stopped a job, or `None`.

    An orchestrator sends SIGTERM for many reasons, which its own words may name; SIGINT is what a
    person's Ctrl-C sends, and a `KeyboardInterrupt` what it raises.

    Args:
        check: The check that saw the end.
        job: The orchestrator's last word.
        first: The attempt whose failure ended it.
        sentences: The orchestrator's own words on the attempt and the job.
    """
    said = claims_in(sentences)
    claims = (*check.claims, *said)
    signal, stopped = _signal(job, first), job.state is JobState.STOPPED
    by_user = _sure(claims, STOPPED_BY_A_PERSON)
    if stopped and by_user is not None:
        return by_user
    if signal in _STOPPING and by_user is not None and _A_PERSON.search(by_user.line):
        return by_user
    interrupted = _sure([one for one in claims if _AN_INTERRUPT.search(one.line)], _INTERRUPTED)
    if interrupted is not None and (stopped or signal == SIGINT or check.traceback_of_stop):
        return interrupted
    others = [one for one in said if one.label != Label.USER_STOPPED]
    return _by_sigint(job) if signal == SIGINT and not others else None


def _signal(job: JobFacts, first: AttemptFacts | None) -> int | None:
    """Return the signal that ended a job, by the job's end or else the attempt's."""
    signal = job.signal if job.signal is not None else exit_facts(job.exit_code)[1]
    if signal is not None or first is None:
        return signal
    return first.signal if first.signal is not None else exit_facts(first.exit_code)[1]


def _sure(claims: Sequence[CauseClaim], signature: str) -> CauseClaim | None:
    named = (one for one in claims if one.signature == signature)
    return next((one for one in named if one.confidence >= CLAIM_CONFIDENCE_MIN), None)


def _by_sigint(job: JobFacts) -> CauseClaim:
    return CauseClaim(
        label=Label.USER_STOPPED.value,
        signature=_BY_SIGINT,
        outlook=Outlook.NEVER,
        confidence=_SIGINT_CONFIDENCE,
        line=describe_end(job),
    )
