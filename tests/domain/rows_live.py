"""Rows of what is seen of a live job: H1, H3, H5, H6, H12, H13, H15 and H16, and R19's own."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from tests.domain.given import Answer, History
from tests.domain.looking import CADENCE, announce, look, steps
from tests.domain.rule_tables import (
    CLEARS,
    OPENS,
    PLANNED,
    STAYS,
    UNAVAILABLE,
    WINDOW,
    Facts,
    Row,
    Told,
    cleared,
    open_it,
    opened,
)
from tests.domain.samples import (
    KEPT,
    LOOP,
    RIVAL,
    ROOT,
    SLUG,
    SOURCES,
    contract,
    half_written,
    job,
    listing,
)
from tests.domain.stories import story
from watchkeeper.domain.rules.health.commands import ReportStaleMonitor
from watchkeeper.domain.rules.shared.refusals import Refusal, Refused
from watchkeeper.domain.run.ends import Action
from watchkeeper.domain.run.phases import Running, Stabilizing
from watchkeeper.domain.run.watch import CheckRecorded
from watchkeeper.domain.values.basic import JobState
from watchkeeper.domain.values.check import Health
from watchkeeper.domain.values.contract.contract import Contract
from watchkeeper.domain.values.observation.liveness import witness_of
from watchkeeper.domain.values.observation.sources import (
    CapacityFacts,
    HostFacts,
    MountFacts,
    NodeFacts,
    OtherJob,
)

SELDOM = contract(checkpoints={"temporary_every": "", "permanent_every_steps": 100_000})
"""A contract by which no checkpoint is due for days."""

BY_STEPS = contract(checkpoints={"temporary_every": "50 steps"})
MINUTE = timedelta(minutes=1)
NOBODY = ("orchestrator", "tracker", "logs", "checkpoints")
PENDING = job(JobState.PENDING)


@dataclass(frozen=True)
class Watched:
    """A run that is looked at with the facts of `looking.look`.

    A fact that is a function is made from the history as it is then. `ends` is a job's bad end.
    """

    history: History

    def look(self, **facts: Any) -> Answer:
        """Look at it once."""
        made: dict[str, Any] = {
            name: value(self.history) if callable(value) else value for name, value in facts.items()
        }
        if "ends" in made:
            return self.history.fail(made.pop("ends"), **made)
        return look(self.history, **made)


def watched(promised: Contract = SELDOM) -> Watched:
    """A run that was seen at step 1000."""
    return Watched(story(Running, promised))


def started() -> Watched:
    """A run whose job the orchestrator has just taken."""
    return Watched(story(Stabilizing))


STANDS: dict[str, Any] = {"step": 1100, "lines": steps(1100), "found": KEPT}
"""What shows what it showed before."""


def trains() -> Watched:
    """A run that is seen to train, at step 1100, by several clocks."""
    scene = watched()
    scene.look(step=1050, lines=steps(1050), found=KEPT)
    scene.look(**STANDS)
    return scene


def at(step: int, **facts: Any) -> Facts:
    """A look at which steps are seen to come, by tracker and output."""
    return {"step": step, "lines": steps(step), "found": KEPT, **facts}


# --- H1 ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Reported:
    """A run whose watch is reported by another, or checked."""

    history: History

    def look(self, *, wait: timedelta = CADENCE, checked: bool = False, **facts: Any) -> Answer:
        """Let time pass, then check it, or have another watch report that nobody does."""
        self.history.later(wait)
        if checked:
            return self.history.check(step=1100, found=KEPT, **facts)
        command = ReportStaleMonitor(now=self.history.now, actor=LOOP, reporter=RIVAL)
        outcome = self.history.when(command).outcome
        if isinstance(outcome, Refused):
            assert outcome.refusal is Refusal.MONITOR_NOT_STALE
            return Answer([])
        return self.history.tell(command)


def checks_without_an_answer_are_checks() -> None:
    """Silence of all sources is no silence of the watch: it opens nothing here, and clears."""
    scene = Reported(story(Running))
    for _ in range(4):
        assert "monitor_stale" not in opened(
            scene.look(wait=CADENCE, checked=True, without=SOURCES)
        )
    again = open_it(STALE)
    assert "monitor_stale" in cleared(again.look(wait=MINUTE, checked=True, without=SOURCES))


STALE = Row(
    rule="H1",
    kind="monitor_stale",
    given=lambda: Reported(story(Running)),
    nearly=({"wait": 2 * CADENCE},),
    opens={"wait": timedelta(seconds=1)},
    stays={"wait": MINUTE},
    clears=({"wait": MINUTE, "checked": True},),
    silent={},
    action=None,
    words={
        OPENS: "no check for more than 2 cadences, told by another watch; at 2 it is refused",
        STAYS: "reported again: nothing new",
        CLEARS: "a check arrives",
        PLANNED: "an act that expects H1: the report records nothing",
    },
    other={
        UNAVAILABLE: Told(
            "a check that finds every source silent is a check: it opens nothing and clears it",
            checks_without_an_answer_are_checks,
        )
    },
)

DARK: Facts = {"without": ("tracker", "logs", "checkpoints")}


def silence_is_what_it_tells_of() -> None:
    """With every source silent it opens, health is unknown, and nothing is called wrong."""
    scene = trains()
    found = [opened(scene.look(without=SOURCES)) for _ in range(2)]
    assert found == [[], ["monitor_blind"]]
    answer = scene.look(without=SOURCES)
    assert answer.the(CheckRecorded).health is Health.UNKNOWN
    assert cleared(answer) == []
    assert set(scene.history.run.health.findings) == {"monitor_blind"}


BLIND = Row(
    rule="H1",
    kind="monitor_blind",
    given=trains,
    nearly=(DARK,),
    opens=DARK,
    stays=DARK,
    clears=(at(1200),),
    silent={"without": SOURCES},
    action=Action.NOTIFY,
    words={
        OPENS: "2 checks in a row at which tracker, logs and store are silent",
        STAYS: "they go on to be",
        CLEARS: "a step is seen",
        PLANNED: "expected by the act",
    },
    other={
        UNAVAILABLE: Told(
            "it is what silence opens: health is unknown, and nothing else is found",
            silence_is_what_it_tells_of,
        )
    },
)

LEFT_CHECKS = timedelta(hours=2) // CADENCE
LEFT_REST = timedelta(hours=2) % CADENCE - timedelta(seconds=1)
"""So many checks, and a last one a second too early, are the two hours of `live.tracker_silent`."""


def further(history: History) -> list[str]:
    """Output that is ten steps further than it was."""
    checked = history.run.watch.last_check
    assert checked is not None
    logs = witness_of(checked.event.liveness, "logs")
    assert logs is not None
    assert logs.step is not None
    return steps(logs.step + 50)


LEFT_BEHIND: Facts = {"step": 1100, "lines": further, "found": KEPT}
"""The output goes on, and the tracker shows what it showed."""


def an_answer_is_no_new_step() -> None:
    """A tracker without an answer is as silent as one that stands; the run is healthy."""
    scene = trains()
    unreached: Facts = {**LEFT_BEHIND, "without": ("tracker",)}
    for _ in range(LEFT_CHECKS):
        assert "tracker_silent" not in opened(scene.look(**unreached))
    answer = scene.look(**unreached)
    assert opened(answer) == ["tracker_silent"]
    assert answer.the(CheckRecorded).health is Health.HEALTHY
    assert cleared(scene.look(**LEFT_BEHIND)) == []
    assert cleared(scene.look(without=SOURCES)) == []


LEFT = Row(
    rule="H1",
    kind="tracker_silent",
    given=trains,
    nearly=(*[LEFT_BEHIND] * LEFT_CHECKS, {**LEFT_BEHIND, "wait": LEFT_REST}),
    opens={**LEFT_BEHIND, "wait": timedelta(seconds=1)},
    stays=LEFT_BEHIND,
    clears=({"step": 1500, "lines": further, "found": KEPT},),
    silent={},
    action=Action.NOTIFY,
    words={
        OPENS: "steps come in the output for 2 h, and none in the tracker; a second earlier none",
        STAYS: "it goes on",
        CLEARS: "the tracker shows a newer step",
        PLANNED: "expected by the act",
    },
    other={
        UNAVAILABLE: Told(
            "a tracker without an answer is silent too: it opens, the run stays healthy, and "
            "neither its old step nor silence of all sources clears it",
            an_answer_is_no_new_step,
        )
    },
)

# --- H3, H16 -------------------------------------------------------------------------------------


def a_pause_is_no_standstill() -> None:
    """In the window nothing is counted; its end gives time to move again."""
    scene = trains()
    scene.history.tell(announce(scene.history, "H3", lasts=6.5 * CADENCE))
    looked = [scene.look(**STANDS) for _ in range(8)]
    assert [opened(one) for one in looked] == [[]] * 7 + [["not_training"]]
    named = [bool(one.the(CheckRecorded).expected) for one in looked]
    assert named == [False, *[True] * 5, False, False]
    again = open_it(HUNG)
    again.history.tell(announce(again.history, "H3"))
    assert "not_training" not in cleared(again.look(**STANDS))


HUNG = Row(
    rule="H3",
    kind="not_training",
    given=trains,
    nearly=(STANDS,),
    opens=STANDS,
    stays=STANDS,
    clears=({**STANDS, "step": 1101},),
    silent={"without": SOURCES},
    action=Action.ALERT,
    words={
        OPENS: "the second check at which tracker and output stand; at the first none",
        STAYS: "they stand on",
        CLEARS: "the tracker shows one more step",
        UNAVAILABLE: "no source answers",
    },
    other={
        PLANNED: Told(
            "each check of the window names the standstill; its end gives time to move again",
            a_pause_is_no_standstill,
        )
    },
)

DEAD = NodeFacts(node="10.0.3.7", alive=False, reason="missed 3 heartbeats")
CLUSTER: Facts = {"nodes": (DEAD,), "further": ("cluster",)}
NO_CLUSTER: Facts = {"nodes": (), "further": (), "silent": ("cluster",)}

WORSE = Row(
    rule="H16",
    kind="degraded",
    given=trains,
    nearly=({**STANDS, **CLUSTER},),
    opens={**STANDS, **CLUSTER},
    stays={**STANDS, **CLUSTER},
    clears=(at(1200, **CLUSTER),),
    silent=NO_CLUSTER,
    unheard=({**NO_CLUSTER, "without": SOURCES}, {**STANDS, **NO_CLUSTER}),
    action=Action.ALERT,
    words={
        OPENS: "no step at 2 checks in a row, and the cluster shows a dead node",
        STAYS: "both go on",
        CLEARS: "a step is seen, though the node is dead",
        PLANNED: "expected by the act",
        UNAVAILABLE: "the cluster gives no answer, then no source does",
    },
)

# --- H5 ------------------------------------------------------------------------------------------

NO_STORE: Facts = {"without": ("checkpoints",)}

LATE = Row(
    rule="H5",
    kind="checkpoint_stalled",
    given=lambda: watched(BY_STEPS),
    nearly=(at(1100),),
    opens=at(1101),
    stays=at(1150),
    clears=(at(1160, found=listing(900, 1000, 1160)),),
    silent=NO_STORE,
    action=Action.ALERT,
    words={
        OPENS: "101 steps after the newest one, where one is due every 50; at 100 none",
        STAYS: "steps go on",
        CLEARS: "a new complete one",
        PLANNED: "expected by the act",
        UNAVAILABLE: "the store gives no answer",
    },
)

HALF: Facts = {"found": listing(900, 1000, half_written(1200))}

HALF_WRITTEN = Row(
    rule="H5",
    kind="checkpoint_incomplete",
    given=watched,
    nearly=tuple(at(1200 + number, **HALF) for number in range(4)),
    opens=at(1204, **HALF),
    stays=at(1205, **HALF),
    clears=(at(1300, found=listing(900, 1000, 1200)),),
    silent=NO_STORE,
    action=Action.ALERT,
    words={
        OPENS: "a folder without metadata, first seen more than 30 min ago",
        STAYS: "it goes on to lack it",
        CLEARS: "it is complete",
        PLANNED: "expected by the act",
        UNAVAILABLE: "the store gives no answer",
    },
)

FEW: Facts = {"found": listing(1000)}

COVERAGE = Row(
    rule="H5",
    kind="rollback_coverage",
    given=watched,
    nearly=(at(1100, **FEW),),
    opens=at(1150, **FEW),
    stays=at(1160, **FEW),
    clears=(at(1200, found=listing(1000, 1200)),),
    silent=NO_STORE,
    action=Action.ALERT,
    words={
        OPENS: "one of two checkpoints is gone at the second listing in a row",
        STAYS: "it stays gone",
        CLEARS: "a new one makes up for it",
        PLANNED: "expected by the act",
        UNAVAILABLE: "the store gives no answer",
    },
)

# --- H6 ------------------------------------------------------------------------------------------

WAITS = Row(
    rule="H6",
    kind="pending",
    given=started,
    nearly=({"said": PENDING, "wait": 30 * MINUTE},),
    opens={"said": PENDING, "wait": timedelta(seconds=1)},
    stays={"said": PENDING},
    clears=({"step": 10, "lines": steps(10)},),
    silent={"without": ("orchestrator",)},
    action=Action.NOTIFY,
    words={
        OPENS: "the job waits for more than 30 min; at 30 none",
        STAYS: "it waits on",
        CLEARS: "it runs",
        PLANNED: "expected by the act",
        UNAVAILABLE: "the orchestrator gives no answer",
    },
)


def capacity(**told: Any) -> Facts:
    """What the cluster tells of the job's machines."""
    return {"capacity": CapacityFacts(**told), "further": ("cluster",)}


NO_CAPACITY: Facts = {"capacity": None, "further": (), "silent": ("cluster",)}


def whole() -> Watched:
    """A run that had all its machines."""
    scene = watched()
    scene.look(**at(1050, **capacity(wanted=4, granted=4)))
    return scene


PART = Row(
    rule="H6",
    kind="partial_allocation",
    given=whole,
    nearly=tuple(at(1100 + 10 * n, **capacity(wanted=4, granted=3)) for n in range(4)),
    opens=at(1150, **capacity(wanted=4, granted=3)),
    stays=at(1160, **capacity(wanted=4, granted=3)),
    clears=(at(1200, **capacity(wanted=4, granted=4)),),
    silent=NO_CAPACITY,
    action=Action.NOTIFY,
    words={
        OPENS: "3 of 4 machines for more than 30 min",
        STAYS: "3 of 4 go on",
        CLEARS: "4 of 4",
        PLANNED: "expected by the act",
        UNAVAILABLE: "the cluster gives no answer",
    },
)

WRONG_HARDWARE = Row(
    rule="H6",
    kind="wrong_hardware",
    given=watched,
    nearly=(at(1100, **capacity(hardware="TPU-v5p-1024-head")),),
    opens=at(1150, **capacity(hardware="v5p-512")),
    stays=at(1160, **capacity(hardware="v5p-512")),
    clears=(at(1200, **capacity(hardware="v5p-1024")),),
    silent=NO_CAPACITY,
    action=Action.NOTIFY,
    words={
        OPENS: "v5p-512 where the contract says v5p-1024; a longer name of the same none",
        STAYS: "the same again",
        CLEARS: "the type that was agreed",
        PLANNED: "expected by the act",
        UNAVAILABLE: "the cluster gives no answer",
    },
)

# --- H12 -----------------------------------------------------------------------------------------

TWIN = OtherJob(job="ray-run-b", state=JobState.RUNNING, root=f"{ROOT}/", run="another")
TRIAL = OtherJob(
    job="ray-try", state=JobState.RUNNING, root=f"{ROOT}-try", run=SLUG, diagnostic=True
)


def beside(step: int, *others: OtherJob) -> Facts:
    """Steps come, and the cluster has these jobs beside this one."""
    return at(step, others=others, further=("cluster",))


NO_OTHERS: Facts = {"others": (), "further": (), "silent": ("cluster",)}

WRITER = Row(
    rule="H12",
    kind="second_writer",
    given=watched,
    nearly=(beside(1100, TWIN.model_copy(update={"root": f"{ROOT}-b"})),),
    opens=beside(1150, TWIN),
    stays=beside(1160, TWIN),
    clears=(beside(1200, TWIN.model_copy(update={"state": JobState.SUCCEEDED})),),
    silent=NO_OTHERS,
    action=Action.NOTIFY,
    words={
        OPENS: "another live job writes to this root; to a root beside it none",
        STAYS: "it goes on",
        CLEARS: "that job has ended",
        PLANNED: "expected by the act",
        UNAVAILABLE: "the cluster gives no answer",
    },
)

DIAGNOSTIC = Row(
    rule="H12",
    kind="stale_diagnostic",
    given=watched,
    nearly=(beside(1100, TRIAL.model_copy(update={"run": "another"})),),
    opens=beside(1150, TRIAL),
    stays=beside(1160, TRIAL),
    clears=(beside(1200),),
    silent=NO_OTHERS,
    action=Action.NOTIFY,
    words={
        OPENS: "a trial under this run's name lives; one of another run none",
        STAYS: "it goes on",
        CLEARS: "it is gone",
        PLANNED: "expected by the act",
        UNAVAILABLE: "the cluster gives no answer",
    },
)

# --- H13 -----------------------------------------------------------------------------------------

OUT_OF_HBM = "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 17179869184 bytes."
RETRIED = "WARNING: retrying GCS request after 503 Service Unavailable"

SIGNATURE = Row(
    rule="H13",
    kind="log_signature",
    given=trains,
    nearly=({**STANDS, "step": 1101, "lines": [*steps(1101), RETRIED]},),
    opens={**STANDS, "step": 1101, "lines": [*steps(1101), OUT_OF_HBM]},
    stays={**STANDS, "step": 1102, "lines": [OUT_OF_HBM, *steps(1102)]},
    clears=(at(1200),),
    silent={"without": ("logs",)},
    action=Action.ALERT,
    words={
        OPENS: "lines of HBM that ran out, and no step since; a retry while steps come none",
        STAYS: "the lines are there, though a step came",
        CLEARS: "they are gone, and steps come",
        PLANNED: "expected by the act",
        UNAVAILABLE: "the log gives no answer, though the tracker's steps go on",
    },
)

# --- H15 -----------------------------------------------------------------------------------------


def free(percent: int) -> HostFacts:
    """A machine with this much of its disk free."""
    return HostFacts(host="ops-1", total_bytes=100_000_000_000, free_bytes=percent * 1_000_000_000)


def hosts(step: int, *told: HostFacts) -> Facts:
    """Steps come, and machines tell of themselves."""
    return at(step, hosts=told, further=("hosts",))


NO_HOSTS: Facts = {"hosts": (), "further": (), "silent": ("hosts",)}

DISK = Row(
    rule="H15",
    kind="disk_low",
    given=watched,
    nearly=(hosts(1100, free(20)),),
    opens=hosts(1150, free(19)),
    stays=hosts(1160, free(21)),
    clears=(hosts(1200, free(22)),),
    silent=NO_HOSTS,
    action=Action.NOTIFY,
    words={
        OPENS: "19 % of a disk is free; at 20 % none",
        STAYS: "at 21 %, within two points of its limit",
        CLEARS: "at 22 %",
        PLANNED: "expected by the act",
        UNAVAILABLE: "the machines give no answer",
    },
)


def mount(mounted: bool | None) -> HostFacts:
    """A machine with a folder that is to be a mount."""
    return free(50).model_copy(update={"mounts": (MountFacts(path="/mnt/gcs", mounted=mounted),)})


MOUNT = Row(
    rule="H15",
    kind="mount_missing",
    given=watched,
    nearly=(hosts(1100, mount(None)),),
    opens=hosts(1150, mount(False)),
    stays=hosts(1160, mount(False)),
    clears=(hosts(1200, mount(True)),),
    silent=NO_HOSTS,
    action=Action.NOTIFY,
    words={
        OPENS: "a folder that is to be a mount is none; where nobody can tell none",
        STAYS: "it goes on to be none",
        CLEARS: "it is one",
        PLANNED: "expected by the act",
        UNAVAILABLE: "the machines give no answer",
    },
)

# --- R19's own finding ---------------------------------------------------------------------------


def no_act_expects_a_lost_job() -> None:
    """An act may expect what detectors find, never a decision: it opens in any window."""
    scene = watched()
    history = scene.history
    history.when(announce(history, "R19")).refused(Refusal.RULE_NOT_EXPECTABLE)
    history.tell(announce(history, *(f"H{number}" for number in range(1, 18)), lasts=WINDOW))
    assert opened(scene.look(**at(1100, said=job(JobState.NOT_FOUND)))) == ["job_unaccounted"]


LOST = Row(
    rule="R19",
    kind="job_unaccounted",
    given=watched,
    nearly=(at(1100, said=PENDING),),
    opens=at(1150, said=job(JobState.NOT_FOUND)),
    stays=at(1160, said=job(JobState.UNKNOWN)),
    clears=(at(1200),),
    silent={"without": ("orchestrator",)},
    action=Action.ALERT,
    words={
        OPENS: "the orchestrator was asked and does not know the job",
        STAYS: "it cannot say what became of it",
        CLEARS: "it has it again",
        UNAVAILABLE: "the orchestrator gives no answer",
    },
    other={
        PLANNED: Told(
            "no act can expect it: the announcement is refused, and it opens in any window",
            no_act_expects_a_lost_job,
        )
    },
)

LIVE_ROWS = (
    *(STALE, BLIND, LEFT, HUNG, LATE, HALF_WRITTEN, COVERAGE, WAITS, PART, WRONG_HARDWARE),
    *(WRITER, DIAGNOSTIC, SIGNATURE, DISK, MOUNT, WORSE, LOST),
)
"""In the order of their rules."""
