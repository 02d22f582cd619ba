"""What training got over before it broke by an error of its own is not why it ended."""

import pytest

from tests.domain.decision_scenes import KEEP, trained
from tests.domain.looking import look
from tests.domain.samples import exited
from watchkeeper.domain.events import Action, DecisionMade
from watchkeeper.domain.triage.got_over import STEPS_MIN, Ending, ending_of
from watchkeeper.domain.triage.signatures.model import Label
from watchkeeper.domain.triage.texts import triage_text

STORAGE = "google.api_core.exceptions.ServiceUnavailable: 503 GET https://storage.googleapis.com/x"
RESET = "ConnectionResetError: [Errno 104] Connection reset by peer"
NODE = "Warning  NodeNotReady  3s  node-controller  Node gke-1 is not ready"
WATCHDOG = "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=8, OpType=ALLREDUCE)"
PREEMPTION = "The node was preempted by a job of a higher priority"
HEADER = "Traceback (most recent call last):"
TRACED = (HEADER, '  File "/srv/train/loop.py", line 88, in step', "    x = y['nll']")
KEY = (*TRACED, "KeyError: 'nll'")


def steps(count: int, first: int = 3000) -> list[str]:
    return [f"step={first + 10 * at} loss=2.1" for at in range(count)]


@pytest.mark.parametrize("early", [STORAGE, RESET, NODE, WATCHDOG])
@pytest.mark.parametrize(
    ("end", "label"),
    [
        (KEY, Label.CODE_BUG),
        ((*TRACED, "OddError: 7"), Label.UNKNOWN),
        ((*TRACED, "torch.OutOfMemoryError: CUDA out of memory."), Label.HBM_OOM),
        ((*TRACED, "KeyboardInterrupt"), Label.USER_STOPPED),
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
        # No step beyond those before it.
        [*steps(9), NODE, *steps(9), *KEY],
        # The traceback was got over as well, or nothing was raised.
        [NODE, *KEY, *steps(9)],
        [NODE, *steps(9), "KeyError: 'nll'"],
    ],
    ids=["peer", "child", "same steps", "traceback before", "no traceback"],
)
def test_without_an_error_of_its_own_after_further_steps_it_stays_the_cause(
    lines: list[str],
) -> None:
    assert triage_text("\n".join(lines)).label is Label.NODE_FAILURE


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
    assert decided(early, *steps(40), *TRACED, "OddError: 7") is Action.ESCALATE


def test_the_numbers_of_a_tail_are_those_of_the_log() -> None:
    tail = [*steps(3), HEADER]
    assert ending_of(tail, lines=104) == Ending(steps=(101, 102, 103), traced=104)
    assert ending_of(tail, lines=104).is_got_over(100)
    assert not ending_of(tail, lines=104).is_got_over(101)
    assert ending_of(steps(3), lines=3) == Ending()
