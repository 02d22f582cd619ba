"""Rows of what is decided by checkpoints, people and owners, and of live jobs: R10 to R19."""

from datetime import timedelta
from typing import Any

from tests.domain.decision_scenes import (
    ASK_R14,
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
    asked_to_relaunch,
    asked_to_stop,
    bad_numbers,
    consented,
    ends,
    ends_by,
    in_window,
    owned_by,
    paused,
    shows,
    then,
    trained,
    unseen,
)
from tests.domain.given import Answer, History
from tests.domain.looking import look, steps
from tests.domain.rows_causes import AGAIN, ASK_R9, HBM, OUT_OF_HBM, ends_elsewhere, proposes
from tests.domain.rows_live import TWIN
from tests.domain.rule_tables import Cell, Decides, Told, destroys_nothing
from tests.domain.samples import (
    KEPT,
    ROOT,
    START,
    checkpoint,
    clear_for,
    down,
    exited,
    half_written,
    job,
    killed,
    listing,
    node_lost,
    succeeded,
    tracker,
)
from tests.domain.stories import story
from watchkeeper.domain.rules.shared.refusals import Refusal
from watchkeeper.domain.run.ends import Action, DecisionMade
from watchkeeper.domain.run.phases import Interrupted, Running
from watchkeeper.domain.values.basic import JobState
from watchkeeper.domain.values.observation.sources import OtherJob

ASK_R10 = (Action.ESCALATE, "R10")
NOTHING = listing()


def bare() -> History:
    """A run that has no checkpoint yet."""
    return History().launch().train(40)


def unread(written: timedelta = timedelta()) -> History:
    """A run whose only checkpoint was refused, since nobody could read its metadata."""
    found = checkpoint(40, metadata_step=None, written_at=START + written)
    return History().launch().train(40, found=listing(found))


def asked(history: History) -> Answer:
    """A node is lost, and R10 asks, since nobody can read the metadata yet."""
    unreadable = listing(checkpoint(40, metadata_step=None))
    return history.fail(node_lost(), step=50, found=unreadable)


def look_without_orchestrator(history: History) -> Answer:
    """The metadata is read, and the orchestrator does not say that the instance is over."""
    return history.fail(node_lost(), step=50, found=listing(40), without=("orchestrator",))


R10 = Decides(
    rule="R10",
    chosen=(
        Cell("no checkpoint is there", bare, ends(node_lost(), step=50, found=NOTHING), ASK_R10),
        Cell(
            "the only one has no metadata",
            bare,
            ends(node_lost(), step=50, found=listing(half_written(40))),
            ASK_R10,
        ),
        Cell(
            "the one decided on is gone when the relaunch is asked for",
            lambda: story(Interrupted),
            lambda history: history.tell(history.relaunch_command(clear_for(1000, source=None))),
            ASK_R10,
        ),
        Cell(
            "of the only one nobody could read the metadata, and nobody can yet",
            unread,
            ends(node_lost(), step=50, found=listing(checkpoint(40, metadata_step=None))),
            ASK_R10,
        ),
        Cell(
            "and by now it names another step",
            unread,
            ends(node_lost(), step=50, found=listing(checkpoint(40, metadata_step=30))),
            ASK_R10,
        ),
    ),
    boundary=(
        Cell("one is complete", bare, ends(node_lost(), step=50, found=listing(40)), RELAUNCH_R1),
        Cell(
            "its metadata is read by now, at the same time of writing",
            unread,
            ends(node_lost(), step=50, found=listing(40)),
            RELAUNCH_R1,
        ),
        Cell(
            "at an earlier time of writing",
            lambda: unread(MINUTE),
            ends(node_lost(), step=50, found=listing(40)),
            RELAUNCH_R1,
        ),
        Cell(
            "asked, and then it is read",
            unread,
            then(asked, ends(node_lost(), step=50, found=listing(40))),
            RELAUNCH_R1,
        ),
    ),
    planned=(paused("no checkpoint is there", ends(node_lost(), step=50, found=NOTHING), bare),),
    unknown=(
        unseen(
            "asked, and nobody can read it at the next look either",
            then(asked, asked),
            None,
            unread,
        ),
        unseen(
            "asked, and it is read as the orchestrator is silent",
            then(asked, look_without_orchestrator),
            None,
            unread,
        ),
        unseen("the store is silent: that is no empty store", LOST_UNSEEN, None, bare),
        unseen(
            "it is silent when the relaunch is asked for",
            lambda history: history.tell(
                history.relaunch_command(clear_for(1000, source_reading=down("checkpoints")))
            ),
            None,
            lambda: story(Interrupted),
        ),
    ),
)

ASK_R11 = (Action.ESCALATE, "R11")
SCRATCH = ("Starting from scratch",)


def second() -> History:
    """A second instance, which was to go on from step 1000."""
    return story(Interrupted).relaunch().later(2 * MINUTE)


R11 = Decides(
    rule="R11",
    chosen=(
        Cell(
            "it began from scratch instead of step 1000",
            second,
            then(shows(lines=SCRATCH), ends(node_lost(), step=1200, found=KEPT)),
            ASK_R11,
        ),
        Cell("the resume policy is `never`", trained(tracker={"resume": "never"}), LOST, ASK_R11),
    ),
    boundary=(
        Cell(
            "it said step 1000",
            second,
            then(
                shows(lines=["Resuming training from step 1000"]),
                ends(node_lost(), step=1200, found=KEPT),
            ),
            RELAUNCH_R1,
        ),
        Cell("the resume policy is `must`", trained(tracker={"resume": "must"}), LOST, RELAUNCH_R1),
    ),
    planned=(paused("the policy is `never`", LOST, trained(tracker={"resume": "never"})),),
    unknown=(
        unseen(
            "what it began from was seen, the store is silent",
            then(shows(lines=SCRATCH), ends(node_lost(), **SILENT)),
            ASK_R11,
            second,
        ),
    ),
)

ASK_R12 = (Action.ESCALATE, "R12")
BOUNDED = trained(policy={"oom": "one_bounded_fix"})
TRIED = after(BOUNDED, OUT_OF_HBM)
LATER: dict[str, Any] = {"step": 3000, "found": listing(900, 1000, 2900)}

R12 = Decides(
    rule="R12",
    chosen=(Cell("memory ran out again", TRIED, ends(exited(1), lines=[HBM], **LATER), ASK_R12),),
    boundary=(
        Cell("for the first time", BOUNDED, OUT_OF_HBM, RELAUNCH_R1),
        Cell("a node is lost after it", TRIED, ends(node_lost(), **LATER), RELAUNCH_R1),
    ),
    planned=(paused("memory ran out again", ends(exited(1), lines=[HBM], **LATER), TRIED),),
    unknown=(
        unseen(
            "the store is silent",
            ends(exited(1), lines=[HBM], step=3000, without=("checkpoints",)),
            ASK_R12,
            TRIED,
        ),
    ),
)

WAIT_R13 = (Action.WAIT, "R13")
FAILED_ONCE = shows(said=job(attempts_failed=1, attempts_left=2), step=1100, found=KEPT)

R13 = Decides(
    rule="R13",
    chosen=(
        Cell("an attempt failed inside the job", trained(), FAILED_ONCE, WAIT_R13),
        Cell(
            "the orchestrator owns retries and has 2 left",
            owned_by("orchestrator"),
            ends(node_lost(attempts_left=2)),
            WAIT_R13,
        ),
    ),
    boundary=(
        Cell(
            "the same count again",
            trained(),
            then(FAILED_ONCE, shows(said=job(attempts_failed=1, attempts_left=2), step=1150)),
            None,
        ),
        Cell(
            "it has none left",
            owned_by("orchestrator"),
            ends(node_lost(attempts_left=0)),
            (Action.ESCALATE, "R19"),
        ),
        Cell(
            "nobody owns them",
            owned_by(None),
            ends(node_lost(attempts_left=2)),
            (Action.ESCALATE, "R19"),
        ),
    ),
    planned=(
        Cell("an attempt failed in a pause", in_window(trained()), FAILED_ONCE, WAIT_R13),
        paused("the job ended", ends(node_lost(attempts_left=2)), owned_by("orchestrator")),
    ),
    unknown=(
        unseen(
            "nobody knows how many are left",
            ends(node_lost()),
            (Action.ESCALATE, "R19"),
            owned_by("orchestrator"),
        ),
        unseen(
            "the orchestrator is silent",
            shows(said=job(attempts_failed=1), step=1100, found=KEPT, without=("orchestrator",)),
            None,
        ),
    ),
)

LEAVE_R14 = (Action.LEAVE, "R14")
GONE = job(JobState.NOT_FOUND)

R14 = Decides(
    rule="R14",
    chosen=(
        Cell("a human asked for its stop", asked_to_stop, ends(killed(15)), LEAVE_R14),
        Cell("its lines say that somebody stopped it", trained(), ends_by("user_stopped"), ASK_R14),
        Cell(
            "STOPPED, and the orchestrator says by a user",
            trained(),
            ends(job(JobState.STOPPED, message="Terminated by user")),
            ASK_R14,
        ),
        Cell("STOPPED by nobody on record", trained(), ends(job(JobState.STOPPED)), ASK_R14),
    ),
    boundary=(
        Cell("ended by a signal, not stopped", trained(), ends(killed(9)), RELAUNCH_R1),
        Cell("success after the stop", asked_to_stop, ends(succeeded()), (Action.VERIFY, "R15")),
    ),
    planned=(
        paused("any end", LOST),
        Cell("a stop on record in a pause", in_window(asked_to_stop), ends(killed(15)), LEAVE_R14),
        Cell(
            "an end after the window",
            in_window(trained()),
            lambda history: history.fail(node_lost(), wait=3 * timedelta(hours=1), **KEEP),
            RELAUNCH_R1,
        ),
    ),
    unknown=(
        unseen(
            "a stop was asked for, and the orchestrator is silent",
            ends(killed(15), **KEEP, without=("orchestrator",)),
            None,
            asked_to_stop,
        ),
        unseen(
            "all but the orchestrator is silent",
            ends(killed(15), **SILENT),
            LEAVE_R14,
            asked_to_stop,
        ),
    ),
)

VERIFY_R15 = (Action.VERIFY, "R15")
DONE: dict[str, Any] = {"step": 5154, "found": listing(5155)}

R15 = Decides(
    rule="R15",
    chosen=(
        Cell("the orchestrator says success", trained(), ends(succeeded(), **DONE), VERIFY_R15),
        Cell(
            "the same while H7 is open: R4 asks first, and the seal waits for the answer",
            bad_numbers,
            ends(succeeded(), **DONE),
            VERIFY_R15,
        ),
    ),
    boundary=(
        Cell(
            "exit code 0 of a job that failed", trained(), ends(exited(0)), (Action.ESCALATE, "R19")
        ),
        Cell(
            "the last step is seen, and the tracker says finished",
            trained(),
            lambda history: look(
                history,
                shown=tracker(5154, state="finished", heartbeat_at=history.now + 10 * MINUTE),
                lines=steps(5154),
                found=listing(900, 1000, 5155),
            ),
            None,
        ),
    ),
    planned=(Cell("in a pause", in_window(trained()), ends(succeeded(), **DONE), VERIFY_R15),),
    unknown=(
        unseen("all but the orchestrator is silent", ends(succeeded(), **SILENT), VERIFY_R15),
        unseen(
            "the orchestrator is silent", ends(succeeded(), **DONE, without=("orchestrator",)), None
        ),
    ),
)

ASK_R16 = (Action.ESCALATE, "R16")
FULL = "OSError: [Errno 28] No space left on device: '/tmp/ray/spill' (node_ip=10.128.0.7)"
NO_HOST = "OSError: [Errno 28] No space left on device: '/tmp/x'"
DISK_FULL = ends_by("disk_full", lines=[FULL], **KEEP)

R16 = Decides(
    rule="R16",
    chosen=(
        Cell("host and path are named", trained(), proposes(DISK_FULL, "host_cleanup"), ASK_R16),
        Cell(
            "a human consented and answered",
            trained(),
            then(DISK_FULL, consented),
            (Action.RELAUNCH, "R16"),
        ),
    ),
    boundary=(
        Cell(
            "a human answered without a consent",
            trained(),
            then(DISK_FULL, answered),
            (Action.RELAUNCH, "R19"),
        ),
    ),
    planned=(paused("a full disk", DISK_FULL),),
    unknown=(
        unseen("no line names the host", ends_by("disk_full", lines=[NO_HOST], **KEEP), ASK_R16),
    ),
)

ALERT_R17 = (Action.ALERT, "R17")
TELL_R17 = (Action.NOTIFY, "R17")


def identity_of(name: str) -> When:
    """A look at which the tracker shows this id."""

    def made(history: History) -> Answer:
        shown = tracker(1100, tracker_id=name, heartbeat_at=history.now + 10 * MINUTE)
        return look(history, shown=shown, lines=steps(1100), found=KEPT)

    return made


def longer(history: History) -> Answer:
    """A look at which the tracker's configuration says another last step."""
    shown = tracker(1100, final_step=9999, heartbeat_at=history.now + 10 * MINUTE)
    return look(history, shown=shown, lines=steps(1100), found=KEPT)


R17 = Decides(
    rule="R17",
    chosen=(
        Cell("H2 opens on a live job", trained(), identity_of("other"), ALERT_R17),
        Cell("H10 opens on a live job", trained(), longer, TELL_R17),
    ),
    boundary=(
        Cell("nothing opens", trained(), shows(step=1100, lines=steps(1100), found=KEPT), None),
        Cell(
            "the same finding again",
            trained(),
            then(identity_of("other"), identity_of("other")),
            None,
        ),
        Cell("the look sees its end", trained(), ends_elsewhere, ASK_R9),
    ),
    planned=(
        Cell(
            "the act expects it",
            in_window(trained(), expects=("H2",)),
            identity_of("other"),
            None,
        ),
        Cell(
            "the act expects another rule",
            in_window(trained(), expects=("H3",)),
            identity_of("other"),
            ALERT_R17,
        ),
    ),
    unknown=(
        unseen("no source answers", shows(without=("orchestrator", *SILENT["without"])), None),
    ),
)


def relaunch_of_a_live_run_is_refused() -> None:
    """Silence is no end: what lives, or may live, is never relaunched."""
    history = asked_to_relaunch()
    for facts in (SILENT, {"without": ("orchestrator", *SILENT["without"])}, {"said": GONE}):
        answer = look(history, **facts)
        destroys_nothing(answer)
        history.when(relaunch_now(history)).refused(Refusal.STILL_LIVE)
    assert isinstance(history.run.phase, Running)
    lost = history.fail(killed(15), **NO_STORE)
    assert not lost.all(DecisionMade)
    destroys_nothing(lost)


def relaunch_now(history: History) -> Any:
    """The command that launches the next instance, though none is decided."""
    decided = story(Interrupted)
    return decided.relaunch_command(token=history.run.watch.token, now=history.now)


R18 = Decides(
    rule="R18",
    chosen=(
        Cell(
            "a human asked for it, and the orchestrator says that the instance ended",
            asked_to_relaunch,
            ends(killed(15)),
            (Action.RELAUNCH, "R18"),
        ),
    ),
    boundary=(
        Cell(
            "asked for, and it still runs",
            asked_to_relaunch,
            shows(step=1100, lines=steps(1100), found=KEPT),
            None,
        ),
        Cell("it ended well before", asked_to_relaunch, ends(succeeded(), **DONE), VERIFY_R15),
    ),
    planned=(
        Cell(
            "asked for in a pause",
            in_window(asked_to_relaunch),
            ends(killed(15)),
            (Action.RELAUNCH, "R18"),
        ),
    ),
    unknown=Told(
        "no source answers, the orchestrator does not know the job, or the store is silent after "
        "its end: nothing, and a relaunch is refused",
        relaunch_of_a_live_run_is_refused,
    ),
)

ASK_R19 = (Action.ESCALATE, "R19")


def blocked(history: History) -> Answer:
    """The gate blocks the relaunch: another run holds the root."""
    return history.tell(history.relaunch_command(clear_for(1000, root_held_by="other-run i1")))


def beside_lives(other: OtherJob) -> When:
    """Its node is lost, and the cluster has this other job."""
    return lambda history: look(history, node_lost(), others=(other,), further=("cluster",), **KEEP)


R19 = Decides(
    rule="R19",
    chosen=(
        Cell("exit code 1 without a word", trained(), ends(exited(1)), ASK_R19),
        Cell(
            "what was to be retried once came back later on",
            AGAIN,
            ends(killed(), step=2300, found=listing(900, 1000, 2300)),
            ASK_R19,
        ),
        Cell(
            "the store is silent for two cadences after an end",
            trained(),
            then(
                LOST_UNSEEN,
                ends(node_lost(), **NO_STORE, wait=30 * MINUTE),
            ),
            ASK_R19,
        ),
        Cell(
            "a node is lost, and another live job writes to the root",
            trained(),
            beside_lives(TWIN),
            ASK_R19,
        ),
        Cell("the gate blocks what was decided", lambda: story(Interrupted), blocked, ASK_R19),
        Cell(
            "a human answered: relaunch",
            trained(),
            then(ends(exited(1)), answered),
            (Action.RELAUNCH, "R19"),
        ),
    ),
    boundary=(
        Cell("the same end by a signal, once", trained(), ends(killed()), RELAUNCH_R1),
        Cell(
            "a node is lost, and another job lives on a root beside it",
            trained(),
            beside_lives(TWIN.model_copy(update={"root": f"{ROOT}-b"})),
            RELAUNCH_R1,
        ),
    ),
    planned=(paused("exit code 1", ends(exited(1))),),
    unknown=(
        unseen(
            "the orchestrator does not know the job",
            shows(said=GONE, step=1100, found=KEPT),
            (Action.ALERT, "R19"),
        ),
        unseen(
            "the store is silent for less than two cadences after an end",
            then(LOST_UNSEEN, ends(node_lost(), **NO_STORE, wait=14 * MINUTE)),
            None,
        ),
        unseen("exit code 1, and all else is silent", ends(exited(1), **SILENT), ASK_R19),
    ),
)

FURTHER_ROWS = (R10, R11, R12, R13, R14, R15, R16, R17, R18, R19)
"""In the order of their ids."""
