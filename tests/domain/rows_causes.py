"""Rows of what is decided by a cause or by its history: R1 to R9."""

from datetime import timedelta
from typing import Any

from tests.domain.decision_scenes import (
    KEEP,
    LOST,
    LOST_UNSEEN,
    MINUTE,
    NO_STORE,
    RELAUNCH_R1,
    SILENT,
    When,
    after,
    answered,
    bad_numbers,
    consented,
    drifted,
    ends,
    ends_by,
    in_window,
    paused,
    shows,
    then,
    trained,
    tried,
    unseen,
)
from tests.domain.ends import attempt
from tests.domain.given import Answer, History
from tests.domain.rule_tables import Cell, Decides
from tests.domain.samples import (
    KEPT,
    NAME_ERROR,
    checkpoint,
    exited,
    job,
    killed,
    listing,
    node_lost,
    tracker,
)
from watchkeeper.domain.run.ends import Action
from watchkeeper.domain.run.launch import LaunchRequested
from watchkeeper.domain.run.operator import ActKind
from watchkeeper.domain.run.permits import ActProposed
from watchkeeper.domain.values.basic import JobState
from watchkeeper.domain.values.observation.sources import AttemptState

R1 = Decides(
    rule="R1",
    chosen=(
        Cell("a node is lost", trained(), LOST, RELAUNCH_R1),
        Cell("a signal ended it, for the first time", trained(), ends(killed()), RELAUNCH_R1),
        Cell(
            "the orchestrator calls its first failed try preempted",
            trained(),
            tried(job(JobState.FAILED), attempt(1, "w-1", state=AttemptState.PREEMPTED)),
            RELAUNCH_R1,
        ),
    ),
    boundary=(
        Cell("exit code 1 without a word", trained(), ends(exited(1)), (Action.ESCALATE, "R19")),
        Cell(
            "each relaunch needs an approval",
            trained(policy={"approvals": "each"}),
            LOST,
            (Action.ESCALATE, "R19"),
        ),
    ),
    planned=(
        paused("a node is lost", LOST),
        Cell("the same in a drill", in_window(trained(), ActKind.DRILL), LOST, RELAUNCH_R1),
    ),
    unknown=(
        unseen("the store is silent", LOST_UNSEEN, None),
        unseen(
            "the orchestrator is silent", ends(node_lost(), **KEEP, without=("orchestrator",)), None
        ),
        unseen("nothing is known of the end", ends(job(JobState.FAILED)), (Action.ESCALATE, "R19")),
    ),
)

AGAIN = after(trained(), ends(killed()))


def tries_failed(*steps: int) -> When:
    """One try after another fails inside the job, each seen at the check after its last step."""

    def made(history: History) -> Answer:
        seen = [
            shows(said=job(attempts_failed=count), step=step, found=KEPT)(history)
            for failed, step in enumerate(steps)
            for count in (failed, failed + 1)
        ]
        return seen[-1]

    return made


R2 = Decides(
    rule="R2",
    chosen=(
        Cell("the same end at the same step", AGAIN, ends(killed()), (Action.ESCALATE, "R2")),
        Cell(
            "another end 10 steps on",
            AGAIN,
            ends(node_lost(), step=1110, found=KEPT),
            (Action.ESCALATE, "R2"),
        ),
        Cell(
            "a second try inside the job failed at the same step",
            trained(),
            tries_failed(1100, 1100),
            (Action.ALERT, "R2"),
        ),
    ),
    boundary=(
        Cell(
            "another end 11 steps on", AGAIN, ends(node_lost(), step=1111, found=KEPT), RELAUNCH_R1
        ),
        Cell(
            "a second try inside the job failed 11 steps on",
            trained(),
            tries_failed(1100, 1111),
            (Action.WAIT, "R13"),
        ),
    ),
    planned=(paused("the same end", ends(killed()), AGAIN),),
    unknown=(
        unseen(
            "no step of the second end is known, nor the store's word",
            ends(killed(), **SILENT),
            (Action.ESCALATE, "R2"),
            AGAIN,
        ),
    ),
)


def lost_at(step: int) -> When:
    """A node is lost at a step."""
    return ends(node_lost(), step=step, found=KEPT)


def lost_after_writing(history: History) -> Answer:
    """A node is lost after the instance wrote a checkpoint of its own."""
    written = checkpoint(1150, written_at=history.now + MINUTE)
    return history.fail(node_lost(), step=1200, found=listing(900, 1000, written))


ONCE = after(trained(retries={"budget": 1}), lost_at(1100))

R3 = Decides(
    rule="R3",
    chosen=(
        Cell(
            "the second loss of a node, budget 1, no new checkpoint",
            ONCE,
            lost_at(1200),
            (Action.ESCALATE, "R3"),
        ),
        Cell(
            "what is new there was written before the restart",
            ONCE,
            ends(node_lost(), step=1200, found=listing(900, 1000, 1150)),
            (Action.ESCALATE, "R3"),
        ),
        Cell(
            "two tries inside the job brought no new checkpoint, budget 2",
            trained(retries={"budget": 2}),
            tries_failed(1100, 1200),
            (Action.ALERT, "R3"),
        ),
    ),
    boundary=(
        Cell(
            "tries inside the job are fewer than the budget",
            trained(retries={"budget": 3}),
            tries_failed(1100, 1200),
            (Action.WAIT, "R13"),
        ),
        Cell(
            "the restart before brought a checkpoint",
            ONCE,
            lost_after_writing,
            RELAUNCH_R1,
        ),
        Cell(
            "the restart before is 24 h old",
            ONCE,
            ends(node_lost(), step=1200, found=KEPT, wait=timedelta(hours=24)),
            RELAUNCH_R1,
        ),
    ),
    planned=(paused("the second loss", lost_at(1200), ONCE),),
    unknown=(
        unseen(
            "the store is silent: no progress is proven",
            ends(node_lost(), step=1200, without=("checkpoints",)),
            (Action.ESCALATE, "R3"),
            ONCE,
        ),
    ),
)

ASK_R4 = (Action.ESCALATE, "R4")

R4 = Decides(
    rule="R4",
    chosen=(
        Cell("a node is lost while H7 is open", bad_numbers, LOST, ASK_R4),
        Cell(
            "its lines say that the loss is NaN",
            trained(),
            ends_by("numerical_instability"),
            ASK_R4,
        ),
    ),
    boundary=(
        Cell(
            "a node is lost while H9 is open",
            trained(),
            ends_by("node_failure", findings=("H9",), **KEEP),
            RELAUNCH_R1,
        ),
    ),
    planned=(
        Cell("in a pause", in_window(trained()), ends_by("numerical_instability"), ASK_R4),
        Cell(
            "the last check shows a NaN, in a drill that expects H7",
            in_window(trained(), ActKind.DRILL, ("H7",)),
            lambda history: history.fail(
                node_lost(),
                shown=tracker(
                    1100,
                    heartbeat_at=history.now + 5 * MINUTE,
                    metrics={"loss": float("nan")},
                ),
                found=KEPT,
            ),
            ASK_R4,
        ),
    ),
    unknown=(
        unseen(
            "all but the orchestrator is silent", ends(node_lost(), **SILENT), ASK_R4, bad_numbers
        ),
    ),
)

ASK_R5 = (Action.ESCALATE, "R5")
SMALL = ends(exited(1), lines=NAME_ERROR, **KEEP)

R5 = Decides(
    rule="R5",
    chosen=(Cell("a NameError in a file that trains nothing", trained(), SMALL, ASK_R5),),
    boundary=(
        Cell(
            "the same in the optimizer",
            trained(),
            ends(
                exited(1),
                lines=[line.replace("report.py", "optimizer.py") for line in NAME_ERROR],
                **KEEP,
            ),
            (Action.ESCALATE, "R6"),
        ),
    ),
    planned=(paused("a small bug", SMALL),),
    unknown=(
        unseen(
            "the log is silent",
            ends(exited(1), **KEEP, without=("logs",)),
            (Action.ESCALATE, "R19"),
        ),
        unseen("the store is silent", ends(exited(1), lines=NAME_ERROR, **NO_STORE), ASK_R5),
    ),
)

ASK_R6 = (Action.ESCALATE, "R6")
HBM = "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 17179869184 bytes."
OUT_OF_HBM = ends(exited(1), lines=[HBM], **KEEP)

R6 = Decides(
    rule="R6",
    chosen=(
        Cell("device memory ran out", trained(), OUT_OF_HBM, ASK_R6),
        Cell("data loading failed", trained(), ends_by("data_error"), ASK_R6),
        Cell("a collective timed out", trained(), ends_by("collective_hang"), ASK_R6),
        Cell(
            "exit code 137, and the orchestrator's flag for memory",
            trained(),
            tried(exited(137), attempt(1, "w-1", oom=True)),
            ASK_R6,
        ),
    ),
    boundary=(
        Cell("exit code 137 alone", trained(), ends(exited(137)), (Action.ESCALATE, "R19")),
        Cell(
            "memory ran out once, and policy.oom allows one attempt",
            trained(policy={"oom": "one_bounded_fix"}),
            OUT_OF_HBM,
            RELAUNCH_R1,
        ),
        Cell(
            "a collective timed out once, and policy.distributed allows one attempt",
            trained(policy={"distributed": "retry_once"}),
            ends_by("collective_hang"),
            RELAUNCH_R1,
        ),
    ),
    planned=(paused("device memory ran out", OUT_OF_HBM),),
    unknown=(
        unseen(
            "a trace without a clear place",
            ends(exited(1), lines=("Traceback (most recent call last):",), **KEEP),
            ASK_R6,
        ),
        unseen("the store is silent", ends(exited(1), lines=[HBM], **NO_STORE), ASK_R6),
    ),
)

ASK_R7 = (Action.ESCALATE, "R7")
BAD_NODE = (
    "(pid=411, ip=10.128.0.7) RuntimeError: No accelerator found. Please run on a TPU or GPU."
)


def bad_node(*nodes: str, **facts: Any) -> When:
    """An end by bad machines of these names."""
    return ends_by("tpu_bad_node", nodes=nodes, **(facts or KEEP))


EXCEPTION = trained(recover={"bad_node": "exception"})


def proposes(when: When, action: str) -> When:
    """What is proposed is a guarded action, and no more."""

    def made(history: History) -> Answer:
        answer = when(history)
        assert answer.the(ActProposed).action == action
        answer.without(LaunchRequested)
        return answer

    return made


R7 = Decides(
    rule="R7",
    chosen=(
        Cell("one node is named", trained(), proposes(bad_node("w-3"), "node_deletion"), ASK_R7),
        Cell(
            "a human consented and answered",
            trained(),
            then(bad_node("w-3"), consented),
            (Action.RELAUNCH, "R7"),
        ),
        Cell("by the exception, without a consent", EXCEPTION, bad_node("w-3"), ASK_R7),
    ),
    boundary=(
        Cell(
            "a human answered without a consent",
            trained(),
            then(bad_node("w-3"), answered),
            (Action.RELAUNCH, "R19"),
        ),
        Cell(
            "no node is named, and a human answered",
            trained(),
            then(bad_node(), answered),
            (Action.RELAUNCH, "R19"),
        ),
        Cell(
            "two are named, and a human answered",
            EXCEPTION,
            then(bad_node("w-3", "w-4"), answered),
            (Action.RELAUNCH, "R19"),
        ),
        Cell("the node is lost, and not bad", EXCEPTION, LOST, RELAUNCH_R1),
    ),
    planned=(paused("a bad node", bad_node("w-3"), EXCEPTION),),
    unknown=(
        unseen("no node is named", bad_node(), ASK_R7, EXCEPTION),
        unseen("two are named", bad_node("w-3", "w-4"), ASK_R7, EXCEPTION),
        unseen("the store is silent", bad_node("w-3", **NO_STORE), ASK_R7, EXCEPTION),
    ),
)

TELL_R8 = (Action.NOTIFY, "R8")

R8 = Decides(
    rule="R8",
    chosen=(
        Cell("nothing serves what it asked for", trained(), ends_by("capacity_wedge"), TELL_R8),
        Cell(
            "the orchestrator calls its end unschedulable",
            trained(),
            tried(job(JobState.FAILED, error_type="UNSCHEDULABLE")),
            TELL_R8,
        ),
    ),
    boundary=(Cell("a machine was preempted", trained(), ends_by("preemption"), RELAUNCH_R1),),
    planned=(paused("a wedge", ends_by("capacity_wedge")),),
    unknown=(unseen("the store is silent", ends_by("capacity_wedge", **NO_STORE), TELL_R8),),
)

ASK_R9 = (Action.ESCALATE, "R9")


def ends_elsewhere(history: History) -> Answer:
    """A node is lost, and the last look shows another identity."""
    other = tracker(1100, tracker_id="other", heartbeat_at=history.now + 5 * MINUTE)
    return history.fail(node_lost(), shown=other, found=KEPT)


R9 = Decides(
    rule="R9",
    chosen=(
        Cell(
            "a node is lost while H2 is open",
            drifted,
            ends(node_lost(), step=None, found=KEPT, without=("tracker",)),
            ASK_R9,
        ),
        Cell("only the last look shows another identity", trained(), ends_elsewhere, ASK_R9),
    ),
    boundary=(
        Cell(
            "the agreed identity is shown again before the end",
            drifted,
            then(shows(step=1090, found=KEPT), LOST),
            RELAUNCH_R1,
        ),
    ),
    planned=(
        paused("a node is lost", LOST, drifted),
        Cell(
            "in a drill that expects H2: the finding is kept quiet, the relaunch is held",
            in_window(trained(), ActKind.DRILL, ("H2",)),
            ends_elsewhere,
            ASK_R9,
        ),
    ),
    unknown=(
        unseen("tracker, log and store are silent", ends(node_lost(), **SILENT), ASK_R9, drifted),
    ),
)

CAUSE_ROWS = (R1, R2, R3, R4, R5, R6, R7, R8, R9)
"""In the order of their ids."""
