"""Rows of identity, start, relaunch and seal: H2, H10, H11, H14 and H17."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from tests.domain.given import Answer, History
from tests.domain.looking import CADENCE, announce, steps
from tests.domain.rows_live import SELDOM, Watched, at, watched
from tests.domain.rule_tables import (
    CLEARS,
    OPENS,
    PLANNED,
    STAYS,
    UNAVAILABLE,
    Facts,
    Row,
    Told,
    cleared,
    open_it,
    opened,
)
from tests.domain.samples import (
    DRI,
    KEPT,
    LOOP,
    ROOT,
    bar,
    clear,
    clear_for,
    contract,
    node_lost,
    readings,
    sealable,
    tracker,
)
from tests.domain.stories import story
from watchkeeper.domain.rules.operator.commands import AnswerQuestion
from watchkeeper.domain.rules.seal.commands import VerifySeal
from watchkeeper.domain.run.ends import Action
from watchkeeper.domain.run.health import FindingOpened
from watchkeeper.domain.run.launch import LaunchRequested
from watchkeeper.domain.run.phases import Finished, Interrupted
from watchkeeper.domain.run.seal import SealVerified

NO_LOG_NOR_TRACKER: Facts = {"without": ("tracker", "logs")}


def shows(step: int, **changes: Any) -> Facts:
    """Steps come by the output, and the tracker shows this of them now."""

    def shown(history: History) -> Any:
        facts = {"step": step, **changes}
        return tracker(heartbeat_at=history.now + CADENCE, **facts)

    return {"shown": shown, "lines": steps(step), "found": KEPT}


# --- H2 ------------------------------------------------------------------------------------------

IDENTITY = Row(
    rule="H2",
    kind="tracker_identity",
    given=watched,
    nearly=(shows(1050),),
    opens=shows(1100, tracker_id="other"),
    stays=shows(1150, tracker_id="other"),
    clears=(shows(1200),),
    silent=NO_LOG_NOR_TRACKER,
    action=Action.ALERT,
    words={
        OPENS: "the tracker shows another id than was agreed",
        STAYS: "it goes on to show it",
        CLEARS: "it shows the agreed one again",
        PLANNED: "expected by the act",
        UNAVAILABLE: "neither tracker nor log gives an answer",
    },
)


def trained() -> Watched:
    """A run that trained to step 1100 by its tracker and its output."""
    scene = watched()
    for step in (1050, 1100):
        scene.look(**shows(step))
    return scene


LINEAGE = Row(
    rule="H2",
    kind="tracker_lineage",
    given=trained,
    nearly=(shows(1150, state="finished"),),
    opens=shows(1200, state="finished"),
    stays=shows(1250, state="finished"),
    clears=(shows(1300),),
    silent={"without": ("tracker",)},
    action=Action.ALERT,
    words={
        OPENS: "the tracker calls the run finished at 2 checks at which printed steps go on",
        STAYS: "it goes on to call it so",
        CLEARS: "it says running",
        PLANNED: "expected by the act",
        UNAVAILABLE: "the tracker gives no answer",
    },
)

# --- H10 -----------------------------------------------------------------------------------------

FINAL = Row(
    rule="H10",
    kind="final_step",
    given=watched,
    nearly=({**shows(1100, final_step=5154), "lines": [bar("86.0it/5.20kit")]},),
    opens=shows(1150, final_step=5200),
    stays={**shows(1160), "lines": [bar("1.16kit/5.20kit")]},
    clears=(shows(1200, final_step=5155),),
    silent=NO_LOG_NOR_TRACKER,
    action=Action.NOTIFY,
    words={
        OPENS: "the tracker's configuration says 5200, the contract 5155; 5154, or a rounded bar, "
        "none",
        STAYS: "only a rounded bar is shown",
        CLEARS: "5155 is shown",
        PLANNED: "expected by the act",
        UNAVAILABLE: "neither tracker nor log gives an answer",
    },
)

# --- H11 -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sealing:
    """A run that ended well and is to be sealed."""

    history: History

    def look(self, *, silent: tuple[str, ...] = (), **changes: Any) -> Answer:
        """Ask for the seal, with these facts."""
        self.history.later(timedelta(minutes=1))
        facts = sealable(self.history.now, **changes)
        if silent:
            seen = facts.observation
            down = {"readings": readings_without(seen.readings, silent), "tracker": None}
            facts = facts.model_copy(update={"observation": seen.model_copy(update=down)})
        return self.history.tell(VerifySeal(now=self.history.now, actor=LOOP, facts=facts))


def readings_without(given: Any, silent: tuple[str, ...]) -> Any:
    """The same readings, of which some sources gave no answer."""
    gone = {one.source: one for one in readings(*silent) if one.source in silent}
    return tuple(gone.get(one.source, one) for one in given)


def no_answer_is_named_and_proves_no_artefact() -> None:
    """A source without an answer blocks a seal as such, seals nothing, and clears nothing."""
    scene = Sealing(story(Finished))
    answer = scene.look(silent=("tracker",))
    assert answer.the(FindingOpened).evidence == ("tracker: no answer in 10 s",)
    answer.without(SealVerified)
    again = open_it(ARTEFACTS)
    answer = again.look(silent=("tracker",))
    assert cleared(answer) == []
    answer.without(SealVerified)
    assert "missing_artefacts" in again.history.run.health.findings


ARTEFACTS = Row(
    rule="H11",
    kind="missing_artefacts",
    given=lambda: Sealing(story(Finished)),
    opens={"commit_found": False},
    stays={"commit_found": False},
    clears=({},),
    silent={},
    action=None,
    words={
        OPENS: "a seal is asked for, and the launch commit is not on its remote",
        STAYS: "the same lack again",
        CLEARS: "all is there: the seal is verified",
        PLANNED: "expected by the act; the seal is blocked all the same",
    },
    other={
        UNAVAILABLE: Told(
            "no answer blocks the seal by that name; nothing is sealed and nothing clears",
            no_answer_is_named_and_proves_no_artefact,
        )
    },
)

# --- H14 -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Relaunched:
    """A run whose relaunch was decided, and is held against the gate."""

    history: History

    def look(self, **facts: Any) -> Answer:
        """Answer what was asked, then ask the gate for the relaunch.

        Args:
            facts: `seed` of the configuration, or `unread`; who has `held` the root.
        """
        history = self.history.later(timedelta(minutes=5))
        for question in list(history.run.questions.open):
            history.tell(
                AnswerQuestion(now=history.now, actor=DRI, question=question, answer="relaunch")
            )
        more: dict[str, Any] = {"config": {"trainer.seed": facts["seed"]}}
        if facts.get("unread"):
            more = {"readings": readings("config")}
        gate = clear_for(1000, root_held_by=facts.get("held", ""), **more)
        return history.tell(history.relaunch_command(gate))


def interrupted() -> Relaunched:
    """A run under a configuration file, whose node was lost."""
    promised = contract(code={"config": ["a.yaml"]})
    history = History().launch(promised, clear(config={"trainer.seed": "0"}))
    history.train(1000, found=KEPT)
    history.fail(node_lost(), step=1100, found=KEPT)
    return Relaunched(history)


def a_drift_is_expected_and_blocks_all_the_same() -> None:
    """In the window it is no finding; the relaunch is held, and it opens once the act is over."""
    scene = interrupted()
    scene.history.tell(announce(scene.history, "H14", lasts=timedelta(minutes=7)))
    answer = scene.look(seed="1")
    assert opened(answer) == []
    answer.without(LaunchRequested)
    assert opened(scene.look(seed="1")) == ["config_drift"]


DRIFT = Row(
    rule="H14",
    kind="config_drift",
    given=interrupted,
    opens={"seed": "1"},
    stays={"seed": "1"},
    clears=({"seed": "0"},),
    silent={"unread": True},
    unheard=(
        {"seed": "0", "unread": True},
        {"seed": "0", "unread": True, "held": "other-run i1"},
    ),
    action=None,
    words={
        OPENS: "the gate of a relaunch finds another seed than the instance before had",
        STAYS: "a human says relaunch, and it is the same",
        CLEARS: "the gate lets a relaunch through",
        UNAVAILABLE: "the configuration could not be read, with and without another block",
    },
    other={
        PLANNED: Told(
            "expected by the act; the relaunch is held all the same, and it opens afterwards",
            a_drift_is_expected_and_blocks_all_the_same,
        )
    },
)

# --- H17 -----------------------------------------------------------------------------------------

FORBIDDEN = "is less than current W&B step"
BEHIND = "W 07:00 wandb: WARNING Step 7 is less than current W&B step 1100. Dropping entry"
EXPECTED = "Using output path"
EAST = "gs://example-us-east5/grug/grug-moe-1e23-ep8"
NOTHING_YET = tracker(None)
NO_LOG: Facts = {"without": ("logs",)}
ENDS: Facts = {"ends": node_lost(), "step": 1200, "found": KEPT}
BY_ITS_END = "the instance ends: nothing takes back what was printed"


def printed(*lines: str) -> Facts:
    """A start that has printed these, and logged no step yet."""
    return {"lines": list(lines), "shown": NOTHING_YET, "found": KEPT}


def second() -> Watched:
    """A second instance, which was to go on from step 1000."""
    return Watched(story(Interrupted, SELDOM).relaunch())


def first(**policy: Any) -> Watched:
    """A first instance under a contract that names lines of its start."""
    rarely = {"temporary_every": "", "permanent_every_steps": 100_000}
    return Watched(History().launch(contract(policy=policy, checkpoints=rarely)))


RESUMED = Row(
    rule="H17",
    kind="resume_mismatch",
    given=second,
    nearly=(printed("up"),),
    opens=printed("Resuming training from step 900"),
    stays=printed("up"),
    clears=(ENDS,),
    silent=NO_LOG,
    unheard=({**printed("up"), **NO_LOG},),
    action=Action.ALERT,
    words={
        OPENS: "it says step 900, decided was 1000",
        STAYS: "the line has left the log's tail",
        CLEARS: BY_ITS_END,
        PLANNED: "expected by the act",
        UNAVAILABLE: "the log gives no answer",
    },
)

FORBIDDEN_LINE = Row(
    rule="H17",
    kind="startup_forbidden",
    given=lambda: first(lines_forbidden=[FORBIDDEN]),
    nearly=(printed("up"),),
    opens=printed("up", BEHIND),
    stays=printed("up"),
    clears=(ENDS,),
    silent=NO_LOG,
    unheard=({**printed("up"), **NO_LOG},),
    action=Action.ALERT,
    words={
        OPENS: "the log shows a line that the contract forbids",
        STAYS: "the line has left the log's tail",
        CLEARS: BY_ITS_END,
        PLANNED: "expected by the act",
        UNAVAILABLE: "the log gives no answer",
    },
)

MISSING_LINE = Row(
    rule="H17",
    kind="startup_missing",
    given=lambda: first(lines_expected=[EXPECTED]),
    nearly=(printed("up"),),
    opens=at(1100),
    stays=at(1150),
    clears=(at(1200, lines=[f"{EXPECTED}: gs://b/r", *steps(1200)]),),
    silent=NO_LOG,
    action=Action.ALERT,
    words={
        OPENS: "steps come, and a log that was read whole lacks a line that is expected",
        STAYS: "it goes on to lack it",
        CLEARS: "the line comes late",
        PLANNED: "expected by the act",
        UNAVAILABLE: "the log gives no answer",
    },
)

PLACE = Row(
    rule="H17",
    kind="wrong_place",
    given=second,
    nearly=(printed("Loading checkpoint from meta-llama/Llama-3-8B"),),
    opens=printed(f"Using output path: {EAST}"),
    stays=printed(f"Using output path: {ROOT}"),
    clears=(ENDS,),
    silent=NO_LOG,
    unheard=({**printed("up"), **NO_LOG},),
    action=Action.ALERT,
    words={
        OPENS: "the log names an output path in another region; a model's name none",
        STAYS: "a later line names the agreed one",
        CLEARS: BY_ITS_END,
        PLANNED: "expected by the act",
        UNAVAILABLE: "the log gives no answer",
    },
)

START_ROWS = (
    *(IDENTITY, LINEAGE, FINAL, ARTEFACTS, DRIFT),
    *(RESUMED, FORBIDDEN_LINE, MISSING_LINE, PLACE),
)
"""In the order of their rules."""
