"""What the orchestrator's own word on the tries of a job's tasks says of its end.

The first task that failed is the cause; what was killed after it is collateral. Its word counts
where the lines of the log prove nothing, and where they only show that a peer was lost.
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
    signal_name,
)
from watchkeeper.domain.reading.triage.outweighing import OF_A_LOST_PEER, outweighs
from watchkeeper.domain.reading.user_stop import STOPPED_BY_A_PERSON, stop_told
from watchkeeper.domain.rules.ends.unscheduled import (
    demand_lines,
    is_unscheduled,
    never_served,
    unscheduled_line,
)
from watchkeeper.domain.run.watch import CheckRecorded
from watchkeeper.domain.values.basic import JobFacts, JobState
from watchkeeper.domain.values.causes import NUMERICAL, UNKNOWN, CauseClaim, Outlook
from watchkeeper.domain.values.observation.sources import AttemptFacts, AttemptState

LOST = {AttemptState.PREEMPTED: "preemption", AttemptState.WORKER_FAILED: "node_failure"}
"""The states by which an orchestrator says that a machine went, and not the program."""

_FAILED = frozenset({AttemptState.FAILED, AttemptState.KILLED, *LOST})

_SAYS_MORE = frozenset({"hbm_oom", "host_oom", "disk_full", NUMERICAL})
"""Causes that a flag about a machine's memory does not take back."""

_NOT_BY_WORDS = UNKNOWN | {"host_oom", "user_stopped"}
"""What a sentence of the orchestrator alone does not prove: an end by SIGKILL is "possibly OOM"."""


_NOISE_OF_A_STOP = UNKNOWN | OF_A_LOST_PEER - {"node_failure"}
"""Causes that a stop by a person leaves in a log; a machine that is named as lost is none."""

_SIGKILL = 9

_WEAKER_MAX = 2
"""Claims that were weaker than the orchestrator's word, cited with it."""


def first_failed(check: CheckRecorded) -> AttemptFacts | None:
    """Return the try whose failure ended the instance; none where none is told.

    A try that failed long before the end, and was retried, did not.
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


def lost_by(attempt: AttemptFacts) -> str:
    """Return the cause where the orchestrator says that a try lost its machine; else nothing."""
    if attempt.worker_failure and attempt.state is AttemptState.FAILED:
        return "node_failure"
    return LOST.get(attempt.state, "")


def attempt_line(attempt: AttemptFacts) -> str:
    """Say how a try ended, for people."""
    ended = [attempt.state.value]
    ended += [f"by {signal_name(attempt.signal)}"] if attempt.signal is not None else []
    ended += [f"exit code {attempt.exit_code}"] if attempt.exit_code is not None else []
    where = f" on {attempt.node}" if attempt.node else ""
    said = f": {_lines(attempt.message)[-1][:300]}" if _lines(attempt.message) else ""
    return f"attempt {attempt.attempt} of {attempt.task}: {', '.join(ended)}{where}{said}"


def attempt_claims(found: Classified, check: CheckRecorded, job: JobFacts) -> Classified:
    """Name the cause that the first failed try, or the orchestrator's sentence, tells.

    Args:
        found: What exit facts and the lines of the log say.
        check: The check that saw the end. A traceback in its lines whose cause nobody knows is
            stronger than any of this, but for the orchestrator's flag about memory; what a signal
            raised in a program that lost its machine is none.
        job: The orchestrator's last word.
    """
    if is_unscheduled(job):
        return _unserved(found, check, job, None)
    first = first_failed(check)
    if not _lost_its_machine(first, job):
        return _told(found, check, job, first)
    weaker = [one for one in check.claims if not outweighs(one, check.traceback)]
    if not weaker:
        return _told(found, check, job, first)
    left = tuple(one for one in check.claims if one not in weaker)
    check = check.model_copy(update={"claims": left})
    told = _told(classify(job, check), check, job, first)
    others = dict.fromkeys((*told.secondary, *(one.label for one in weaker)))
    cited = [f"weaker: {one.label} ({one.signature}): {one.line}" for one in weaker]
    return replace(
        told,
        secondary=tuple(label for label in others if label != told.cause),
        evidence=(*told.evidence, *cited[:_WEAKER_MAX]),
    )


def machine_was_taken(check: CheckRecorded, job: JobFacts) -> bool:
    """Return whether the orchestrator says that a machine was lost or taken, not the program."""
    return is_infrastructure_end(job) or _lost_its_machine(first_failed(check), job)


def _lost_its_machine(first: AttemptFacts | None, job: JobFacts) -> bool:
    """Say whether the orchestrator's word on the first failed try is that its machine was taken.

    Its sentence on the job stands for that only where the try says nothing.
    """
    if first is not None and lost_by(first):
        return True
    silent = first is None or (not first.message and not first.exit_code)
    said = job.message if first is None or silent else first.message
    claim = next(iter(claims_in(_lines(said))), None)
    sure = claim is not None and claim.confidence >= CLAIM_CONFIDENCE_MIN
    return sure and claim is not None and claim.label in LOST.values()


def _told(
    found: Classified, check: CheckRecorded, job: JobFacts, first: AttemptFacts | None
) -> Classified:
    if first is not None and first.oom and found.cause not in _SAYS_MORE:
        print_ = fingerprint(job, "out of memory, by the orchestrator's flag")
        lines = (attempt_line(first), f"the orchestrator's flag: out of memory{_memory(first)}")
        return _named(found, "host_oom", Outlook.ASK, print_, lines, first)
    cause = lost_by(first) if first is not None else ""
    stopped_for_it = _is_stopped_for_it(first, check, job)
    dark = found.cause in UNKNOWN and (stopped_for_it or not check.traceback)
    if first is not None and cause and (dark or found.cause in OF_A_LOST_PEER):
        print_ = fingerprint(job, f"attempt {first.state.value}")
        return _named(found, cause, Outlook.RETRY, print_, (attempt_line(first),), first)
    # Whoever is stopped complains of peers that went; what an interrupt raised is no own error.
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


def _is_stopped_for_it(first: AttemptFacts | None, check: CheckRecorded, job: JobFacts) -> bool:
    """Say whether what a signal raised came of the machine that was taken.

    Nobody stopped the job, and the try that lost its machine was the last one of its task: what a
    later try raised is another matter.
    """
    if not check.traceback_of_stop or not _lost_its_machine(first, job):
        return False
    by_a_person = any(one.signature == STOPPED_BY_A_PERSON for one in check.claims)
    if by_a_person or job.state is JobState.STOPPED:
        return False
    return first is None or not any(
        one.task == first.task and one.attempt > first.attempt for one in check.attempts
    )


def told_by_demand(found: Classified, check: CheckRecorded, job: JobFacts) -> Classified:
    """Name what an end without a word was for, where it never began and its demand is unmet.

    Args:
        found: What all else says.
        check: The check that saw the end.
        job: The orchestrator's last word.
    """
    if found.cause not in UNKNOWN or not never_served(job, check):
        return found
    return _unserved(found, check, job, None)


def _unserved(
    found: Classified, check: CheckRecorded, job: JobFacts, first: AttemptFacts | None
) -> Classified:
    """Take an end for want of machines, by the orchestrator's own word (R8)."""
    print_ = fingerprint(job, "unschedulable, by the orchestrator's word")
    tried = (attempt_line(first),) if first is not None and first.message else ()
    lines = (*tried, *demand_lines(job, check))
    return _named(found, "capacity_wedge", Outlook.ASK, print_, lines, first)


def _stopped(
    found: Classified, check: CheckRecorded, job: JobFacts, first: AttemptFacts | None
) -> Classified | None:
    """Take an end that nobody on record asked for as a person's, where something says so (R14)."""
    sentences = (*(_lines(first.message) if first is not None else ()), *_lines(job.message))
    said = stop_told(check, job, first, sentences)
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
    """Name what the first failed try says, where the lines only show that a peer was lost."""
    if first is None or found.cause not in OF_A_LOST_PEER:
        return found
    barred = _NOT_BY_WORDS | OF_A_LOST_PEER
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
    found: Classified, check: CheckRecorded, job: JobFacts, first: AttemptFacts | None
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
    # The end of a job that is ended once a task failed says nothing; that of the task's try does.
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


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def _ended(attempt: AttemptFacts) -> datetime | None:
    return attempt.ended_at or attempt.started_at
