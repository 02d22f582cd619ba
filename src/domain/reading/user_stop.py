"""Finds signs that a person stopped a job without a recorded request.

The signs are sometimes wrong, so their only effect is a question to the DRI before a relaunch
(R14). Without a sign, an end without a recorded request is a failure like any other.
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
"""Signals that a stop sends; slurm's scancel sends SIGTERM, and later SIGKILL."""

_PERSON_WORDS = re.compile(
    r"\bby (?:the |an? )?(?:user|uid|owner|admin\w*|operator|human|person)\b"
    r"|CANCELLED by \d|\buser[- ](?:requested|initiated|cancel|abort|stop|terminated)"
    r"|\b(?:manually|intentionally|deliberately|on purpose|user_stopped)\b|\b(?:I|we) \w+ed\b",
    re.IGNORECASE,
)
"""Words that name a person. They are needed since an autoscaler also requests stops."""

_INTERRUPT_WORDS = re.compile(
    r"KeyboardInterrupt(?:\W|$)|(?:received|got|caught) (?:an? )?(?:signal:? ?)?"
    r"(?:SIGINT|interrupt|(?:signal:? )?2\b)|Ctrl[-+ ]?C (?:received|pressed|caught|detected)"
    r"|\^C|(?:Interrupted|Aborted) by user|SIGINT (?:received|caught)|control-C",
    re.IGNORECASE,
)
"""Words that report an interrupt. Settings and help texts only mention the word."""

_BY_SIGINT = "exit.sigint"
_SIGINT_CONFIDENCE = 0.75


def user_stop(
    check: Check, job: JobFacts, first: AttemptFacts | None, sentences: Sequence[str]
) -> CauseClaim | None:
    """Return the sign that a person stopped a job, or `None`.

    An orchestrator sends SIGTERM for many reasons, which its messages may name. A person's Ctrl-C
    sends SIGINT, which raises `KeyboardInterrupt` in Python.

    Args:
        check: The check that saw the end.
        job: The orchestrator's last report.
        first: The attempt whose failure ended the job.
        sentences: The orchestrator's own words on the attempt and the job.
    """
    stated_claims = claims_in(sentences)
    claims = (*check.claims, *stated_claims)
    signal, stopped = _signal(job, first), job.state is JobState.STOPPED
    by_user = _confident_claim(claims, STOPPED_BY_A_PERSON)
    if stopped and by_user is not None:
        return by_user
    if signal in _STOPPING and by_user is not None and _PERSON_WORDS.search(by_user.line):
        return by_user
    interrupted = _confident_claim(
        [one for one in claims if _INTERRUPT_WORDS.search(one.line)], _INTERRUPTED
    )
    if interrupted is not None and (stopped or signal == SIGINT or check.traceback_of_stop):
        return interrupted
    other_causes = [one for one in stated_claims if one.label != Label.USER_STOPPED]
    return _by_sigint(job) if signal == SIGINT and not other_causes else None


def _signal(job: JobFacts, first: AttemptFacts | None) -> int | None:
    """Return the signal that ended a job, by the job's end or else the attempt's."""
    signal = job.signal if job.signal is not None else exit_facts(job.exit_code)[1]
    if signal is not None or first is None:
        return signal
    return first.signal if first.signal is not None else exit_facts(first.exit_code)[1]


def _confident_claim(claims: Sequence[CauseClaim], signature: str) -> CauseClaim | None:
    matching = (one for one in claims if one.signature == signature)
    return next((one for one in matching if one.confidence >= CLAIM_CONFIDENCE_MIN), None)


def _by_sigint(job: JobFacts) -> CauseClaim:
    return CauseClaim(
        label=Label.USER_STOPPED.value,
        signature=_BY_SIGINT,
        outlook=Outlook.NEVER,
        confidence=_SIGINT_CONFIDENCE,
        line=describe_end(job),
    )
