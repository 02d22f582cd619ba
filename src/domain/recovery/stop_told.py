"""What says that a person stopped a job, where nobody on record did.

Such words mislead at times, so nothing is concluded but that the DRI is asked before a relaunch
(R14). Without any, an end that nobody on record asked for is a failure like others.
"""

from collections.abc import Iterable, Sequence
from signal import SIGINT, SIGTERM

from watchkeeper.domain.events import CheckRecorded, Outlook
from watchkeeper.domain.exits import exit_facts
from watchkeeper.domain.facts.claims import CauseClaim
from watchkeeper.domain.triage.claiming import claims_in
from watchkeeper.domain.triage.signatures.model import Label
from watchkeeper.domain.triage.triage import CLAIM_CONFIDENCE_MIN, describe_end
from watchkeeper.domain.values import JobFacts, JobState

STOPPED_BY_A_PERSON = "stop.by-user"
"""The signature of sentences that say so in words."""

INTERRUPTED = "stop.interrupt"
"""The signature of an interrupt, as Ctrl-C sends one."""

_BY_SIGINT = "exit.sigint"
_SIGINT_CONFIDENCE = 0.75


def stop_told(check: CheckRecorded, job: JobFacts, sentences: Iterable[str]) -> CauseClaim | None:
    """Return what says that a person stopped a job; none where nothing does.

    An orchestrator sends SIGTERM for many reasons, which its own words may name; SIGINT is what a
    person's Ctrl-C sends, and a `KeyboardInterrupt` what it raises.

    Args:
        check: The check that saw the end.
        job: The orchestrator's last word.
        sentences: Its own words on the job, and on the try whose failure ended it.
    """
    claims = (*check.claims, *claims_in(list(sentences)))
    signal = job.signal if job.signal is not None else exit_facts(job.exit_code)[1]
    stopped = job.state is JobState.STOPPED
    if stopped or signal in (SIGINT, SIGTERM):
        said = _sure(claims, STOPPED_BY_A_PERSON)
        if said is not None:
            return said
    if stopped or signal == SIGINT or check.traceback_of_stop:
        said = _sure(claims, INTERRUPTED)
        if said is not None:
            return said
    return _by_sigint(job) if signal == SIGINT else None


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
