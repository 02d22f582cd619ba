"""What the tries of an end's tasks, and the orchestrator's sentence, say of its cause."""

from datetime import timedelta
from typing import Any

import pytest

from tests.domain.decision_scenes import KEEP, trained
from tests.domain.ends import attempt
from tests.domain.given import Answer, History
from tests.domain.looking import look
from tests.domain.samples import exited, job, killed
from watchkeeper.domain.events import Action, DecisionMade, FailureClassified, Outlook
from watchkeeper.domain.observed.sources import AttemptFacts, AttemptState, CapacityFacts
from watchkeeper.domain.recovery.unscheduled import is_unscheduled
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


UNSCHEDULABLE = {"error_type": "UNSCHEDULABLE"}
DEMAND = CapacityFacts(
    pending_reason="Autoscaler: Unsatisfied autoscaler demand: tier_blocked",
    unmet=("v5p-64",),
    provisioning=0,
)


@pytest.mark.parametrize(
    ("said", "tries", "named"),
    [
        (UNSCHEDULABLE, [], "capacity_wedge"),
        ({"error_type": "JOB_STATE_UNSCHEDULABLE"}, [], "capacity_wedge"),
        ({"error_type": "Unschedulable", "exit_code": 1}, [], "capacity_wedge"),
        ({"message": "Job could not be scheduled."}, [], "capacity_wedge"),
        ({"message": "Job could not be scheduled.", "exit_code": 1}, [], "capacity_wedge"),
        # It ran once, was preempted, and nothing came any more.
        (UNSCHEDULABLE, [PREEMPTED], "capacity_wedge"),
        (UNSCHEDULABLE, [OOM], "capacity_wedge"),
        ({}, [{"message": "Job could not be scheduled."}], "capacity_wedge"),
        ({}, [{"message": "The actor is infeasible"}], "capacity_wedge"),
        ({"message": "The actor is not schedulable: no such node"}, [], "capacity_wedge"),
        ({"message": "The task cannot be scheduled: it is infeasible"}, [], "capacity_wedge"),
        ({"error_type": "ERROR", "message": "TaskUnschedulableError"}, [], "capacity_wedge"),
        ({"message": "Autoscaler: Unsatisfied autoscaler demand: x"}, [], "capacity_wedge"),
        ({"message": "No workers match constraints: [zone]"}, [], "capacity_wedge"),
        ({"message": "Scheduling timeout exceeded"}, [], "capacity_wedge"),
        ({"message": "0/9 nodes are available: Insufficient google.com/tpu"}, [], "capacity_wedge"),
        ({"message": "couldn't assign flavors to pod set main"}, [], "capacity_wedge"),
        # Ray's supervisor is placed on the head: where it cannot be, the head is gone.
        ({"error_type": "JOB_SUPERVISOR_ACTOR_UNSCHEDULABLE"}, [], "node_failure"),
        ({"message": "The evaluation could not be scheduled after step 40"}, [], "unknown"),
        ({"message": "The actor is no longer infeasible"}, [], "unknown"),
        ({"signal": 9, "message": "The actor is infeasible"}, [], "unknown"),
        # What it had trained it had machines for: the demand is what their loss left.
        ({}, [], "unknown"),
    ],
)
def test_an_end_that_the_orchestrator_calls_unschedulable_is_a_wedge(
    said: dict[str, Any], tries: list[dict[str, Any]], named: str
) -> None:
    told = tuple(attempt(number, f"w-{number}", **one) for number, one in enumerate(tries))
    facts = {**KEEP, "attempts": told, "capacity": DEMAND, "further": ("attempts", "cluster")}
    answer = look(trained()(), job(JobState.FAILED, **said), **facts)
    failure = answer.the(FailureClassified)
    assert failure.cause == named
    rule = answer.the(DecisionMade)
    if named == "capacity_wedge":
        assert (failure.outlook, rule.action, rule.rule) == (Outlook.ASK, Action.NOTIFY, "R8")


def test_the_sentence_and_the_demand_of_an_unschedulable_end_are_cited() -> None:
    said = job(JobState.FAILED, message="Job could not be scheduled.", **UNSCHEDULABLE)
    facts = {**KEEP, "capacity": DEMAND, "further": ("cluster",)}
    failure = look(trained()(), said, **facts).the(FailureClassified)
    assert failure.evidence[:5] == (
        "the orchestrator says FAILED (UNSCHEDULABLE)",
        "the orchestrator says: Job could not be scheduled.",
        f"the orchestrator says: {DEMAND.pending_reason}",
        "nothing serves v5p-64",
        "nothing is being brought up",
    )


def test_no_other_state_is_taken_for_an_unschedulable_end() -> None:
    said = job(JobState.STOPPED, message="Job could not be scheduled.")
    assert not is_unscheduled(said)


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
