"""What the tries of an end's tasks, and the orchestrator's sentence, say of its cause."""

from datetime import timedelta
from typing import Any

import pytest

from tests.domain.decision_scenes import KEEP, trained
from tests.domain.ends import attempt
from tests.domain.given import Answer, History, decided
from tests.domain.looking import look
from tests.domain.samples import exited, job, killed
from tests.every_row import every_row
from watchkeeper.domain.reading.triage.unscheduled import is_unscheduled
from watchkeeper.domain.run.ends import Action, DecisionMade, FailureClassified
from watchkeeper.domain.values.basic import JobFacts, JobState
from watchkeeper.domain.values.causes import Outlook
from watchkeeper.domain.values.observation.sources import AttemptFacts, AttemptState, CapacityFacts

NEVER, RETRY_ONCE = Outlook.NEVER, Outlook.RETRY_ONCE
STOPPED_BY_X = job(JobState.STOPPED, message="Terminated by user x")
RESET = "ConnectionResetError: [Errno 104] Connection reset by peer"
PIPE = "BrokenPipeError: [Errno 32] Broken pipe"
FAILED = job(JobState.FAILED)
SCANCEL = "slurmstepd: error: *** JOB 1 ON n1 CANCELLED AT 2026-08-07T10:00:00 by user 1003 ***"
TIME_LIMIT = "slurmstepd: error: *** JOB 1 ON n1 CANCELLED AT 2026-08-07T10:00:00 DUE TO TIME LIMIT"
SILENT_EXIT = exited(1)
NAME_ERROR = ("Traceback (most recent call last):", "NameError: name 'x' is not defined")
HANG = ("Watchdog caught collective operation timeout: WorkNCCL(SeqNum=8, OpType=ALLREDUCE)",)
STOP = (
    "[rank0]: Traceback (most recent call last):",
    '[rank0]:   File "/app/train.py", line 12, in main',
    "[rank0]: torch.distributed.elastic.api.SignalException: Process 7 got signal: 15",
)
INTERRUPT = (
    "Traceback (most recent call last):",
    '  File "/app/train.py", line 40, in step',
    "KeyboardInterrupt",
)
BOTH_RANKS = tuple(
    line for pair in zip(*([f"[rank{n}]: {one}" for one in INTERRUPT] for n in (0, 1)), strict=True)
    for line in pair
)  # fmt: skip
LIGHTNING = (*INTERRUPT[:2], "lightning.pytorch.utilities.exceptions.SIGTERMException")
OTHER = ("Traceback (most recent call last):", '  File "/app/x.py", line 4, in f', "OddError: 7")
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


@every_row(
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
        (job(JobState.STOPPED), [], ("KeyboardInterrupt",), "user_stopped", Outlook.NEVER),
        (job(JobState.STOPPED), [{"message": "Terminated by user"}], (), "user_stopped", NEVER),
        (job(JobState.STOPPED), [], ("received SIGINT, shutting down",), "user_stopped", NEVER),
        (job(JobState.STOPPED), [], INTERRUPT, "user_stopped", NEVER),
        (job(JobState.STOPPED), [], STOP, "unknown", Outlook.ASK),
        (job(JobState.STOPPED), [], ("received SIGTERM",), "unknown", Outlook.RETRY_ONCE),
        # A signal that a stop sends, and words that say whose it was.
        (killed(15), [], (SCANCEL,), "user_stopped", NEVER),
        (killed(15), [], (TIME_LIMIT,), "unknown", Outlook.RETRY_ONCE),
        (killed(15), [], ("KeyboardInterrupt",), "unknown", Outlook.RETRY_ONCE),
        (killed(9), [], (SCANCEL,), "user_stopped", NEVER),
        (killed(15), [], ("worker was killed by request of autoscaler",), "unknown", RETRY_ONCE),
        (killed(15), [], (SCANCEL, PIPE), "user_stopped", NEVER),
        (killed(2), [], ("received SIGINT, shutting down", RESET), "user_stopped", NEVER),
        (exited(130), [], (*INTERRUPT, RESET), "user_stopped", NEVER),
        (
            job(JobState.STOPPED, message="Terminated by user x"),
            [],
            (RESET,),
            "user_stopped",
            NEVER,
        ),
        (
            job(JobState.STOPPED, message="Terminated by user x\nNode n1 was preempted"),
            [],
            (),
            "user_stopped",
            NEVER,
        ),
        (job(JobState.STOPPED), [], ("save on SIGINT: true",), "unknown", RETRY_ONCE),
        (FAILED, [{"signal": 2}], (), "user_stopped", NEVER),
        (FAILED, [{"exit_code": 130}], (), "user_stopped", NEVER),
        (FAILED, [{"signal": 15, "message": "Terminated by user x"}], (), "user_stopped", NEVER),
        # The orchestrator's own words on a machine stand before a signal.
        (killed(2, message="Spot instance was preempted"), [], (), "preemption", Outlook.RETRY),
        (exited(130), [{"message": "Node gke-1 is not ready"}], (), "node_failure", Outlook.RETRY),
        (exited(130, message="RuntimeError: CUDA out of memory"), [], (), "hbm_oom", Outlook.ASK),
        (exited(130), [], ("Node gke-1 is not ready",), "node_failure", Outlook.RETRY),
        (FAILED, [], (SCANCEL,), "unknown", Outlook.ASK),
        # The signal of Ctrl-C needs no words.
        (killed(2), [], (), "user_stopped", NEVER),
        (exited(130), [], (), "user_stopped", NEVER),
        (exited(130), [], INTERRUPT, "user_stopped", NEVER),
        (killed(2), [PREEMPTED], (), "preemption", Outlook.RETRY),
        (exited(130), [], NAME_ERROR, "code_bug", Outlook.ASK),
        (exited(130), [], OTHER, "unknown", Outlook.ASK),
        # Not what a program raises, nor what others print once a peer is gone.
        (FAILED, [], INTERRUPT, "user_stopped", NEVER),
        (FAILED, [], STOP, "unknown", Outlook.ASK),
        (FAILED, [], (*OTHER, *INTERRUPT), "unknown", Outlook.ASK),
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


BY_A_SENTENCE = {"message": "The node was preempted by a job of a higher priority"}
TRACED = "Traceback (most recent call last):"
NO_SPACE = "OSError: [Errno 28] No space left on device"
METRIC = "max_grad_norm: inf"


@every_row("word", [PREEMPTED, LOST, {"worker_failure": True}, BY_A_SENTENCE])
@every_row("lines", [STOP, INTERRUPT, (*INTERRUPT, *STOP), BOTH_RANKS, LIGHTNING])
def test_what_a_signal_raised_where_a_machine_was_taken_is_not_why_it_ended(
    word: dict[str, Any], lines: tuple[str, ...]
) -> None:
    failure = ended(FAILED, attempt(0, "w-0", **word), lines=lines).the(FailureClassified)
    assert failure.cause == ("preemption" if word in (PREEMPTED, BY_A_SENTENCE) else "node_failure")
    assert failure.outlook is Outlook.RETRY


@every_row(
    "lines",
    [
        OTHER,
        # One of them is an error of its own, or nobody can tell what it ended in.
        (*OTHER, *STOP),
        (*INTERRUPT, *OTHER),
        (*STOP, TRACED, '  File "/app/train.py", line 4, in f'),
        (TRACED, *INTERRUPT),
        (TRACED, '  File "/app/train.py", line 4, in f', "SystemExit: 1"),
        # Its lines stand behind what no launcher writes.
        *(
            (*(f"{before}{line}" for line in OTHER), *STOP)
            for before in (
                "2026-08-07 10:00:00,123 ERROR ",
                "I20260425 09:16:05.123456 1 trainer.py:1] ",
                "worker-1  | ",
            )
        ),
        ('{"message": "Traceback (most recent call last):\\n  File \\"x.py\\", line 1"}', *STOP),
        # What it ends in has no usual name, and a stop follows.
        (*OTHER[:2], "StopIteration", STOP[2].removeprefix("[rank0]: ")),
        (*OTHER[:2], "mylib.DataExhausted: no shard left", "saving nothing", "KeyboardInterrupt"),
        # The tail begins within it.
        ("    x = f(y)", "OddError: shard 7", *STOP),
        # What a program raises by itself.
        *(
            (*OTHER[:2], error)
            for error in (
                "SystemExit: -1",
                "InterruptedError: [Errno 4] Interrupted system call",
                "trainer.RunTerminatedError: eval beyond its bound, training terminated",
                "concurrent.futures._base.CancelledError",
                "KeyboardInterruptedSave: half a file",
            )
        ),
    ],
)
def test_an_error_beside_what_a_signal_raised_is_asked_about(lines: tuple[str, ...]) -> None:
    failure = ended(FAILED, attempt(0, "w-0", **PREEMPTED), lines=lines).the(FailureClassified)
    assert (failure.cause, failure.outlook) == ("unknown", Outlook.ASK)


@pytest.mark.parametrize(
    ("said", "tries", "lines"),
    [
        (
            job(JobState.STOPPED, message="Terminated by user"),
            [attempt(0, "w-0", **PREEMPTED), attempt(1, "w-1", state=AttemptState.KILLED)],
            INTERRUPT,
        ),
        (FAILED, [attempt(0, "w-0", **PREEMPTED)], (*INTERRUPT, "Terminated by user")),
        (
            FAILED,
            [
                attempt(0, "w-0", **PREEMPTED),
                attempt(0, "w-0", exit_code=1).model_copy(update={"attempt": 1}),
            ],
            STOP,
        ),
    ],
    ids=["stopped", "said so", "tried again"],
)
def test_a_machine_that_was_taken_earlier_does_not_explain_a_later_stop(
    said: JobFacts, tries: list[AttemptFacts], lines: tuple[str, ...]
) -> None:
    answer = ended(said, *tries, lines=lines)
    assert answer.the(FailureClassified).outlook in (Outlook.ASK, Outlook.NEVER)
    assert answer.the(DecisionMade).action is Action.ESCALATE


@pytest.mark.parametrize("tries", [[], [{"exit_code": 1}]])
@pytest.mark.parametrize(
    ("lines", "rule", "because"),
    [
        (
            INTERRUPT,
            "R14",
            "its lines or its signal say that somebody stopped it",
        ),
        (STOP, "R6", "got signal: 15: a signal ended it, and nobody on record sent one"),
    ],
)
def test_of_what_a_signal_raised_with_no_other_word_a_person_is_asked(
    tries: list[dict[str, Any]], lines: tuple[str, ...], rule: str, because: str
) -> None:
    told = [attempt(0, "w-0", **one) for one in tries]
    decision = ended(FAILED, *told, lines=lines).the(DecisionMade)
    assert (decision.action, decision.rule) == (Action.ESCALATE, rule)
    assert because in decision.because


@every_row("word", [PREEMPTED, LOST, {"worker_failure": True}, BY_A_SENTENCE])
@every_row(
    "line",
    [
        "step 2600: loss=2.4 best_val_loss=inf",
        METRIC,
        "loss_scale: inf",
        "Evaluation: val_loss: nan",
        "WARNING: loss spike detected: 2.9",
        "W1121 00:40:00.1 77 train.py:8] loss spike detected: 2.9",
        "Failed to write checkpoint step-2400: RPC cancelled",
        "ValueError: I/O operation on closed file.",
        "RuntimeError: DataLoader worker (pid 42) exited unexpectedly",
        "torch.OutOfMemoryError caught, retrying with smaller microbatch",
        "WARNING: No space left on device, the cache is ignored",
        "[warning] disk is nearly full: No space left on device",
        "Segmentation fault (core dumped)",
    ],
)
def test_a_machine_that_was_taken_is_the_cause_beside_weaker_lines(
    word: dict[str, Any], line: str
) -> None:
    failure = ended(FAILED, attempt(0, "w-0", **word), lines=(line,)).the(FailureClassified)
    assert failure.cause == ("preemption" if word in (PREEMPTED, BY_A_SENTENCE) else "node_failure")
    assert failure.outlook is Outlook.RETRY


@every_row("word", [PREEMPTED, LOST, BY_A_SENTENCE])
@every_row(
    ("lines", "named"),
    [
        (NAME_ERROR, "code_bug"),
        ((TRACED, "ValueError: token id 50304 out of range for vocab of 50257"), "data_error"),
        ((NO_MEMORY,), "hbm_oom"),
        ((TRACED, NO_MEMORY), "hbm_oom"),
        (("RESOURCE_EXHAUSTED: Out of memory while trying to allocate 12345 bytes.",), "hbm_oom"),
        (("Loss is nan, stopping training",), "numerical_instability"),
        (("AssertionError: found NaN in local forward loss calculation",), "numerical_instability"),
        (("ERROR:tensorflow:Model diverged with loss = NaN.",), "numerical_instability"),
        ((NO_SPACE,), "disk_full"),
        (("OSError: no debug info: No space left on device",), "disk_full"),
        # A weaker line beside it takes nothing back, wherever it stands.
        ((METRIC, "WARNING: loss spike detected: 2.9", NO_SPACE), "disk_full"),
        (("Evaluation: val_loss: nan", *NAME_ERROR), "code_bug"),
        # Nobody knows what was raised.
        ((TRACED, "acme.Odd: 7", "WARNING: loss spike detected: 2.9"), "unknown"),
    ],
)
def test_what_ended_the_program_before_is_stronger_than_a_machine_that_was_taken(
    word: dict[str, Any], lines: tuple[str, ...], named: str
) -> None:
    failure = ended(FAILED, attempt(0, "w-0", **word), lines=lines).the(FailureClassified)
    assert failure.cause == named
    assert failure.outlook is not Outlook.RETRY


@pytest.mark.parametrize(
    ("tries", "named"),
    [
        ([], "preemption"),
        ([KILLED | {"message": ""}], "preemption"),
        # The try that failed first has its own word.
        ([{"message": "Exit code 1"}], "numerical_instability"),
        ([{"exit_code": 1}], "numerical_instability"),
    ],
)
def test_the_sentence_on_the_job_counts_where_the_first_failed_try_says_nothing(
    tries: list[dict[str, Any]], named: str
) -> None:
    told = [attempt(number, f"w-{number}", **one) for number, one in enumerate(tries)]
    said = job(JobState.FAILED, **BY_A_SENTENCE)
    assert cause(ended(said, *told, lines=("Evaluation: val_loss: nan",))) == named


def test_weaker_lines_are_cited_and_stay_other_readings() -> None:
    answer = ended(FAILED, attempt(0, "w-0", **PREEMPTED), lines=("Evaluation: val_loss: nan",))
    failure = answer.the(FailureClassified)
    assert failure.secondary == ("numerical_instability",)
    cited = "weaker: numerical_instability (nan.metric): Evaluation: val_loss: nan"
    assert failure.evidence[-1] == cited
    decision = answer.the(DecisionMade)
    assert (decision.action, decision.rule) == (Action.RELAUNCH, "R1")


def test_a_loss_that_is_no_number_holds_the_relaunch_of_what_was_preempted() -> None:
    lines = ("step 1090: loss=nan", "step 1100: loss=nan")
    decision = ended(FAILED, attempt(0, "w-0", **PREEMPTED), lines=lines).the(DecisionMade)
    assert decision.rule == "R4"
    assert decision.action is not Action.RELAUNCH


def test_weaker_lines_count_where_no_machine_was_taken() -> None:
    failure = ended(FAILED, attempt(0, "w-0"), lines=("Evaluation: val_loss: nan",))
    assert cause(failure) == "numerical_instability"


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


@every_row(
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


@pytest.mark.parametrize("state", [AttemptState.PREEMPTED, AttemptState.WORKER_FAILED])
@pytest.mark.parametrize("said", ["", "cancelled", "Job cancelled via API"])
def test_a_task_that_lost_its_machine_makes_no_stop_of_its_job_a_failure(
    state: AttemptState, said: str
) -> None:
    # Ray gives no times for the restarts of its actors.
    lost = attempt(0, "n1", state=state, worker_failure=True)
    answer = ended(job(JobState.STOPPED, message=said), lost)
    assert decided(answer) == (Action.ESCALATE, "R14")
