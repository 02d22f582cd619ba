"""Histories with handovers, planned acts and manoeuvres, told by commands through the domain."""

from datetime import timedelta

from tests.domain.given import History
from tests.domain.samples import (
    DRI,
    HOLDER,
    LOOP,
    RIVAL,
    ROOT,
    checkpoint,
    clear,
    clear_for,
    contract,
    described,
    job,
    listing,
    sealable,
    seen,
)
from tests.domain.stories import story, successor
from watchkeeper.domain.rules.health.commands import ReportStaleMonitor
from watchkeeper.domain.rules.launch.commands import AdoptInstance, ApproveLaunch
from watchkeeper.domain.rules.operator.commands import (
    AnnounceAct,
    AnswerQuestion,
    EndAct,
    NameAncestor,
    PlanRollback,
    RequestRelaunch,
    Supersede,
)
from watchkeeper.domain.rules.seal.commands import VerifyMilestone
from watchkeeper.domain.rules.watch.commands import HandOver, TakeWatch
from watchkeeper.domain.run.operator import ActKind
from watchkeeper.domain.run.phases import Running
from watchkeeper.domain.values.basic import CheckpointListing, JobState

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)


def manoeuvred() -> History:
    """A planned act, a handover, a milestone, a planned relaunch, a rollback, a successor."""
    history = story(Running)
    history.tell(
        AnnounceAct(
            now=history.now,
            actor=DRI,
            kind=ActKind.MAINTENANCE,
            starts_at=history.now,
            ends_at=history.now + 2 * HOUR,
            expects=("H6", "H1"),
            reason="a switch of rack 3 is replaced",
        )
    )
    history.later(MINUTE).tell(
        HandOver(now=history.now, actor=DRI, to="alice", here=HOLDER, note="rack 3 flaps")
    )
    alice = HOLDER.model_copy(update={"principal": "alice"})
    taken = TakeWatch(now=history.now + MINUTE, actor=LOOP, holder=alice, same_home=True)
    history.later(MINUTE).tell(taken)
    facts = sealable(history.now).model_copy(
        update={"observation": seen(at=history.now, said=job(), step=1200, found=found(1000))}
    )
    history.tell(VerifyMilestone(now=history.now, actor=DRI, step=1000, facts=facts))
    history.later(MINUTE).tell(EndAct(now=history.now, actor=DRI, act="act-1", reason="done early"))
    history.later(HOUR).tell(ReportStaleMonitor(now=history.now, actor=LOOP, reporter=RIVAL))
    history.check(step=1210, found=found(900, 1000, 1200))
    history.tell(RequestRelaunch(now=history.now, actor=DRI, reason="a new driver"))
    history.fail(job(JobState.STOPPED), step=1220, found=found(900, 1000, 1200))
    history.relaunch().train(1300, found=found(900, 1000, 1200, 1300))
    return rolled_back(history)


def found(*steps: int) -> CheckpointListing:
    """A listing of complete checkpoints."""
    return listing(*(checkpoint(step) for step in steps))


def rolled_back(history: History) -> History:
    """Back to step 900, then closed in favour of a successor."""
    facts = clear_for(900)
    history.tell(
        PlanRollback(
            now=history.now,
            actor=DRI,
            step=900,
            submission_id="grug-moe-1e23-ep8-i3-home",
            facts=facts,
            reason="the loss rose after step 900",
        )
    )
    assert history.run.operator.rollback is not None
    digest = history.run.operator.rollback.digest
    history.later(MINUTE).tell(ApproveLaunch(now=history.now, actor=DRI, digest=digest))
    history.fail(job(JobState.STOPPED), step=1310, found=found(900, 1000, 1200, 1300))
    history.relaunch()
    history.fail(job(JobState.FAILED, exit_code=1), step=950, found=found(900, 1000))
    return history.later(MINUTE)


def superseded() -> History:
    """Closed in favour of a run of another name."""
    history = manoeuvred()
    history.tell(
        AnswerQuestion(now=history.now, actor=DRI, question="q-1", note="another data mix")
    )
    new = successor(initialize_from=f"{ROOT}/checkpoints/step-900")
    history.tell(Supersede(now=history.now, actor=DRI, successor=new, reason="another data mix"))
    return history


def adopted() -> History:
    """A successor whose job was launched by hand, adopted, and watched to its stopping point."""
    promised = contract(initialize_from=f"{ROOT}-a/checkpoints/step-900", stopping={"step": 1000})
    history = History().draft(promised)
    history.tell(
        NameAncestor(
            now=history.now,
            actor=DRI,
            ancestors=("grug-moe-1e23", "grug-moe-1e23-ep8-a"),
            checkpoint=f"{ROOT}-a/checkpoints/step-900",
            step=900,
            reason="another data mix",
        )
    )
    source = checkpoint(900, path=f"{ROOT}-a/checkpoints/step-900")
    history.tell(
        AdoptInstance(
            now=history.now,
            actor=DRI,
            found=described(),
            facts=clear(source=source, source_reading=clear_for(900).source_reading),
            note="launched from the old scripts",
        )
    )
    return history.take_watch().train(950).train(1001)
