"""What the tries of an end's tasks, and the orchestrator's sentence, say of its cause."""

from datetime import timedelta
from typing import Any

import pytest

from tests.domain.decision_scenes import KEEP, trained
from tests.domain.ends import attempt
from tests.domain.given import Answer, History
from tests.domain.looking import look
from tests.domain.samples import exited, job, killed
from watchkeeper.domain.events import DecisionMade, FailureClassified, Outlook
from watchkeeper.domain.observed.sources import AttemptFacts, AttemptState
from watchkeeper.domain.values import JobFacts, JobState

FAILED = job(JobState.FAILED)
SILENT_EXIT = exited(1)
NAME_ERROR = ("Traceback (most recent call last):", "NameError: name 'x' is not defined")
HANG = ("Watchdog caught collective operation timeout: WorkNCCL(SeqNum=8, OpType=ALLREDUCE)",)
NO_MODULE = "NameError: name 'log_summry' is not defined"
NO_MEMORY = "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"
PREEMPTED = {"state": AttemptState.PREEMPTED}
LOST = {"state": AttemptState.WORKER_FAILED}
KILLED = {"state": AttemptState.KILLED, "message": "Job exceeded max_task_failures"}
OOM: dict[str, Any] = {"oom": True, "exit_code": 137, "memory_asked_bytes": 4 * 10**11}


def ended(said: JobFacts, *tries: AttemptFacts, lines: tuple[str, ...] = ()) -> Answer:
    history: History = trained()()
    facts: dict[str, Any] = {**KEEP, "lines": list(lines)} if lines else KEEP
    return look(history, said, attempts=tries, further=("attempts",), **facts)


def cause(answer: Answer) -> str:
    return answer.the(FailureClassified).cause


@pytest.mark.parametrize(
    ("said", "tries", "lines", "named", "outlook"),
    [
        (FAILED, [PREEMPTED], (), "preemption", Outlook.RETRY),
        (SILENT_EXIT, [LOST], (), "node_failure", Outlook.RETRY),
        (FAILED, [{"worker_failure": True}], (), "node_failure", Outlook.RETRY),
        # What was killed after it is collateral, wherever it is listed.
        (FAILED, [KILLED, PREEMPTED], (), "preemption", Outlook.RETRY),
        # The others print that a peer is gone.
        (SILENT_EXIT, [PREEMPTED], HANG, "preemption", Outlook.RETRY),
        (SILENT_EXIT, [{"message": NO_MEMORY}, {"message": HANG[0]}], HANG, "hbm_oom", Outlook.ASK),
        (SILENT_EXIT, [{"message": HANG[0]}], HANG, "collective_hang", Outlook.RETRY_ONCE),
        # A traceback of its own is stronger.
        (SILENT_EXIT, [PREEMPTED], NAME_ERROR, "code_bug", Outlook.ASK),
        (exited(137), [OOM], (), "host_oom", Outlook.ASK),
        (killed(), [OOM, KILLED], (), "host_oom", Outlook.ASK),
        # A sentence that names no memory, and one that only guesses at it.
        (FAILED, [{"message": "Unknown exit code"}], (), "unknown", Outlook.ASK),
        (
            killed(message="Exit code 137: killed by SIGKILL (possibly OOM or resource limit)"),
            [],
            (),
            "unknown",
            Outlook.RETRY_ONCE,
        ),
        (
            exited(137, message="Exit code 137: OOM killed (container exceeded memory limit)"),
            [],
            (),
            "host_oom",
            Outlook.ASK,
        ),
        (job(JobState.FAILED, message="Worker failed"), [], (), "node_failure", Outlook.RETRY),
        (
            FAILED,
            [{"message": "The node was preempted by a job of a higher priority"}],
            (),
            "preemption",
            Outlook.RETRY,
        ),
        # What a program raises is no reason for somebody else's SIGKILL.
        (FAILED, [{"message": NO_MODULE}], (), "code_bug", Outlook.ASK),
        (killed(), [{"message": NO_MODULE}], (), "unknown", Outlook.RETRY_ONCE),
        # Only the try knows how it ended.
        (FAILED, [{"signal": 9}], (), "unknown", Outlook.RETRY_ONCE),
        # An orchestrator that ends the job once a task failed calls it stopped.
        (job(JobState.STOPPED), [{"exit_code": 1}, KILLED], (), "unknown", Outlook.ASK),
        # Nobody on record stopped it, and the words mislead at times: the DRI is asked.
        (
            job(JobState.STOPPED, message="Terminated by user"),
            [],
            (),
            "user_stopped",
            Outlook.NEVER,
        ),
        (job(JobState.STOPPED), [], ("Terminated by user",), "user_stopped", Outlook.NEVER),
        (job(JobState.FAILED), [], ("Terminated by user",), "unknown", Outlook.ASK),
        (job(JobState.STOPPED), [], ("KeyboardInterrupt",), "unknown", Outlook.RETRY_ONCE),
    ],
)
def test_the_first_failed_try_and_the_orchestrator_s_sentence_name_a_cause(
    said: JobFacts,
    tries: list[dict[str, Any]],
    lines: tuple[str, ...],
    named: str,
    outlook: Outlook,
) -> None:
    told = [attempt(number, f"w-{number}", **one) for number, one in enumerate(tries)]
    answer = ended(said, *told, lines=lines)
    failure = answer.the(FailureClassified)
    assert (failure.cause, failure.outlook) == (named, outlook)
    assert answer.all(DecisionMade)


@pytest.mark.parametrize(("ago", "named"), [(1, "preemption"), (120, "unknown")])
def test_a_try_that_failed_long_before_the_end_and_was_retried_is_not_its_cause(
    ago: int, named: str
) -> None:
    history = trained()()
    over = history.now + timedelta(minutes=5)
    tried = attempt(1, "w-1", ended_at=over - timedelta(minutes=ago), **PREEMPTED)
    said = job(JobState.FAILED, exit_code=1, ended_at=over)
    answer = look(history, said, attempts=(tried,), further=("attempts",), **KEEP)
    assert cause(answer) == named


def test_the_line_of_the_try_is_cited_with_its_machine_and_memory() -> None:
    peak: dict[str, Any] = {"memory_peak_bytes": 399 * 10**9}
    failure = ended(exited(137), attempt(3, "w-3", **OOM, **peak)).the(FailureClassified)
    assert any("w-3" in line for line in failure.evidence)
    assert any("asked for 400.0 GB, used 399.0 GB" in line for line in failure.evidence)
    assert failure.task == "/run/3"


def test_two_preemptions_have_one_fingerprint_and_a_silent_exit_has_another() -> None:
    lost = [ended(FAILED, attempt(n, f"w-{n}", **PREEMPTED)).the(FailureClassified) for n in (1, 2)]
    silent = ended(FAILED).the(FailureClassified)
    assert lost[0].fingerprint == lost[1].fingerprint != silent.fingerprint
