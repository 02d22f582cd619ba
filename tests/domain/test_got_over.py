"""What training got over before it broke by an error of its own is not why it ended."""

import pytest

from tests.domain.decision_scenes import KEEP, trained
from tests.domain.looking import look
from tests.domain.samples import exited
from tests.every_row import every_row
from watchkeeper.domain.reading.signatures.model import Label
from watchkeeper.domain.reading.triage.log_verdict import triage_text
from watchkeeper.domain.reading.triage.transient_errors import STEPS_MIN, LogEnding, ending_of
from watchkeeper.domain.run.ends import Action, DecisionMade

STORAGE = "google.api_core.exceptions.ServiceUnavailable: 503 GET https://storage.googleapis.com/x"
RESET = "ConnectionResetError: [Errno 104] Connection reset by peer"
NODE = "Warning  NodeNotReady  3s  node-controller  Node gke-1 is not ready"
WATCHDOG = "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=8, OpType=ALLREDUCE)"
PREEMPTION = "The node was preempted by a job of a higher priority"
XID_79 = "NVRM: Xid (PCI:0000:81:00): 79, GPU has fallen off the bus."
ELASTIC = "torch.distributed.elastic.multiprocessing.errors"
HEADER = "Traceback (most recent call last):"
TRACED = (HEADER, '  File "/srv/train/loop.py", line 88, in step', "    x = y['nll']")
KEY = (*TRACED, "KeyError: 'nll'")


def steps(count: int, first: int = 3000) -> list[str]:
    return [f"step={first + 10 * at} loss=2.1" for at in range(count)]


@every_row(
    ("early", "end", "label"),
    [
        *(
            (early, end, label)
            for early in (STORAGE, RESET, NODE, WATCHDOG)
            for end, label in (
                (KEY, Label.CODE_BUG),
                ((*TRACED, "torch.OutOfMemoryError: CUDA out of memory."), Label.HBM_OOM),
                # A launcher's own traceback follows, and empty lines.
                ((*KEY, *TRACED, f"{ELASTIC}.ChildFailedError:"), Label.CODE_BUG),
                ((*KEY, *TRACED, "subprocess.CalledProcessError: Command 'x'"), Label.CODE_BUG),
                ((*KEY, "", "", "", "", ""), Label.CODE_BUG),
            )
        ),
        (STORAGE, (*TRACED, "OddError: 7"), Label.UNKNOWN),
        (RESET, (*TRACED, "OddError: 7"), Label.UNKNOWN),
    ],
)
def test_what_steps_followed_is_not_the_cause(
    early: str, end: tuple[str, ...], label: Label
) -> None:
    found = triage_text("\n".join([early, *steps(90), *end]))
    assert found.label is label
    assert triage_text("\n".join([early, *steps(STEPS_MIN), *end])).label is label
    # It stays a reading, and where nothing came after it, it is the cause.
    assert found.secondary
    few = triage_text("\n".join([early, *steps(STEPS_MIN - 1), *end]))
    assert few.label is triage_text("\n".join([early, *end])).label


@pytest.mark.parametrize(
    "lines",
    [
        # The end is of its own kind: what a lost peer leaves, or a launcher's word for a child.
        [NODE, *steps(9), *TRACED, "RuntimeError: NCCL error: unhandled system error"],
        [NODE, *steps(9), *TRACED, "subprocess.CalledProcessError: Command 'x' returned 1"],
        [NODE, *steps(9), *TRACED, "ray.exceptions.ActorDiedError: gone"],
        [NODE, *steps(9), *TRACED, f"{ELASTIC}.SignalException: Process 12 got signal: 15"],
        [NODE, *steps(9), *TRACED, "OddError: 7"],
        # What a broken GPU raises.
        [XID_79, *steps(9), *TRACED, "RuntimeError: CUDA error: unspecified launch failure"],
        [XID_79, *steps(9), *TRACED, "RuntimeError: No CUDA GPUs are available"],
        # No step beyond those before it, and none of training.
        [*steps(9), NODE, *steps(9), *KEY],
        [NODE, *(f'{{"step": {at}, "eval/loss": 2.3}}' for at in range(3000, 3009)), *KEY],
        # The traceback was got over as well, or nothing was raised.
        [NODE, *KEY, *steps(9)],
        [NODE, *steps(9), "KeyError: 'nll'"],
    ],
)
def test_without_an_error_of_its_own_after_further_steps_it_stays_the_cause(
    lines: list[str],
) -> None:
    assert triage_text("\n".join(lines)).label is Label.NODE_FAILURE


@pytest.mark.parametrize(
    "error",
    [
        "RuntimeError: DataLoader worker (pid(s) 1234) exited unexpectedly",
        "RuntimeError: prefetch thread died",
        "EOFError: Ran out of input",
        "SystemError: worker 3 ended with exit code 1",
        "RuntimeError: Failed to save checkpoint step-3400",
    ],
)
def test_what_a_lost_storage_breaks_some_steps_later_is_still_its_doing(error: str) -> None:
    assert triage_text("\n".join([STORAGE, *steps(6), *TRACED, error])).label is Label.NETWORK


def test_what_announces_an_end_is_the_cause_though_steps_follow() -> None:
    lines = [PREEMPTION, *steps(9), *TRACED, "OddError: 7"]
    assert triage_text("\n".join(lines)).label is Label.PREEMPTION


@pytest.mark.parametrize("early", [STORAGE, RESET, NODE])
def test_in_the_watch_a_person_is_asked(early: str) -> None:
    def decided(*lines: str) -> Action:
        facts = {**KEEP, "lines": list(lines)}
        answer = look(trained()(), exited(1), attempts=(), further=("attempts",), **facts)
        return answer.the(DecisionMade).action

    assert decided(early, *KEY) is Action.RELAUNCH
    assert decided(early, *steps(40), *KEY) is Action.ESCALATE


@pytest.mark.parametrize("early", [STORAGE, RESET])
@pytest.mark.parametrize("error", ["OddError: 7", "KeyboardInterrupt"])
def test_in_the_watch_an_error_that_nobody_knows_is_asked_about(early: str, error: str) -> None:
    facts = {**KEEP, "lines": [early, *steps(40), *TRACED, error]}
    answer = look(trained()(), exited(1), attempts=(), further=("attempts",), **facts)
    assert answer.the(DecisionMade).action is Action.ESCALATE


def test_the_numbers_of_a_tail_are_those_of_the_log() -> None:
    tail = [*steps(3), HEADER]
    assert ending_of(tail, lines=104) == LogEnding(steps=(101, 102, 103), traced=104)
    assert ending_of(tail, lines=104).is_transient(100)
    assert not ending_of(tail, lines=104).is_transient(101)
    assert ending_of([*tail, *steps(1, 4000)], lines=105).traced == 0
    assert ending_of(steps(3), lines=3) == LogEnding(steps=(1, 2, 3))
