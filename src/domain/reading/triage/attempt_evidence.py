"""Evidence on the end of a job from the orchestrator's report on its tries.

The first task that failed is the cause; tasks killed after it are collateral. The orchestrator's
report is used if the log proves nothing, or only shows a lost peer.
"""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from watchkeeper.domain.reading.source_summaries import BURST
from watchkeeper.domain.reading.triage.claiming import claims_in
from watchkeeper.domain.reading.triage.classify import (
    CLAIM_CONFIDENCE_MIN,
    RAISED,
    Classified,
    classify,
    fingerprint,
    is_infrastructure_end,
)
from watchkeeper.domain.reading.triage.outweighing import LOST_PEER_ERRORS, outweighs
from watchkeeper.domain.reading.triage.unscheduled import (
    demand_lines,
    is_unscheduled,
    never_served,
    unscheduled_line,
)
from watchkeeper.domain.reading.user_stop import STOPPED_BY_A_PERSON, user_stop
from watchkeeper.domain.values.basic import ForeignText, JobFacts, JobState
from watchkeeper.domain.values.causes import NUMERICAL, UNKNOWN, CauseClaim, Outlook
from watchkeeper.domain.values.check import Check
from watchkeeper.domain.values.exits import exit_facts, signal_name
from watchkeeper.domain.values.observation.sources import AttemptFacts, AttemptState

LOST = {AttemptState.PREEMPTED: "preemption", AttemptState.WORKER_FAILED: "node_failure"}
"""Orchestrator states for a lost machine, as opposed to a failed program."""

_FAILED = frozenset({AttemptState.FAILED, AttemptState.KILLED, *LOST})

_SAYS_MORE = frozenset({"hbm_oom", "host_oom", "disk_full", NUMERICAL})
"""Causes that a flag about a machine's memory does not override."""

_NOT_BY_WORDS = UNKNOWN | {"host_oom", "user_stopped"}
"""Causes that the orchestrator's sentence alone does not prove: SIGKILL is "possibly OOM"."""


_NOISE_OF_A_STOP = UNKNOWN | LOST_PEER_ERRORS - {"node_failure"}
"""Causes that a stop by a person leaves in a log. A machine named as lost is not one."""

_SIGKILL = 9

_WEAKER_MAX = 2
"""Limit of cited claims that are weaker than the orchestrator's report."""


def first_failed(check: Check) -> AttemptFacts | None:
    """Return the attempt whose failure ended the instance; `None` if no attempt is reported.

    A try that failed long before the end and was retried does not count.
    """
    failed = [one for one in check.attempts if one.state in _FAILED]
    if not failed:
        return None
    timed = [at for one in failed if (at := _ended(one)) is not None]
    job_ended = check.job.ended_at if check.job is not None else None
    newest = max(timed, default=None)
    if newest is not None and job_ended is not None and job_ended - newest > BURST:
        return None
    burst = [one for one in failed if newest is None or newest - (_ended(one) or newest) <= BURST]
    own = [one for one in burst if one.state is not AttemptState.KILLED or one.oom]
    return (own or burst)[0]


def lost_machine_cause(attempt: AttemptFacts) -> str:
    """Return the cause if the orchestrator says that a try lost its machine; else nothing."""
    if attempt.worker_failure and attempt.state is AttemptState.FAILED:
        return "node_failure"
    return LOST.get(attempt.state, "")


def attempt_line(attempt: AttemptFacts) -> str:
    """Describe how a try ended, for people."""
    ended = [attempt.state.value]
    ended += [f"by {signal_name(attempt.signal)}"] if attempt.signal is not None else []
    ended += [f"exit code {attempt.exit_code}"] if attempt.exit_code is not None else []
    where = f" on {attempt.node}" if attempt.node else ""
    said = f": {_lines(attempt.message)[-1][:300]}" if _lines(attempt.message) else ""
    return f"attempt {attempt.attempt} of {attempt.task}: {', '.join(ended)}{where}{said}"


def attempt_claims(found: Classified, check: Check, job: JobFacts) -> Classified:
    """Return the cause given by the first failed try or by the orchestrator's sentence.

    Args:
        found: The cause from exit facts and log lines.
        check: The check that saw the end. A traceback of unknown cause in its lines is stronger
            than the report, except for the orchestrator's flag about memory. An error that a signal
            raised after the machine was lost does not count as such a traceback.
        job: The orchestrator's last report.
    """
    if is_unscheduled(job):
        return _unserved(found, check, job, None)
    first = first_failed(check)
    if not _lost_its_machine(first, job):
        return _classified(found, check, job, first)
    weaker = [one for one in check.claims if not outweighs(one, check.traceback)]
    if not weaker:
        return _classified(found, check, job, first)
    left = tuple(one for one in check.claims if one not in weaker)
    check = check.model_copy(update={"claims": left})
    named = _classified(classify(job, check), check, job, first)
    others = dict.fromkeys((*named.secondary, *(one.label for one in weaker)))
    cited = [f"weaker: {one.label} ({one.signature}): {one.line}" for one in weaker]
    return replace(
        named,
        secondary=tuple(label for label in others if label != named.cause),
        evidence=(*named.evidence, *cited[:_WEAKER_MAX]),
    )


def attempt_fingerprint(attempt: AttemptFacts) -> str:
    """Return the same 8 hex digits for tries that failed alike; see `fingerprint`."""
    code, signal = exit_facts(attempt.exit_code)
    job = JobFacts(
        submission_id=attempt.task,
        state=JobState.FAILED,
        exit_code=code,
        signal=attempt.signal if attempt.signal is not None else signal,
    )
    said = attempt.message.strip().splitlines()[-1:]
    words = (attempt.state.value, "oom" if attempt.oom else "", *said)
    return fingerprint(job, " ".join(words))


def machine_was_taken(job: JobFacts) -> bool:
    """Say whether the orchestrator's report on the job says that a machine was lost or taken.

    The states of its tasks do not count: a task may have lost its machine long before somebody
    stopped the job.
    """
    return is_infrastructure_end(job) or _lost_its_machine(None, job)


def _lost_its_machine(first: AttemptFacts | None, job: JobFacts) -> bool:
    """Say whether the orchestrator reports that the first failed try lost its machine.

    Its sentence on the job counts only if the try has no report.
    """
    if first is not None and lost_machine_cause(first):
        return True
    silent = first is None or (not first.message and not first.exit_code)
    said = job.message if first is None or silent else first.message
    claim = next(iter(claims_in(_lines(said))), None)
    sure = claim is not None and claim.confidence >= CLAIM_CONFIDENCE_MIN
    return sure and claim is not None and claim.label in LOST.values()


def _classified(
    found: Classified, check: Check, job: JobFacts, first: AttemptFacts | None
) -> Classified:
    if first is not None and first.oom and found.cause not in _SAYS_MORE:
        print_ = fingerprint(job, "out of memory, by the orchestrator's flag")
        lines = (attempt_line(first), f"the orchestrator's flag: out of memory{_memory(first)}")
        return _named(found, "host_oom", Outlook.ASK, print_, lines, first)
    cause = lost_machine_cause(first) if first is not None else ""
    stopped_for_it = _is_stopped_for_it(first, check, job)
    dark = found.cause in UNKNOWN and (stopped_for_it or not check.traceback)
    if first is not None and cause and (dark or found.cause in LOST_PEER_ERRORS):
        print_ = fingerprint(job, f"attempt {first.state.value}")
        return _named(found, cause, Outlook.RETRY, print_, (attempt_line(first),), first)
    # A stopped process reports lost peers, and an interrupt is not its own error.
    weak = found.cause in _NOISE_OF_A_STOP
    own_error = check.traceback and not check.traceback_of_stop
    asked_for = job.state is JobState.STOPPED or not _lost_its_machine(first, job)
    if weak and not own_error and asked_for:
        stopped = _stopped(found, check, job, first)
        if stopped is not None:
            return stopped
    if not dark:
        return _by_its_sentence(found, job, first)
    return _by_words(found, check, job, first)


def _is_stopped_for_it(first: AttemptFacts | None, check: Check, job: JobFacts) -> bool:
    """Say whether an error raised by a signal follows from the loss of the machine.

    This requires that nobody stopped the job, and that the try that lost its machine was the last
    of its task. An error of a later try is unrelated.
    """
    if not check.traceback_of_stop or not _lost_its_machine(first, job):
        return False
    by_a_person = any(one.signature == STOPPED_BY_A_PERSON for one in check.claims)
    if by_a_person or job.state is JobState.STOPPED:
        return False
    return first is None or not any(
        one.task == first.task and one.attempt > first.attempt for one in check.attempts
    )


def cause_by_demand(found: Classified, check: Check, job: JobFacts) -> Classified:
    """Return the cause of an unexplained end that never began and whose demand is unmet.

    Args:
        found: The cause from all other evidence.
        check: The check that saw the end.
        job: The orchestrator's last report.
    """
    if found.cause not in UNKNOWN or not never_served(job, check):
        return found
    return _unserved(found, check, job, None)


def _unserved(
    found: Classified, check: Check, job: JobFacts, first: AttemptFacts | None
) -> Classified:
    """Classify an end as lack of machines if the orchestrator says so (R8)."""
    print_ = fingerprint(job, "unschedulable, by the orchestrator's word")
    tried = (attempt_line(first),) if first is not None and first.message else ()
    lines = (*tried, *demand_lines(job, check))
    return _named(found, "capacity_wedge", Outlook.ASK, print_, lines, first)


def _stopped(
    found: Classified, check: Check, job: JobFacts, first: AttemptFacts | None
) -> Classified | None:
    """Classify an end with no recorded stop as stopped by a person, if evidence says so (R14)."""
    sentences = (*(_lines(first.message) if first is not None else ()), *_lines(job.message))
    said = user_stop(check, job, first, sentences)
    if said is None:
        return None
    cited = f"{said.label} ({said.signature}): {said.line}"
    print_ = fingerprint(job, said.line)
    return replace(
        _named(found, said.label, Outlook.NEVER, print_, (cited,), None),
        confidence=said.confidence,
        rules=(said.signature,),
    )


def _by_its_sentence(found: Classified, job: JobFacts, first: AttemptFacts | None) -> Classified:
    """Return the cause from the first failed try if the lines only show a lost peer."""
    if first is None or found.cause not in LOST_PEER_ERRORS:
        return found
    barred = _NOT_BY_WORDS | LOST_PEER_ERRORS
    if job.signal == _SIGKILL:
        barred |= RAISED
    claim = _claim(claims_in(_lines(first.message)), barred)
    return found if claim is None else _by_claim(found, job, claim, first)


def _by_claim(
    found: Classified, job: JobFacts, claim: CauseClaim, first: AttemptFacts | None
) -> Classified:
    cited = f"{claim.label} ({claim.signature}): {claim.line}"
    print_ = fingerprint(job, claim.line)
    named = _named(found, claim.label, claim.outlook, print_, (cited,), first)
    return replace(named, confidence=claim.confidence, rules=(claim.signature,))


def _by_words(
    found: Classified, check: Check, job: JobFacts, first: AttemptFacts | None
) -> Classified:
    said = (*(_lines(first.message) if first is not None else ()), *_lines(job.message))
    killed = job.signal == _SIGKILL
    claim = _claim(claims_in(said), _NOT_BY_WORDS | RAISED if killed else _NOT_BY_WORDS)
    if claim is not None:
        return _by_claim(found, job, claim, first)
    if not killed and unscheduled_line(said):
        return _unserved(found, check, job, first)
    if first is None or job.signal is not None or job.exit_code is not None:
        return found
    # A job may end because one task failed. Only the end of that task's attempt is evidence.
    lines = (*found.evidence, attempt_line(first))
    if first.signal is not None:
        return replace(found, outlook=Outlook.RETRY_ONCE, evidence=lines, task=first.task)
    if first.exit_code:
        return replace(found, outlook=Outlook.ASK, evidence=lines, task=first.task)
    return found


def _claim(claims: Iterable[CauseClaim], barred: frozenset[str]) -> CauseClaim | None:
    sure = (one for one in claims if one.confidence >= CLAIM_CONFIDENCE_MIN)
    return next((one for one in sure if one.label not in barred), None)


def _named(
    found: Classified,
    cause: str,
    outlook: Outlook,
    print_: str,
    lines: tuple[str, ...],
    first: AttemptFacts | None,
) -> Classified:
    others = () if found.cause in (*UNKNOWN, cause) else (found.cause,)
    return replace(
        found,
        cause=cause,
        outlook=outlook,
        fingerprint=print_,
        evidence=(*found.evidence, *lines),
        confidence=1.0,
        rules=(),
        secondary=(*others, *(one for one in found.secondary if one != cause)),
        task=first.task if first is not None else found.task,
    )


def _memory(attempt: AttemptFacts) -> str:
    asked, peak = attempt.memory_asked_bytes, attempt.memory_peak_bytes
    parts = [f"asked for {asked / 1e9:.1f} GB"] if asked is not None else []
    parts += [f"used {peak / 1e9:.1f} GB at most"] if peak is not None else []
    return f" ({', '.join(parts)})" if parts else ""


def _lines(text: ForeignText) -> list[ForeignText]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def _ended(attempt: AttemptFacts) -> datetime | None:
    return attempt.ended_at or attempt.started_at
